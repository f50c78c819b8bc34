//! Confirms that the masters of a cluster own exactly the slots that the store has recorded for them.

use undercroft_engine::Store;

use crate::follow::client::SourceClient;
use crate::follow::cluster::topology::View;
use crate::follow::error::FollowError;
use crate::follow::source_url::Address;

/// A connection to the master of a lane.
pub(in crate::follow) struct LaneClient<'c, 'a> {
    pub(in crate::follow) lane: u8,
    pub(in crate::follow) address: &'c Address,
    pub(in crate::follow) client: &'c mut SourceClient<'a>,
}

/// Asks the masters of all lanes for their slots, and compares these with the record in the store.
///
/// # Errors
/// Returns [`FollowError::Promotion`] if a slot moves, if a master was added, replaced or removed, or if
/// the store has not noticed such a change yet.
pub(in crate::follow) fn confirm(
    store: &Store,
    clients: &mut [LaneClient<'_, '_>],
) -> Result<(), FollowError> {
    let fail = |text: String| Err(FollowError::Promotion(text));
    let source = store.cluster_source()?.unwrap_or_default();
    let is_known = |lane: u8| clients.iter().any(|client| client.lane == lane);
    if source.lanes.len() != clients.len() || !source.lanes.iter().all(|lane| is_known(lane.number))
    {
        return fail("its source has got or lost a master in the meantime; try again".into());
    }
    let moves = "slots move between the masters of its source; try again when the moves are over";
    if !source.moving.is_empty() || !source.doubtful.is_empty() {
        return fail(moves.into());
    }
    for LaneClient {
        lane,
        address,
        client,
    } in clients
    {
        let view = View::ask(client, address)?;
        let recorded = source.lane(*lane);
        if !view.is_master || recorded.is_none_or(|recorded| recorded.node != view.id) {
            return fail(format!(
                "{address} is not the master any more that the store follows; try again"
            ));
        }
        if !view.imported.is_empty() || !view.migrated.is_empty() {
            return fail(moves.into());
        }
        let mut slots: Vec<u16> = view.slots().collect();
        slots.sort_unstable();
        if !source.owners.of(*lane).eq(slots) {
            return fail(format!(
                "the store does not know yet which slots {address} has; try again"
            ));
        }
    }
    Ok(())
}
