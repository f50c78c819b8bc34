//! Follows a master of a cluster, or the one that takes its place.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use undercroft_engine::{LinkStatus, Source};

use crate::follow::applying::{self, ACKNOWLEDGING, LOAD_PAUSE, PAUSES, RECORDING};
use crate::follow::changes::Changes;
use crate::follow::client::SourceClient;
use crate::follow::cluster::rendezvous::{Loaded, Outcome};
use crate::follow::cluster::routed::{Placing, Routed};
use crate::follow::cluster::shared::{LaneState, Sender, Shared};
use crate::follow::cluster::topology::View;
use crate::follow::error::FollowError;
use crate::follow::handshake::{self, Begun};
use crate::follow::link::{LOOK, Link};
use crate::follow::transfer;

/// The interval at which a lane looks for the end of a wait for other lanes.
const TURN: Duration = Duration::from_millis(10);
/// How often a lane waits for the end of a slot's move before all data sets are loaded again.
const WAITS_MAX: usize = 10;
/// The maximum number of bytes of changes that are kept until the data sets of other lanes are visible.
const KEPT_MAX: usize = 256 << 20;
/// The interval at which the node is asked what it says about the cluster.
const ASKING: Duration = Duration::from_secs(1);

/// Follows until all threads must end, the lane is retired, or following cannot continue.
pub(super) fn run(shared: &Shared<'_>, lane: &LaneState) {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| keep_asking(shared, lane, &ends));
        follow(shared, lane);
        ends.store(true, Ordering::Release);
        asking.thread().unpark();
    });
}

