//! Finds the masters of the cluster, and the node that sends the stream of each lane.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use undercroft_engine::Store;

use crate::follow::client::SourceClient;
use crate::follow::cluster::shared::{LaneState, Sender, Shared};
use crate::follow::cluster::topology::{Node, View};
use crate::follow::error::FollowError;
use crate::follow::source_url::Address;

/// The age up to which what a node says about others counts.
const RECENT: Duration = Duration::from_secs(4);

/// Asks a node that no lane has, or that is not known yet.
pub(super) fn ask(
    shared: &Shared<'_>,
    address: &Address,
    stops: &dyn Fn() -> bool,
) -> Result<View, FollowError> {
    let mut client = SourceClient::connect(&shared.options.url.of(address), stops)?;
    View::ask(&mut client, address)
}

/// Asks the node of a lane.
pub(super) fn ask_lane(shared: &Shared<'_>, lane: &LaneState) -> Result<View, FollowError> {
    let Some(sender) = lane.sender().0 else {
        return Err(FollowError::Stopped);
    };
    ask(shared, &sender.address, &|| shared.must_end())
}

/// Finds masters without a lane. Returns the lanes that are new. Retires lanes whose node is no master
/// any more and that have no slots.
///
/// # Errors
/// Fails if no node of the cluster answers, or if there are more masters than lanes.
pub(super) fn find(
    shared: &Shared<'_>,
    stops: &dyn Fn() -> bool,
) -> Result<Vec<Arc<LaneState>>, FollowError> {
    let lanes = shared.all_lanes();
    let mut views: Vec<Arc<View>> = lanes.iter().filter_map(|lane| lane.view()).collect();
    if views.is_empty() {
        views.push(Arc::new(first(shared, &lanes, stops)?));
    }
    let mut masters: BTreeMap<String, Node> = BTreeMap::new();
    for node in views.iter().flat_map(|view| &view.nodes) {
        if node.is_master && !lanes.iter().any(|lane| lane.is_of(&node.id)) {
            masters.insert(node.id.clone(), node.clone());
        }
    }
    let mut added = Vec::new();
    for node in masters.into_values() {
        // Only a node's own word counts. One that does not answer is asked again.
        let Ok(view) = ask(shared, &node.address, stops) else {
            continue;
        };
        if !view.is_master || view.id != node.id {
            continue;
        }
        let sender = Sender {
            id: node.id,
            address: node.address,
        };
        match succeeded(shared, &view, &views) {
            Some(lane) => lane.set_sender(sender),
            None => added.push(add(shared, sender)?),
        }
    }
    retire(shared)?;
    Ok(added)
}

/// Asks the first node that answers: those of the URL, or those of the lanes.
fn first(
    shared: &Shared<'_>,
    lanes: &[Arc<LaneState>],
    stops: &dyn Fn() -> bool,
) -> Result<View, FollowError> {
    let senders = lanes.iter().filter_map(|lane| lane.sender().0);
    let mut failed = None;
    let addresses = shared.options.url.addresses.iter().cloned();
    for address in addresses.chain(senders.map(|sender| sender.address)) {
        match ask(shared, &address, stops) {
            Ok(view) => return Ok(view),
            Err(FollowError::Stopped) => return Err(FollowError::Stopped),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| FollowError::Url("expected nodes of a cluster, got none".into())))
}

/// Returns the lane whose node a master has succeeded: its node is no master any more, and the master
/// owns a slot of the lane.
fn succeeded(shared: &Shared<'_>, master: &View, views: &[Arc<View>]) -> Option<Arc<LaneState>> {
    let owners = shared.routes.source().owners;
    let lanes = shared.all_lanes();
    lanes.into_iter().find(|lane| {
        let Some(sender) = lane.sender().0 else {
            return false;
        };
        let is_master = |view: &View| {
            let mut nodes = view.nodes.iter();
            nodes.any(|node| node.id == sender.id && node.is_master)
        };
        let says_so = |view: &&Arc<View>| view.id != sender.id;
        let is_over = match lane.view().filter(|view| !view.is_master) {
            Some(_) => true,
            // The other nodes agree that the node has failed.
            None => {
                let is_recent = |view: &&Arc<View>| view.asked.elapsed() < RECENT;
                let others = views.iter().filter(says_so).filter(is_recent);
                !is_master(master) && !others.into_iter().any(|view| is_master(view))
            }
        };
        is_over && owners.of(lane.number).any(|slot| master.owns(slot))
    })
}

fn add(shared: &Shared<'_>, sender: Sender) -> Result<Arc<LaneState>, FollowError> {
    let mut lanes = shared.lanes.lock();
    let number = (0..)
        .take(Store::LANES_MAX)
        .find(|number| !lanes.contains_key(number))
        .ok_or_else(|| {
            FollowError::Unsupported(format!(
                "the cluster has more than {} masters",
                Store::LANES_MAX
            ))
        })?;
    let lane = Arc::new(LaneState::new(number, sender));
    lanes.insert(number, lane.clone());
    shared.rendezvous.require(number);
    Ok(lane)
}

/// Ends lanes without slots whose node says that it is no master any more, or is not there.
fn retire(shared: &Shared<'_>) -> Result<(), FollowError> {
    let source = shared.routes.source();
    let moves = shared.routes.moves();
    let lanes = shared.all_lanes();
    let views: Vec<Arc<View>> = lanes.iter().filter_map(|lane| lane.view()).collect();
    for lane in &lanes {
        let Some(sender) = lane.sender().0 else {
            continue;
        };
        let number = lane.number;
        let is_used = source.owners.of(number).next().is_some()
            || moves.iter().any(|&(_, _, to)| to == number)
            || lane
                .view()
                .is_some_and(|view| view.slots().next().is_some());
        let others = views.iter().filter(|view| view.id != sender.id);
        let mut others = others.peekable();
        let is_known = others.peek().is_none()
            || others.any(|view| {
                let mut nodes = view.nodes.iter();
                nodes.any(|node| node.id == sender.id && node.is_master)
            });
        if !is_used && !is_known {
            lane.is_retired.store(true, Ordering::Release);
            shared.lanes.lock().remove(&number);
            shared.rendezvous.forget(number);
            shared.routes.change(|rerouting| {
                rerouting.remove_lane(number);
                Ok(())
            })?;
        }
    }
    Ok(())
}
