//! Which lane each key of the cluster belongs to. The documentation of the parent module explains the
//! rules.
//!
//! A lane decides about its changes when they arrive, and commits them a little later. Each lane has a
//! lock for the commit, and a version that changes with everything that could change its decisions. A
//! change of the routes holds the locks of the lanes that it concerns, so a commit either precedes it or
//! finds another version, and decides again. Locks are taken in the order of the lanes, and the lock of
//! the state last.

use std::collections::HashMap;
use std::time::Instant;

use undercroft_engine::{ClusterSource, Error, ForkMutex, Lane, REPLICATION_ID, Store, key_slot};

use crate::follow::error::FollowError;
use crate::follow::source_url::Address;

/// Whether a change of a key applies that a lane makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Applies,
    /// The change applies, and is the first of its lane that does. The value of another lane must be removed
    /// first.
    AppliesAnew,
    DoesNot,
    /// The slot belongs to another lane, as far as is known.
    Unknown,
}

/// The effect of a change on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The change only removes the key.
    Removal,
    /// The change restores a key of a slot that the lane imports.
    Arrival,
    /// The change does something else.
    Change,
}

/// Where a key of a lane's data set belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// To the lane.
    Own,
    /// To the lane, which it moves to, although the data set of another lane can contain it, too.
    Arrived,
    /// To another lane.
    Elsewhere,
    /// The slot belongs to another lane, as far as is known.
    Unknown,
}

/// A slot whose keys move to another lane.
pub(super) struct Move {
    pub(super) to: u8,
    pub(super) begun: Instant,
    /// The keys that the other lane has changed, and whether a change is committed.
    changed: HashMap<Vec<u8>, bool>,
    /// The place in the old owner's stream up to which its changes can concern the slot.
    pub(super) last: Option<u64>,
}

#[derive(Default)]
struct State {
    /// The record of the cluster, except for the slots that move.
    source: ClusterSource,
    moves: HashMap<u16, Move>,
    /// For a lane and a slot that does not concern it: the place in the lane's stream up to which this
    /// is known.
    foreign: HashMap<(u8, u16), u64>,
    /// For a lane and a slot that it owns: the place in the lane's stream up to which this is known.
    owned: HashMap<(u8, u16), u64>,
    /// The versions of the lanes' decisions.
    versions: HashMap<u8, u64>,
    /// Whether the store has a data set of the cluster, and therefore the record.
    is_recorded: bool,
    /// Whether the record could not be written. Until it is, no change is committed.
    is_unsaved: bool,
}

impl State {
    fn version(&self, lane: u8) -> u64 {
        self.versions.get(&lane).copied().unwrap_or_default()
    }

    /// Returns the lane that a key belongs to.
    fn holder(&self, key: &[u8]) -> Option<u8> {
        let slot = key_slot(key);
        match self.moves.get(&slot) {
            Some(moving) if moving.changed.contains_key(key) => Some(moving.to),
            _ => self.source.owners.get(slot),
        }
    }

    /// Returns whether it is known that changes of a lane up to a place do not concern a slot.
    fn is_foreign(&self, lane: u8, slot: u16, place: u64) -> bool {
        let known = self.foreign.get(&(lane, slot));
        known.is_some_and(|&known| place <= known)
    }

    /// Returns whether it is known that a lane owned a slot at a place.
    fn is_owned(&self, lane: u8, slot: u16, place: u64) -> bool {
        let known = self.owned.get(&(lane, slot));
        known.is_some_and(|&known| place <= known)
    }

    /// Returns whether another lane has received keys of a slot that were ignored.
    fn is_doubtful(&self, slot: u16) -> bool {
        let mut doubtful = self.source.doubtful.iter();
        doubtful.any(|&(doubt, _)| doubt == slot)
    }

    fn foreign_or_unknown(&self, lane: u8, slot: u16, place: u64) -> Answer {
        match self.is_foreign(lane, slot, place) {
            true => Answer::DoesNot,
            false => Answer::Unknown,
        }
    }

    /// Returns the complete record.
    fn record(&self) -> ClusterSource {
        let moving = self.moves.iter().map(|(&slot, moving)| (slot, moving.to));
        ClusterSource {
            moving: moving.collect(),
            ..self.source.clone()
        }
    }
}

/// A change of the routes that is being made. The locks of all lanes are held.
pub(super) struct Rerouting<'s> {
    state: &'s mut State,
}

