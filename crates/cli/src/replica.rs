//! Describes the source of a replica.

use undercroft_engine::{Lag, LinkStatus, SourceLink, Store};

/// Returns a replica's connection to its source and its lag, or `None` if the store is no replica.
pub(crate) fn followed(store: &Store) -> Option<(SourceLink, Lag)> {
    let link = store.source_link().ok().flatten()?;
    Some((link, store.lag().ok().flatten()?))
}

/// Returns the position in the source's stream up to which changes are applied.
pub(crate) fn applied(store: &Store) -> Option<u64> {
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
