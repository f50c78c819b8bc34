//! The state that the threads of the lanes and the thread that coordinates them share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use undercroft_commands::context::Host;
use undercroft_engine::{ForkMutex, SourceLink, Store};

use crate::follow::cluster::rendezvous::Rendezvous;
use crate::follow::cluster::routes::Routes;
use crate::follow::cluster::topology::View;
use crate::follow::error::{FollowError, is_lack_of_space};
use crate::follow::options::FollowOptions;
use crate::follow::source_url::Address;
use crate::follow::state::FollowState;

/// The time without an answer of a node after which its slots can become another node's without it.
const GONE: Duration = Duration::from_secs(15);

/// The node that sends the stream of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) id: String,
    pub(super) address: Address,
}

/// A lane, as all threads see it.
pub(super) struct LaneState {
    pub(super) number: u8,
    sender: ForkMutex<Option<Sender>>,
    /// How often the node has changed.
    changes: AtomicU64,
    /// Whether the lane's thread must end, because its node is no master any more.
    pub(super) is_retired: AtomicBool,
    pub(super) state: FollowState,
    /// The node's last view of the cluster.
    view: ForkMutex<Option<Arc<View>>>,
    /// When the node last answered, or became the sender.
    answered: ForkMutex<Option<Instant>>,
    /// The record of the connection in the store.
    link: ForkMutex<SourceLink>,
}

impl LaneState {
    pub(super) fn new(number: u8, sender: Sender) -> LaneState {
        let lane = LaneState {
            number,
            sender: ForkMutex::default(),
            changes: AtomicU64::new(0),
            is_retired: AtomicBool::new(false),
            state: FollowState::default(),
            view: ForkMutex::default(),
            answered: ForkMutex::default(),
            link: ForkMutex::default(),
        };
        *lane.answered.lock() = Some(Instant::now());
        *lane.sender.lock() = Some(sender);
        lane
    }

    /// Returns the node, and how often it has changed.
    pub(super) fn sender(&self) -> (Option<Sender>, u64) {
        let sender = self.sender.lock();
        (sender.clone(), self.changes.load(Ordering::Acquire))
    }

    /// Returns whether a node sends the stream of the lane.
    pub(super) fn is_of(&self, id: &str) -> bool {
        let sender = self.sender.lock();
        sender.as_ref().is_some_and(|sender| sender.id == id)
    }

    /// Makes another node the sender of the stream, or gives the same node another address.
    pub(super) fn set_sender(&self, new: Sender) {
        let mut sender = self.sender.lock();
        if sender.as_ref() != Some(&new) {
            *sender = Some(new);
            self.changes.fetch_add(1, Ordering::Release);
            *self.view.lock() = None;
            *self.answered.lock() = Some(Instant::now());
        }
    }

    /// Returns how often the node has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes what the node says about the cluster.
    pub(super) fn set_view(&self, view: View) {
        *self.view.lock() = Some(Arc::new(view));
        *self.answered.lock() = Some(Instant::now());
    }

    /// Returns what the node last said about the cluster, unless that was a long time ago.
    pub(super) fn view(&self) -> Option<Arc<View>> {
        let view = self.view.lock().clone();
        view.filter(|view| view.asked.elapsed() < GONE)
    }

    /// Returns whether the node has not answered for a long time.
    pub(super) fn is_gone(&self) -> bool {
        self.answered.lock().is_none_or(|at| at.elapsed() >= GONE)
    }
}

/// The state that all threads share.
pub(super) struct Shared<'a> {
    pub(super) store: &'a Store,
    pub(super) host: Host<'a>,
    pub(super) options: &'a FollowOptions,
    pub(super) routes: Routes<'a>,
    pub(super) rendezvous: Rendezvous,
    pub(super) lanes: ForkMutex<BTreeMap<u8, Arc<LaneState>>>,
    /// Whether all threads must end.
    pub(super) ends: AtomicBool,
    /// Whether all data sets must be loaded again, because moves of slots cannot be told apart.
    pub(super) begins_anew: AtomicBool,
    /// Why the masters or the slots are not known, or an empty string.
    pub(super) obstacle: ForkMutex<String>,
    /// The error after which following cannot continue.
    pub(super) failed: ForkMutex<Option<FollowError>>,
}

impl Shared<'_> {
    /// Returns whether all threads must end.
    pub(super) fn must_end(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Returns all lanes in order.
    pub(super) fn all_lanes(&self) -> Vec<Arc<LaneState>> {
        self.lanes.lock().values().cloned().collect()
    }

    /// Returns a lane.
    pub(super) fn lane(&self, number: u8) -> Option<Arc<LaneState>> {
        self.lanes.lock().get(&number).cloned()
    }

    /// Records the state of a lane's connection in the store.
    pub(super) fn record_link(&self, lane: &LaneState) -> Result<(), FollowError> {
        let mut link = lane.link.lock();
        if let (Some(Sender { address, .. }), _) = lane.sender() {
            (link.host, link.port) = match address {
                Address::Tcp { host, port } => (host, port),
                Address::Unix(path) => (path.display().to_string(), 0),
            };
        }
        link.is_encrypted = self.options.url.is_encrypted;
        lane.state.fill(&mut link, self.store.now());
        match self.store.set_lane_link(lane.number, &link) {
            // The reports matter less than the changes.
            Err(error) if is_lack_of_space(&error) => Ok(()),
            recorded => Ok(recorded?),
        }
    }
}