impl Rerouting<'_> {
    pub(super) fn owner(&self, slot: u16) -> Option<u8> {
        self.state.source.owners.get(slot)
    }

    pub(super) fn set_owner(&mut self, slot: u16, lane: u8) {
        self.state.source.owners.set(slot, Some(lane));
    }

    pub(super) fn moving(&mut self, slot: u16) -> Option<&mut Move> {
        self.state.moves.get_mut(&slot)
    }

    pub(super) fn begin_move(&mut self, slot: u16, to: u8) {
        let moving = Move {
            to,
            begun: Instant::now(),
            changed: HashMap::new(),
            last: None,
        };
        self.state.moves.insert(slot, moving);
    }

    /// Ends a move. The slot belongs to the lane that is its owner then.
    pub(super) fn end_move(&mut self, slot: u16) {
        self.state.moves.remove(&slot);
    }

    pub(super) fn doubt(&mut self, slot: u16, lane: u8) {
        if !self.state.source.doubtful.contains(&(slot, lane)) {
            self.state.source.doubtful.push((slot, lane));
        }
    }

    /// Ends the doubt about a lane's keys of a slot. Returns whether there was any.
    pub(super) fn settle_doubt(&mut self, slot: u16, lane: u8) -> bool {
        let doubtful = &mut self.state.source.doubtful;
        let before = doubtful.len();
        doubtful.retain(|doubt| *doubt != (slot, lane));
        doubtful.len() < before
    }

    pub(super) fn set_lane(&mut self, lane: Lane) {
        let lanes = &mut self.state.source.lanes;
        lanes.retain(|other| other.number != lane.number);
        lanes.push(lane);
    }

    /// Records the node and the replication id of a lane's stream.
    pub(super) fn rename_lane(
        &mut self,
        number: u8,
        id: &[u8; REPLICATION_ID],
        node: &str,
        address: &Address,
    ) {
        let mut lanes = self.state.source.lanes.iter_mut();
        if let Some(lane) = lanes.find(|lane| lane.number == number) {
            (lane.id, lane.node) = (*id, node.to_owned());
            if let Address::Tcp { host, port } = address {
                (lane.host, lane.port) = (host.clone(), *port);
            }
        }
    }

    pub(super) fn remove_lane(&mut self, number: u8) {
        self.state.source.lanes.retain(|lane| lane.number != number);
        self.state.foreign.retain(|&(lane, _), _| lane != number);
        self.state.owned.retain(|&(lane, _), _| lane != number);
        let doubtful = &mut self.state.source.doubtful;
        doubtful.retain(|&(_, lane)| lane != number);
    }

    /// Returns the slots that move to lanes for which `is_loaded` returns true, without the keys that
    /// those have changed, because their data sets name them again.
    pub(super) fn forget_changed(&mut self, is_loaded: &dyn Fn(u8) -> bool) {
        let moves = self.state.moves.values_mut();
        for moving in moves.filter(|moving| is_loaded(moving.to)) {
            moving.changed.clear();
        }
    }

    pub(super) fn mark_changed(&mut self, key: &[u8]) {
        if let Some(moving) = self.state.moves.get_mut(&key_slot(key)) {
            moving.changed.insert(key.to_vec(), true);
        }
    }

    /// Returns the lane that a key belongs to.
    pub(super) fn holder(&self, key: &[u8]) -> Option<u8> {
        self.state.holder(key)
    }

    /// Returns the keys that other lanes have changed in moving slots of lanes for which `is_loaded`
    /// returns true.
    pub(super) fn changed_by_others(&self, is_loaded: &dyn Fn(u8) -> bool) -> Vec<Vec<u8>> {
        let moves = self.state.moves.iter().filter(|(slot, moving)| {
            self.owner(**slot).is_some_and(is_loaded) && !is_loaded(moving.to)
        });
        moves
            .flat_map(|(_, moving)| moving.changed.keys().cloned())
            .collect()
    }

    /// Returns the record of the cluster.
    pub(super) fn record(&self) -> ClusterSource {
        self.state.record()
    }

    /// Notes that the store has the record.
    pub(super) fn set_recorded(&mut self) {
        self.state.is_recorded = true;
    }
}

/// The routes of a cluster.
pub(super) struct Routes<'a> {
    store: &'a Store,
    commits: Vec<ForkMutex<()>>,
    state: ForkMutex<State>,
}

