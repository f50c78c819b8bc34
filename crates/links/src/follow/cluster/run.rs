//! Coordinates the lanes of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use undercroft_commands::context::Host;
use undercroft_engine::{ForkMutex, LinkStatus, Store};

use crate::follow::applying::{LOAD_PAUSE, RECORDING};
use crate::follow::cluster::install::install;
use crate::follow::cluster::lane;
use crate::follow::cluster::members;
use crate::follow::cluster::rendezvous::Rendezvous;
use crate::follow::cluster::routes::Routes;
use crate::follow::cluster::settling;
use crate::follow::cluster::shared::{LaneState, Sender, Shared};
use crate::follow::cluster::topology::View;
use crate::follow::error::FollowError;
use crate::follow::filter::KeyFilter;
use crate::follow::options::FollowOptions;
use crate::follow::source_url::Address;
use crate::follow::state::FollowState;

/// The interval at which the coordinator looks at the lanes.
const LOOK: Duration = Duration::from_millis(20);
/// The interval at which the masters and the moves of slots are looked at.
const SETTLING: Duration = Duration::from_millis(500);

/// A function that records the state of the following in the store.
type Record<'a> = &'a dyn Fn() -> Result<(), FollowError>;

/// Follows all masters of a cluster until `stops` returns true. `state` is that of all lanes together.
///
/// # Errors
/// Returns the errors after which following cannot continue.
pub(in crate::follow) fn run(
    (store, host): (&Store, Host<'_>),
    options: &FollowOptions,
    (state, record): (&FollowState, Record<'_>),
    stops: &dyn Fn() -> bool,
) -> Result<(), FollowError> {
    let options = FollowOptions {
        filter: filter_of(&options.filter)?,
        ..options.clone()
    };
    let filter = options.filter.to_bytes();
    if store.source_filter()? != filter || store.source()?.is_some() {
        // The store has another part of the source, or another source.
        store.forget_source()?;
        store.set_source_filter(&filter)?;
    }
    let shared = Shared {
        store,
        host,
        options: &options,
        routes: Routes::of(store)?,
        rendezvous: Rendezvous::default(),
        lanes: ForkMutex::default(),
        ends: AtomicBool::new(false),
        begins_anew: AtomicBool::new(false),
        obstacle: ForkMutex::default(),
        failed: ForkMutex::default(),
    };
    let recorded = resume(&shared)?;
    let ended = thread::scope(|scope| {
        let shared = &shared;
        let looking = scope.spawn(move || keep_looking(shared, scope, recorded));
        let ended = Coordinator::new(shared, state, record, stops).run();
        shared.ends.store(true, Ordering::Release);
        looking.thread().unpark();
        ended
    });
    for lane in shared.all_lanes() {
        shared.record_link(&lane)?;
    }
    match shared.failed.lock().take() {
        Some(error) => Err(error),
        None => ended,
    }
}

/// Returns the filter for a cluster, which has only one database.
fn filter_of(filter: &KeyFilter) -> Result<KeyFilter, FollowError> {
    match filter.database {
        None | Some(0) => Ok(KeyFilter {
            database: None,
            ..filter.clone()
        }),
        Some(database) => Err(FollowError::Url(format!(
            "the source is a cluster, which has only database 0, not {database}; leave out --db"
        ))),
    }
}

/// Adds the lanes that the store has recorded. Returns them.
fn resume(shared: &Shared<'_>) -> Result<Vec<Arc<LaneState>>, FollowError> {
    let source = shared.routes.source();
    let mut lanes = shared.lanes.lock();
    for lane in &source.lanes {
        let address = Address::Tcp {
            host: lane.host.clone(),
            port: lane.port,
        };
        let sender = Sender {
            id: lane.node.clone(),
            address,
        };
        let state = LaneState::new(lane.number, sender);
        let offset = lane.position.offset;
        state.state.update(|progress| progress.offset = offset);
        lanes.insert(lane.number, Arc::new(state));
    }
    if !shared.routes.moves().is_empty() {
        // Nothing is known about the keys that have moved so far.
        shared.routes.begin_anew()?;
        lanes
            .keys()
            .for_each(|&lane| shared.rendezvous.require(lane));
    }
    Ok(lanes.values().cloned().collect())
}

/// Finds masters, follows them, and settles moves of slots. Nodes that do not answer delay only this.
fn keep_looking<'s, 'e>(
    shared: &'e Shared<'e>,
    scope: &'s Scope<'s, 'e>,
    recorded: Vec<Arc<LaneState>>,
) {
    let start = |lane: Arc<LaneState>| {
        scope.spawn(move || lane::run(shared, &lane));
    };
    recorded.into_iter().for_each(start);
    let stops = || shared.must_end();
    while !stops() {
        let found = members::find(shared, &stops).and_then(|added| {
            added.into_iter().for_each(start);
            match shared.routes.is_recorded() {
                true => settling::settle(shared),
                false => Ok(()),
            }
        });
        match found {
            Err(error) if error.is_final() && !stops() => {
                shared.failed.lock().get_or_insert(error);
                return;
            }
            Err(error) => *shared.obstacle.lock() = error.to_string(),
            Ok(()) => shared.obstacle.lock().clear(),
        }
        thread::park_timeout(SETTLING);
    }
}

struct Coordinator<'c, 'a> {
    shared: &'c Shared<'a>,
    state: &'c FollowState,
    record: Record<'c>,
    stops: &'c dyn Fn() -> bool,
    /// Whether the lanes that need a data set must load theirs together: the first time, and if the
    /// moves of slots are not known.
    must_load_together: bool,
    /// The earliest time at which a data set is loaded.
    loads_after: Instant,
    error: Option<String>,
}

impl<'c, 'a> Coordinator<'c, 'a> {
    fn new(
        shared: &'c Shared<'a>,
        state: &'c FollowState,
        record: Record<'c>,
        stops: &'c dyn Fn() -> bool,
    ) -> Coordinator<'c, 'a> {
        Coordinator {
            shared,
            state,
            record,
            stops,
            must_load_together: true,
            loads_after: Instant::now(),
            error: None,
        }
    }

    fn run(&mut self) -> Result<(), FollowError> {
        let mut reported: Option<Instant> = None;
        while !(self.stops)() && self.shared.failed.lock().is_none() {
            self.load()?;
            if reported.is_none_or(|at| at.elapsed() >= RECORDING) || self.has_new_status() {
                reported = Some(Instant::now());
                self.report()?;
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Begins to load data sets if lanes wait for that, and makes them visible.
    fn load(&mut self) -> Result<(), FollowError> {
        let rendezvous = &self.shared.rendezvous;
        if self.shared.begins_anew.load(Ordering::Acquire) {
            self.must_load_together = true;
            for lane in self.shared.all_lanes() {
                rendezvous.require(lane.number);
            }
        }
        if rendezvous.is_awaited()
            && Instant::now() >= self.loads_after
            && let Err(error) = self.begin()
        {
            self.fail(error)?;
        }
        if let Some(loaded) = rendezvous.take_loaded() {
            match install(self.shared, &loaded, self.stops) {
                Ok(()) => {
                    rendezvous.end(true);
                    self.error = None;
                    self.must_load_together = false;
                }
                Err(error) => {
                    rendezvous.end(false);
                    self.fail(error)?;
                }
            }
        }
        Ok(())
    }

    /// Reports an error of the work on data sets, after which they are loaded again.
    fn fail(&mut self, error: FollowError) -> Result<(), FollowError> {
        if error.is_lack_of_space() {
            self.loads_after = Instant::now() + LOAD_PAUSE;
            // Readers and other stores need the memory of the incomplete data sets.
            let _ = self.shared.store.begin_loading();
        }
        self.error = Some(error.to_string());
        match error {
            FollowError::Stopped => Ok(()),
            error if error.is_final() => Err(error),
            _ => Ok(()),
        }
    }

    /// Begins to load the data sets of lanes that wait for that, once all are there that must be.
    fn begin(&mut self) -> Result<(), FollowError> {
        let shared = self.shared;
        let lanes = shared.all_lanes();
        let views: BTreeMap<u8, Arc<View>> = lanes
            .iter()
            .filter_map(|lane| Some((lane.number, lane.view()?)))
            .collect();
        let begins_anew = shared.begins_anew.load(Ordering::Acquire);
        let mut owners = None;
        if begins_anew || !shared.routes.is_recorded() {
            let is_awaited = |lane: &Arc<LaneState>| lane.view().is_none() && !lane.is_gone();
            if lanes.iter().any(is_awaited) {
                // The first answers are on their way.
                return Ok(());
            }
            let found = settling::owners(&views).map_err(|slot| {
                FollowError::Cluster(format!(
                    "slot {slot} has no master that can be reached; waiting for all slots"
                ))
            })?;
            owners = Some(found);
        }
        let must_load_together = self.must_load_together;
        let has_slots = |lane| {
            views
                .get(&lane)
                .is_some_and(|view| view.slots().next().is_some())
        };
        if !shared
            .rendezvous
            .can_begin(|lane| must_load_together && has_slots(lane))
        {
            return Ok(());
        }
        if begins_anew {
            shared.routes.begin_anew()?;
            shared.begins_anew.store(false, Ordering::Release);
        }
        if let Some(owners) = owners {
            shared.routes.change(|rerouting| {
                for (slot, &lane) in (0_u16..).zip(&owners) {
                    rerouting.set_owner(slot, lane);
                }
                Ok(())
            })?;
        }
        shared.store.begin_loading()?;
        shared.rendezvous.begin();
        Ok(())
    }

    /// Returns the state of all connections together.
    fn status(&self) -> LinkStatus {
        let lanes = self.shared.all_lanes();
        // A lane whose data set must be loaded again may still have a connection.
        let status = |lane: &Arc<LaneState>| match self.shared.rendezvous.needs(lane.number) {
            true => LinkStatus::Loading,
            false => lane.state.progress().status,
        };
        let mut all = lanes.iter().map(status);
        match () {
            () if lanes.is_empty() => LinkStatus::Down,
            () if all.clone().any(|status| status == LinkStatus::Loading) => LinkStatus::Loading,
            () if all.all(|status| status == LinkStatus::Up) => LinkStatus::Up,
            () => LinkStatus::Down,
        }
    }

    fn has_new_status(&self) -> bool {
        self.state.progress().status != self.status()
    }

    /// Reports the state of all lanes together.
    fn report(&self) -> Result<(), FollowError> {
        let status = self.status();
        let lanes = self.shared.all_lanes();
        let all: Vec<_> = lanes
            .iter()
            .map(|lane| {
                lane.state.settle();
                (lane.sender().0, lane.state.progress())
            })
            .collect();
        let sum = |part: fn(&crate::follow::state::Progress) -> u64| {
            all.iter().map(|(_, progress)| part(progress)).sum()
        };
        let obstacle = self.shared.obstacle.lock().clone();
        let obstacle = (!obstacle.is_empty()).then_some(obstacle);
        let error = self.error.clone().or(obstacle).or_else(|| {
            all.iter().find_map(|(sender, progress)| {
                let error = progress.error.as_ref()?;
                let address = sender.as_ref().map(|sender| sender.address.to_string());
                Some(format!("{}: {error}", address.unwrap_or_default()))
            })
        });
        self.state.update(|progress| {
            progress.status = status;
            progress.offset = sum(|lane| lane.offset);
            progress.source_offset = sum(|lane| lane.source_offset);
            progress.loaded_keys = sum(|lane| lane.loaded_keys);
            progress.loaded_bytes = sum(|lane| lane.loaded_bytes);
            progress.full_resyncs = sum(|lane| lane.full_resyncs);
            progress.partial_resyncs = sum(|lane| lane.partial_resyncs);
            progress.changes = sum(|lane| lane.changes);
            progress.failed_changes = sum(|lane| lane.failed_changes);
            progress.heard = all.iter().filter_map(|(_, lane)| lane.heard).min();
            // The store is as current as its oldest part.
            let current: Option<Vec<Instant>> = all.iter().map(|(_, lane)| lane.current).collect();
            let oldest = current.and_then(|all| all.into_iter().min());
            progress.current = oldest.or(progress.current);
            progress.error = error;
        });
        (self.record)()
    }
}
