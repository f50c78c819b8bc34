//! The changes of a lane that apply.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use undercroft_engine::{AppliedPosition, SLOTS, key_slot};

use crate::follow::cluster::rendezvous::Rendezvous;
use crate::follow::cluster::routes::{Answer, Kind, Placed, Routes, begin_move};
use crate::follow::cluster::topology::View;
use crate::follow::error::FollowError;
use crate::follow::filter::{Effect, KeyFilter, keys_of};
use crate::follow::part::Part;

/// Asks the node of a lane what it says about the cluster now.
type Ask<'a> = &'a dyn Fn() -> Result<View, FollowError>;

/// The changes of a lane that apply, according to the routes and a filter.
pub(super) struct Routed<'a> {
    routes: &'a Routes<'a>,
    filter: &'a KeyFilter,
    lane: u8,
    ask: Ask<'a>,
    rendezvous: &'a Rendezvous,
    /// The version of the decisions about the current transaction.
    version: Cell<u64>,
    /// The keys of which the current transaction contains the first change of the lane.
    first: RefCell<HashSet<Vec<u8>>>,
}

impl<'a> Routed<'a> {
    pub(super) fn new(
        routes: &'a Routes<'a>,
        filter: &'a KeyFilter,
        lane: u8,
        (ask, rendezvous): (Ask<'a>, &'a Rendezvous),
    ) -> Routed<'a> {
        Routed {
            routes,
            filter,
            lane,
            ask,
            rendezvous,
            version: Cell::default(),
            first: RefCell::default(),
        }
    }

    /// Returns whether a change of a key applies.
    ///
    /// # Errors
    /// Fails if the node cannot be asked, or if the lane's data set must be loaded again first.
    fn answer(&self, key: &[u8], kind: Kind, place: u64) -> Result<Answer, FollowError> {
        loop {
            match self.routes.answer(self.lane, key, kind, place) {
                answer @ (Answer::Applies | Answer::AppliesAnew | Answer::DoesNot) => {
                    return Ok(answer);
                }
                Answer::Unknown => self.find_route(key_slot(key), kind)?,
            }
        }
    }

    /// Fails if the lane's data set must be loaded before any of its changes applies.
    fn check_data_set(&self) -> Result<(), FollowError> {
        match self.rendezvous.needs(self.lane) {
            true => Err(FollowError::Reload(
                "slots have moved to a master that received some of their keys before".into(),
            )),
            false => Ok(()),
        }
    }

    /// Asks the node whether a slot concerns the lane, and changes the routes accordingly.
    fn find_route(&self, slot: u16, kind: Kind) -> Result<(), FollowError> {
        let view = (self.ask)()?;
        let (routes, lane) = (self.routes, self.lane);
        if routes.owner_of_moving(slot) == Some(lane) {
            return self.find_return(slot, &view);
        }
        if routes.is_settled(slot, lane) && view.owns(slot) {
            routes.note_owned(lane, slot, view.before);
            return Ok(());
        }
        if view.claims(slot) && !routes.is_settled(slot, lane) {
            begin_move(routes, slot, lane, &|lane| self.rendezvous.require(lane))?;
            return self.check_data_set();
        }
        if kind != Kind::Removal {
            routes.change(|rerouting| {
                rerouting.doubt(slot, lane);
                Ok(())
            })?;
        }
        // Changes up to this place were made before the node said so.
        routes.note_foreign(lane, slot, view.before);
        Ok(())
    }

    /// Handles what Valkey tells its replicas about atomic migrations to their master, which receives the
    /// keys of slots before it owns them.
    fn effect_of_migration(&self, words: &[&[u8]]) -> Result<Effect, FollowError> {
        let is = |index: usize, name: &str| {
            let word = words.get(index);
            word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        let lane = self.lane;
        if is(1, "FLUSHSLOT") {
            // The command removes keys, and does not name them.
            return Ok(Effect::Unknown);
        }
        if is(1, "SYNCSLOTS") && is(2, "ESTABLISH") {
            let slots = slots_of(words);
            self.routes.change(|rerouting| {
                for slot in slots {
                    let to = rerouting.moving(slot).map(|moving| moving.to);
                    if rerouting.owner(slot) == Some(lane) || to == Some(lane) {
                        // The master has the slot by now, and its keys are about to arrive again.
                        self.rendezvous.require(lane);
                    } else {
                        rerouting.doubt(slot, lane);
                    }
                }
                Ok(())
            })?;
        }
        if is(1, "SYNCSLOTS") && is(2, "FINISH") {
            let view = (self.ask)()?;
            let doubtful = self.routes.source().doubtful.into_iter();
            for (slot, _) in doubtful.filter(|&(slot, of)| of == lane && view.owns(slot)) {
                begin_move(self.routes, slot, lane, &|lane| {
                    self.rendezvous.require(lane)
                })?;
            }
        }
        self.check_data_set()?;
        Ok(Effect::Nothing)
    }

    /// Decides about a change of a key that the other lane has changed, in a slot that moves away from
    /// this lane: the change is late, or the slot has come back.
    fn find_return(&self, slot: u16, view: &View) -> Result<(), FollowError> {
        let lane = self.lane;
        if !view.imports(slot) && !view.keeps(slot) {
            self.routes.note_foreign(lane, slot, view.before);
            return Ok(());
        }
        let other = self.routes.change(|rerouting| {
            let other = rerouting.moving(slot).map(|moving| moving.to);
            rerouting.end_move(slot);
            if let Some(other) = other {
                match view.imports(slot) {
                    true => {
                        rerouting.set_owner(slot, other);
                        rerouting.begin_move(slot, lane);
                    }
                    false => rerouting.doubt(slot, other),
                }
            }
            Ok(other)
        })?;
        if let Some(other) = other.filter(|_| view.imports(slot)) {
            self.rendezvous.require(other);
        }
        Err(FollowError::Reload(format!(
            "slot {slot} has come back before its move was over"
        )))
    }
}