impl<'a> Routes<'a> {
    /// Returns the routes that a store has recorded, or empty ones. All moves begin again.
    pub(super) fn of(store: &'a Store) -> Result<Routes<'a>, Error> {
        let recorded = store.cluster_source()?;
        let routes = Routes {
            store,
            commits: (0..Store::LANES_MAX)
                .map(|_| ForkMutex::default())
                .collect(),
            state: ForkMutex::default(),
        };
        if let Some(mut source) = recorded {
            let moving = std::mem::take(&mut source.moving);
            let mut state = routes.state.lock();
            state.is_recorded = true;
            state.source = source;
            let mut rerouting = Rerouting { state: &mut state };
            for (slot, to) in moving {
                rerouting.begin_move(slot, to);
            }
        }
        Ok(routes)
    }

    /// Returns the record of the cluster, without the slots that move.
    pub(super) fn source(&self) -> ClusterSource {
        self.state.lock().source.clone()
    }

    /// Begins with an empty record, as if the store had no data set. The store keeps the old record until
    /// it has the next data sets.
    pub(super) fn begin_anew(&self) -> Result<(), FollowError> {
        self.change(|rerouting| {
            let state = &mut rerouting.state;
            (state.is_recorded, state.is_unsaved) = (false, false);
            state.moves.clear();
            state.foreign.clear();
            state.owned.clear();
            state.source.doubtful.clear();
            Ok(())
        })
    }

    /// Returns the lane that owns a moving slot.
    pub(super) fn owner_of_moving(&self, slot: u16) -> Option<u8> {
        let state = self.state.lock();
        state.moves.get(&slot)?;
        state.source.owners.get(slot)
    }

    /// Returns the slots that move, with their old and new lanes.
    pub(super) fn moves(&self) -> Vec<(u16, Option<u8>, u8)> {
        let state = self.state.lock();
        let moves = state.moves.iter();
        moves
            .map(|(&slot, moving)| (slot, state.source.owners.get(slot), moving.to))
            .collect()
    }

    /// Returns whether the store has a data set of the cluster.
    pub(super) fn is_recorded(&self) -> bool {
        self.state.lock().is_recorded
    }

    /// Returns the lane that replicates function libraries, which all masters have: the first one with
    /// slots.
    pub(super) fn library_lane(&self) -> Option<u8> {
        let state = self.state.lock();
        let ranges = state.source.owners.ranges();
        ranges.into_iter().map(|(_, lane)| lane).min()
    }

    /// Returns the version of a lane's decisions.
    pub(super) fn version(&self, lane: u8) -> u64 {
        self.state.lock().version(lane)
    }

    /// Runs `commit` while a lane's decisions with a version are valid. Returns false, without running
    /// it, if they are not.
    pub(super) fn commit(
        &self,
        lane: u8,
        version: u64,
        commit: &mut dyn FnMut() -> Result<(), FollowError>,
    ) -> Result<bool, FollowError> {
        let _commit = self.commits[usize::from(lane)].lock();
        {
            let mut state = self.state.lock();
            if state.version(lane) != version {
                return Ok(false);
            }
            if state.is_unsaved {
                self.store.set_cluster_source(&state.record(), |_| false)?;
                state.is_unsaved = false;
            }
        }
        commit().map(|()| true)
    }

    /// Changes the routes, and records them if the store has a data set. Lanes decide again about the
    /// changes that they have not committed.
    pub(super) fn change<R>(
        &self,
        change: impl FnOnce(&mut Rerouting<'_>) -> Result<R, FollowError>,
    ) -> Result<R, FollowError> {
        let _commits: Vec<_> = self.commits.iter().map(ForkMutex::lock).collect();
        let mut state = self.state.lock();
        for lane in (0..).take(Store::LANES_MAX) {
            *state.versions.entry(lane).or_default() += 1;
        }
        let was_recorded = state.is_recorded;
        let before = was_recorded.then(|| state.record());
        let result = change(&mut Rerouting { state: &mut state })?;
        if let Some(before) = before.filter(|_| state.is_recorded) {
            let record = state.record();
            if record != before {
                state.is_unsaved = true;
                self.store.set_cluster_source(&record, |_| false)?;
                state.is_unsaved = false;
            }
        }
        Ok(result)
    }

    /// Returns whether a change of a key applies that ends at a place in a lane's stream. A key in a slot
    /// that moves to the lane belongs to the lane from now on.
    pub(super) fn answer(&self, lane: u8, key: &[u8], kind: Kind, place: u64) -> Answer {
        let slot = key_slot(key);
        let owner = {
            let state = self.state.lock();
            let owner = state.source.owners.get(slot);
            match state.moves.get(&slot) {
                Some(moving) if moving.to == lane => match (moving.changed.get(key), kind) {
                    (Some(true), _) | (Some(false), Kind::Removal) => return Answer::Applies,
                    (Some(false), _) => return Answer::AppliesAnew,
                    (None, Kind::Removal) => return Answer::DoesNot,
                    (None, _) => owner,
                },
                Some(moving) if owner == Some(lane) => {
                    let is_changed = moving.changed.contains_key(key);
                    return match kind {
                        Kind::Removal if is_changed => Answer::DoesNot,
                        Kind::Change if is_changed => state.foreign_or_unknown(lane, slot, place),
                        Kind::Removal | Kind::Change => Answer::Applies,
                        Kind::Arrival => state.foreign_or_unknown(lane, slot, place),
                    };
                }
                None if owner == Some(lane) => {
                    // A master that has given a slot away removes its keys.
                    let is_sure = kind != Kind::Removal || !state.is_doubtful(slot);
                    return match is_sure || state.is_owned(lane, slot, place) {
                        true => Answer::Applies,
                        false => state.foreign_or_unknown(lane, slot, place),
                    };
                }
                _ => return state.foreign_or_unknown(lane, slot, place),
            }
        };
        // The old owner must not commit an earlier change of the key any more.
        let _commit = owner.map(|owner| self.commits[usize::from(owner)].lock());
        let mut state = self.state.lock();
        let is_same = state.source.owners.get(slot) == owner;
        match state.moves.get_mut(&slot) {
            Some(moving) if moving.to == lane && is_same => {
                moving.changed.insert(key.to_vec(), false);
            }
            // The move has ended in the meantime, and the commit finds another version.
            _ => return Answer::Applies,
        }
        if let Some(owner) = owner {
            *state.versions.entry(owner).or_default() += 1;
        }
        Answer::AppliesAnew
    }

    /// Notes that the first changes of keys by the lane that they move to are committed.
    pub(super) fn note_committed<'k>(&self, keys: impl Iterator<Item = &'k Vec<u8>>) {
        let mut state = self.state.lock();
        for key in keys {
            let moving = state.moves.get_mut(&key_slot(key));
            if let Some(is_committed) = moving.and_then(|moving| moving.changed.get_mut(key)) {
                *is_committed = true;
            }
        }
    }

    /// Returns where a key of a lane's data set belongs, which is as of a place in the lane's stream.
    pub(super) fn place(&self, lane: u8, key: &[u8], place: u64) -> Placed {
        let slot = key_slot(key);
        let state = self.state.lock();
        let owner = state.source.owners.get(slot);
        match state.moves.get(&slot) {
            Some(moving) if moving.to == lane => Placed::Arrived,
            Some(moving) if owner == Some(lane) && !moving.changed.contains_key(key) => Placed::Own,
            None if owner == Some(lane) => Placed::Own,
            _ if state.is_foreign(lane, slot, place) => Placed::Elsewhere,
            _ => Placed::Unknown,
        }
    }

    /// Notes that a lane owned a slot up to a place in the lane's stream.
    pub(super) fn note_owned(&self, lane: u8, slot: u16, place: u64) {
        self.state.lock().owned.insert((lane, slot), place);
    }

    /// Returns whether a slot belongs to a lane and does not move.
    pub(super) fn is_settled(&self, slot: u16, lane: u8) -> bool {
        let state = self.state.lock();
        !state.moves.contains_key(&slot) && state.source.owners.get(slot) == Some(lane)
    }

    /// Notes that changes of a lane do not concern a slot up to a place in the lane's stream.
    pub(super) fn note_foreign(&self, lane: u8, slot: u16, place: u64) {
        self.state.lock().foreign.insert((lane, slot), place);
    }
}

/// Begins the move of a slot to a lane, unless the slot belongs to it. Calls `require` if the lane's
/// data set must be loaded first, before the lane can commit another change.
///
/// # Errors
/// Fails if the slot is already moving to another lane.
pub(super) fn begin_move(
    routes: &Routes<'_>,
    slot: u16,
    to: u8,
    require: &dyn Fn(u8),
) -> Result<(), FollowError> {
    routes.change(|rerouting| {
        if let Some(other) = rerouting.moving(slot).map(|moving| moving.to) {
            return match other == to {
                true => Ok(()),
                false => Err(FollowError::MovesOn(slot)),
            };
        }
        match rerouting.owner(slot) {
            Some(owner) if owner == to => return Ok(()),
            Some(_) => rerouting.begin_move(slot, to),
            None => rerouting.set_owner(slot, to),
        }
        if rerouting.settle_doubt(slot, to) {
            require(to);
        }
        Ok(())
    })
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
