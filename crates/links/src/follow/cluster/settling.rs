//! Begins and ends moves of slots, according to what the nodes say. The documentation of the parent
//! module explains when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use undercroft_engine::SLOTS;

use crate::follow::cluster::members;
use crate::follow::cluster::routes::begin_move;
use crate::follow::cluster::shared::Shared;
use crate::follow::cluster::topology::View;
use crate::follow::error::FollowError;

/// Begins the moves of slots whose new owner no change has revealed, and ends those that are over.
pub(super) fn settle(shared: &Shared<'_>) -> Result<(), FollowError> {
    let views: BTreeMap<u8, Arc<View>> = shared
        .all_lanes()
        .iter()
        .filter_map(|lane| Some((lane.number, lane.view()?)))
        .collect();
    begin(shared, &views)?;
    for (slot, from, to) in shared.routes.moves() {
        end(shared, &views, slot, from, to)?;
    }
    Ok(())
}

/// Begins the moves of all slots that a node owns which is not the owner so far.
fn begin(shared: &Shared<'_>, views: &BTreeMap<u8, Arc<View>>) -> Result<(), FollowError> {
    let owners = shared.routes.source().owners;
    for (&lane, view) in views {
        for slot in view.slots().filter(|&slot| owners.get(slot) != Some(lane)) {
            let owner = owners.get(slot).and_then(|owner| views.get(&owner));
            // While the owner says that the slot is its own, too, the news has not reached it yet.
            if owner.is_some_and(|owner| owner.owns(slot)) {
                continue;
            }
            let require = |lane| shared.rendezvous.require(lane);
            match begin_move(&shared.routes, slot, lane, &require) {
                Ok(()) => {}
                // The last move of the slot must end first.
                Err(FollowError::MovesOn(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Ends the move of a slot if it is over.
fn end(
    shared: &Shared<'_>,
    views: &BTreeMap<u8, Arc<View>>,
    slot: u16,
    from: Option<u8>,
    to: u8,
) -> Result<(), FollowError> {
    let Some(new) = views.get(&to) else {
        return Ok(());
    };
    let Some(old_lane) = from.and_then(|from| shared.lane(from)) else {
        return finish(shared, slot, to);
    };
    if old_lane.is_gone() && new.owns(slot) {
        shared.rendezvous.require(to);
        return finish(shared, slot, to);
    }
    let Some(old) = views.get(&old_lane.number) else {
        return Ok(());
    };
    let has_ended = shared.routes.change(|rerouting| {
        let Some(moving) = rerouting.moving(slot).filter(|moving| moving.to == to) else {
            return Ok(false);
        };
        let is_after = |at: Instant| at > moving.begun;
        if !is_after(old.asked) || !is_after(new.asked) {
            return Ok(false);
        }
        if !new.owns(slot) || old.claims(slot) {
            return Ok(!new.claims(slot) && old.keeps(slot));
        }
        let last = *moving.last.get_or_insert(old.after);
        // A lane that loads its data set has no place, or has not all keys of the slot.
        if shared.rendezvous.needs(old_lane.number) || shared.rendezvous.needs(to) {
            return Ok(false);
        }
        let source = shared.store.cluster_source()?.unwrap_or_default();
        let applied = source.lane(old_lane.number);
        if applied.is_none_or(|lane| lane.position.offset < last) {
            return Ok(false);
        }
        // The lane commits nothing now. What it has committed was made before it says again that it
        // does not have the slot, so nothing of that was made after the slot has come back.
        let view = members::ask_lane(shared, &old_lane)?;
        if !view.claims(slot) {
            rerouting.set_owner(slot, to);
            rerouting.end_move(slot);
        }
        Ok(false)
    })?;
    if has_ended {
        // The keys that have moved are unreachable, and the owner may have other ones.
        shared.routes.change(|rerouting| {
            rerouting.end_move(slot);
            rerouting.doubt(slot, to);
            Ok(())
        })?;
        shared.rendezvous.require(old_lane.number);
    }
    Ok(())
}

/// Gives a slot to its new lane.
fn finish(shared: &Shared<'_>, slot: u16, to: u8) -> Result<(), FollowError> {
    shared.routes.change(|rerouting| {
        rerouting.set_owner(slot, to);
        rerouting.end_move(slot);
        Ok(())
    })
}

/// Returns the slots that the nodes of the lanes own, with their lanes, or the first slot that has none.
pub(super) fn owners(views: &BTreeMap<u8, Arc<View>>) -> Result<Vec<u8>, u16> {
    let mut owners: Vec<Option<u8>> = vec![None; SLOTS];
    for (&lane, view) in views {
        for slot in view.slots() {
            owners[usize::from(slot)] = Some(lane);
        }
    }
    let all = owners.iter().zip(0_u16..);
    all.map(|(owner, slot)| owner.ok_or(slot)).collect()
}