fn follow(shared: &Shared<'_>, lane: &LaneState) {
    let (mut pause, mut waits) = (PAUSES.0, 0);
    while !must_end(shared, lane) {
        let (connected, mut least) = (Instant::now(), Duration::ZERO);
        // No change has to wait until it is durable, as with a single server.
        let (ended, _) = shared.store.deferring(|| follow_once(shared, lane));
        shared.rendezvous.leave(lane.number);
        lane.state
            .update(|progress| progress.status = LinkStatus::Down);
        match ended.and(shared.record_link(lane)) {
            Ok(()) | Err(FollowError::Stopped) => {}
            Err(error) => {
                let text = error.to_string();
                lane.state.update(|progress| progress.error = Some(text));
                // The error matters less than the next attempt.
                let _ = shared.record_link(lane);
                if error.is_final() {
                    shared.failed.lock().get_or_insert(error);
                    return;
                }
                if matches!(error, FollowError::Unfiltered(_) | FollowError::Reload(_)) {
                    shared.rendezvous.require(lane.number);
                }
                if error.is_lack_of_space() {
                    least = LOAD_PAUSE;
                }
                if matches!(error, FollowError::MovesOn(_)) {
                    waits += 1;
                    // A move from a lane without a data set does not end.
                    if shared.rendezvous.needs(lane.number) || waits > WAITS_MAX {
                        waits = 0;
                        shared.begins_anew.store(true, Ordering::Release);
                    }
                }
            }
        }
        if connected.elapsed() > PAUSES.1 {
            pause = PAUSES.0;
        }
        let until = Instant::now() + pause.max(least);
        while Instant::now() < until && !must_end(shared, lane) {
            thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        pause = (2 * pause).min(PAUSES.1);
    }
}

fn must_end(shared: &Shared<'_>, lane: &LaneState) -> bool {
    shared.must_end() || lane.is_retired.load(Ordering::Acquire)
}

/// Asks the lane's node every second what it says about the cluster, and for its position.
fn keep_asking(shared: &Shared<'_>, lane: &LaneState, ends: &AtomicBool) {
    let must_end = || ends.load(Ordering::Acquire) || shared.must_end();
    let mut connected: Option<(SourceClient<'_>, u64)> = None;
    while !must_end() {
        let (sender, changes) = lane.sender();
        if let Some(Sender { address, .. }) = sender {
            let url = shared.options.url.of(&address);
            let client = connected.take().filter(|(_, of)| *of == changes);
            let asked = match client {
                Some((client, _)) => Ok(client),
                None => SourceClient::connect(&url, &must_end),
            }
            .and_then(|mut client| Ok((View::ask(&mut client, &address)?, client)));
            // Without an answer, the cluster stays as it was.
            if let Ok((view, client)) = asked
                && changes == lane.changes()
            {
                if lane.state.progress().status == LinkStatus::Up {
                    lane.state.note_source(view.asked, view.after);
                }
                lane.set_view(view);
                connected = Some((client, changes));
            }
        }
        thread::park_timeout(ASKING);
    }
}

/// Connects once, and follows until the connection is lost.
fn follow_once(shared: &Shared<'_>, lane: &LaneState) -> Result<(), FollowError> {
    let (sender, changes) = lane.sender();
    let Some(Sender { id, address }) = sender else {
        return Ok(());
    };
    let stops = || must_end(shared, lane) || lane.changes() != changes;
    let options = shared.options;
    let mut link = Link::connect(&address, &options.url, &stops)?;
    link.log_in(&options.url)?;
    handshake::introduce(&mut link, options.listening_port)?;
    let ask = || {
        let mut client = SourceClient::connect(&options.url.of(&address), &stops)?;
        View::ask(&mut client, &address)
    };
    let rendezvous = &shared.rendezvous;
    let how = (&ask as _, rendezvous);
    let routed = Routed::new(&shared.routes, &options.filter, lane.number, how);
    let cluster = shared.store.cluster_source()?;
    let recorded = cluster
        .as_ref()
        .and_then(|cluster| cluster.lane(lane.number));
    let known = recorded.filter(|_| !rendezvous.needs(lane.number));
    let known = known.map(|recorded| Source {
        id: recorded.id,
        position: recorded.position,
    });
    let mut view = lane.view();
    if known.is_none() {
        wait_for_phase(shared, lane, &stops)?;
        view = Some(Arc::new(ask()?));
    }
    let source = match handshake::begin(&mut link, known)? {
        Begun::Partial(source) => {
            shared.routes.change(|rerouting| {
                rerouting.rename_lane(lane.number, &source.id, &id, &address);
                Ok(())
            })?;
            lane.state.update(|progress| progress.partial_resyncs += 1);
            source
        }
        Begun::Full(source) => load((shared, lane), &routed, (&mut link, &stops), (source, view))?,
    };
    lane.state.forget_source();
    lane.state.update(|progress| {
        progress.status = LinkStatus::Up;
        progress.offset = source.position.offset;
        progress.error = None;
    });
    shared.record_link(lane)?;
    let to = (shared.store, &routed as _, options.load.drop_field_expiry);
    let mut applied = Changes::new(to, shared.host, &lane.state, &stops, source.position)?;
    let record = || match rendezvous.needs(lane.number) {
        true => Err(FollowError::Reload(
            "a slot has moved from a master that cannot be asked any more".into(),
        )),
        false => shared.record_link(lane),
    };
    let wait = |time| {
        thread::sleep(time);
        match stops() {
            true => Err(FollowError::Stopped),
            false => Ok(()),
        }
    };
    applying::apply(&mut link, &mut applied, &lane.state, &record, &wait)
}

/// Waits until the lane's data set can be loaded. Returns the number of the phase.
fn wait_for_phase(
    shared: &Shared<'_>,
    lane: &LaneState,
    stops: &dyn Fn() -> bool,
) -> Result<u64, FollowError> {
    lane.state
        .update(|progress| progress.status = LinkStatus::Loading);
    shared.rendezvous.enter(lane.number);
    loop {
        if let Some(phase) = shared.rendezvous.phase_of(lane.number) {
            return Ok(phase);
        }
        if stops() {
            return Err(FollowError::Stopped);
        }
        thread::sleep(TURN);
    }
}

/// Loads the lane's data set together with those of other lanes, and waits until all are visible.
/// `view` is what the node said before it made the data set.
fn load(
    (shared, lane): (&Shared<'_>, &LaneState),
    routed: &Routed<'_>,
    (link, stops): (&mut Link<'_>, &dyn Fn() -> bool),
    (source, view): (Source, Option<Arc<View>>),
) -> Result<Source, FollowError> {
    let phase = wait_for_phase(shared, lane, stops)?;
    shared.record_link(lane)?;
    let recorded = Cell::new(Instant::now());
    let record = || {
        if recorded.get().elapsed() >= RECORDING {
            recorded.set(Instant::now());
            // The data set matters more than the reports.
            let _ = shared.record_link(lane);
        }
    };
    let placing = Placing::new(routed, source.position.offset);
    let place = |database, key: &[u8]| placing.database(database, key);
    let (to, options) = ((shared.store, &lane.state), &shared.options.load);
    let received = transfer::receive(link, to, &source, options, &place, &record);
    if let Some(error) = placing.failed.take() {
        return Err(error);
    }
    let received = received?;
    let (source, keys) = (received.source, received.keys);
    let loaded = Loaded { received, view };
    shared.rendezvous.report(phase, lane.number, loaded);
    wait_until_visible(shared, phase, (link, stops), &source)?;
    lane.state.update(|progress| {
        progress.loaded_keys = keys;
        progress.full_resyncs += 1;
    });
    Ok(source)
}

/// Waits until the data sets of a phase are visible. Changes arrive in the meantime, and are kept.
fn wait_until_visible(
    shared: &Shared<'_>,
    phase: u64,
    (link, stops): (&mut Link<'_>, &dyn Fn() -> bool),
    source: &Source,
) -> Result<(), FollowError> {
    let mut acknowledged: Option<Instant> = None;
    loop {
        match shared.rendezvous.outcome(phase) {
            Outcome::Visible => return Ok(()),
            Outcome::Failed => {
                return Err(FollowError::Cluster(
                    "another master's data set could not be loaded; loading all of them again"
                        .into(),
                ));
            }
            Outcome::Running if stops() => return Err(FollowError::Stopped),
            Outcome::Running => {}
        }
        if acknowledged.is_none_or(|at| at.elapsed() >= ACKNOWLEDGING) {
            acknowledged = Some(Instant::now());
            applying::acknowledge(link, source.position.offset)?;
        }
        // The rest waits at the source, which limits its own memory.
        match link.input.len() < KEPT_MAX {
            true => drop(link.receive()?),
            false => thread::sleep(LOOK),
        }
    }
}