impl Part for Routed<'_> {
    fn lane(&self) -> Option<u8> {
        Some(self.lane)
    }

    fn is_all(&self) -> bool {
        false
    }

    fn has_libraries(&self) -> bool {
        self.routes.library_lane() == Some(self.lane)
    }

    fn effect(&self, place: AppliedPosition, words: &[&[u8]]) -> Result<Effect, FollowError> {
        self.check_data_set()?;
        let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
        if is("FLUSHALL") || is("FLUSHDB") {
            // The command removes the keys of one master.
            return Ok(Effect::Unknown);
        }
        if is("CLUSTER") {
            return self.effect_of_migration(words);
        }
        let restored = [&[&b"RESTORE"[..]], &words[1..]].concat();
        let (kind, words) = match () {
            () if is("DEL") || is("UNLINK") => (Kind::Removal, words),
            () if is("RESTORE-ASKING") => (Kind::Arrival, &restored[..]),
            () => (Kind::Change, words),
        };
        let (mut mine, mut new) = (HashSet::new(), Vec::new());
        for (key, _) in keys_of(words) {
            if !self.filter.has(place.database, key) {
                continue;
            }
            match self.answer(key, kind, place.offset)? {
                Answer::DoesNot | Answer::Unknown => continue,
                Answer::Applies => {}
                Answer::AppliesAnew => {
                    if self.first.borrow_mut().insert(key.to_vec()) {
                        new.push(key.to_vec());
                    }
                }
            }
            mine.insert(key);
        }
        let has = |_, key: &[u8]| mine.contains(key);
        let effect = match self.filter.effect(place.database, words, &has) {
            Effect::Whole if kind == Kind::Arrival => {
                Effect::Part(words.iter().map(|word| word.to_vec()).collect())
            }
            effect => effect,
        };
        Ok(match new.is_empty() {
            true => effect,
            false => Effect::Anew(new, Box::new(effect)),
        })
    }

    fn begin(&self) {
        self.first.borrow_mut().clear();
        self.version.set(self.routes.version(self.lane));
    }

    fn commit(
        &self,
        commit: &mut dyn FnMut() -> Result<(), FollowError>,
    ) -> Result<bool, FollowError> {
        let version = self.version.get();
        let is_committed = self.routes.commit(self.lane, version, commit)?;
        if is_committed {
            self.routes.note_committed(self.first.borrow().iter());
        }
        Ok(is_committed)
    }
}

/// Returns the slots that `CLUSTER SYNCSLOTS ESTABLISH` names, as pairs of the first and the last one
/// after SLOTSRANGE.
fn slots_of(words: &[&[u8]]) -> impl Iterator<Item = u16> {
    let place = words
        .iter()
        .position(|word| word.eq_ignore_ascii_case(b"SLOTSRANGE"));
    let bounds: Vec<u16> = words[place.map_or(words.len(), |place| place + 1)..]
        .iter()
        .map_while(|word| std::str::from_utf8(word).ok()?.parse().ok())
        .filter(|&slot: &u16| usize::from(slot) < SLOTS)
        .collect();
    let pairs = bounds.chunks_exact(2).map(|pair| pair[0]..=pair[1]);
    pairs.collect::<Vec<_>>().into_iter().flatten()
}

/// Decides in which database each key of a lane's data set is loaded, and keeps the first error.
pub(super) struct Placing<'a> {
    routed: &'a Routed<'a>,
    place: u64,
    pub(super) failed: RefCell<Option<FollowError>>,
}

/// The database in which a data set's keys of slots that move to the lane are loaded.
pub(super) const ARRIVED: usize = 1;

impl<'a> Placing<'a> {
    /// Returns the decisions about a data set as of a place in the lane's stream.
    pub(super) fn new(routed: &'a Routed<'a>, place: u64) -> Placing<'a> {
        Placing {
            routed,
            place,
            failed: RefCell::default(),
        }
    }

    /// Returns the database for a key, or `None` if the store does not have the key.
    pub(super) fn database(&self, database: usize, key: &[u8]) -> Option<usize> {
        if self.failed.borrow().is_some() || !self.routed.filter.has(database, key) {
            return None;
        }
        let placed = match database {
            0 => self.place_of(key),
            _ => Err(FollowError::Unsupported(format!(
                "a key in database {database}, although only database 0 of a cluster can be followed"
            ))),
        };
        placed.unwrap_or_else(|error| {
            *self.failed.borrow_mut() = Some(error);
            None
        })
    }

    fn place_of(&self, key: &[u8]) -> Result<Option<usize>, FollowError> {
        loop {
            let Routed { routes, lane, .. } = self.routed;
            match routes.place(*lane, key, self.place) {
                Placed::Own => return Ok(Some(0)),
                Placed::Arrived => return Ok(Some(ARRIVED)),
                Placed::Elsewhere => return Ok(None),
                Placed::Unknown => match self.routed.find_route(key_slot(key), Kind::Change) {
                    // This is the data set that must be loaded.
                    Err(FollowError::Reload(_)) => {}
                    found => found?,
                },
            }
        }
    }
}
