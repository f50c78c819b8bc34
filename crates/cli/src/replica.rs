//! Describes the source of a replica, and ends the role of a replica.

use std::thread;
use std::time::{Duration, Instant};

use undercroft_engine::{Lag, LinkStatus, SourceLink, Store};

use crate::failure::Failure;

/// The interval at which a wait looks for the end of a follower.
const LOOK: Duration = Duration::from_millis(100);
/// The longest wait for the end of a follower, which looks for the end of the role every 100 ms.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns a replica's connection to its source and its lag, or `None` if the store is no replica.
pub(crate) fn followed(store: &Store) -> Option<(SourceLink, Lag)> {
    let link = store.source_link().ok().flatten()?;
    Some((link, store.lag().ok().flatten()?))
}

/// Returns the position in the source's stream up to which changes are applied, or the sum of those of
/// all masters of a cluster.
pub(crate) fn applied(store: &Store) -> Option<u64> {
    if let Some(cluster) = store.cluster_source().ok().flatten() {
        return Some(cluster.lanes.iter().map(|lane| lane.position.offset).sum());
    }
    let source = store.source().ok().flatten();
    source.map(|source| source.position.offset)
}

/// Returns the address of a source.
pub(crate) fn shown_source(link: &SourceLink) -> String {
    match link.port {
        0 => link.host.clone(),
        port => format!("{}:{port}", link.host),
    }
}

/// Returns the name of the state of a connection.
pub(crate) fn status_name(status: LinkStatus) -> &'static str {
    match status {
        LinkStatus::Down => "down",
        LinkStatus::Loading => "loading",
        LinkStatus::Up => "up",
    }
}

/// Waits until no process follows the source of a store that is no replica any more, and forgets the
/// source.
pub(crate) fn end_role(store: &Store) -> Result<(), Failure> {
    // A process that follows a source ends once it sees that the store is no replica.
    let start = Instant::now();
    while store.lock_following()?.is_none() && start.elapsed() < PATIENCE {
        thread::sleep(LOOK);
    }
    Ok(store.forget_source()?)
}
