//! The changes of a lane that apply.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use undercroft_engine::{AppliedPosition, key_slot};

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
    /// Makes another lane load its data set again.
    require: &'a dyn Fn(u8),
    /// The version of the decisions about the current transaction.
    version: Cell<u64>,
}

impl<'a> Routed<'a> {
    pub(super) fn new(
        routes: &'a Routes<'a>,
        filter: &'a KeyFilter,
        lane: u8,
        (ask, require): (Ask<'a>, &'a dyn Fn(u8)),
    ) -> Routed<'a> {
        Routed {
            routes,
            filter,
            lane,
            ask,
            require,
            version: Cell::default(),
        }
    }

    /// Returns whether a change of a key applies.
    ///
    /// # Errors
    /// Fails if the node cannot be asked, or if the lane's data set must be loaded again first.
    fn applies(&self, key: &[u8], kind: Kind, place: u64) -> Result<bool, FollowError> {
        loop {
            match self.routes.answer(self.lane, key, kind, place) {
                Answer::Applies => return Ok(true),
                Answer::DoesNot => return Ok(false),
                Answer::Unknown => self.find_route(key_slot(key), kind)?,
            }
        }
    }

    /// Asks the node whether a slot concerns the lane, and changes the routes accordingly.
    fn find_route(&self, slot: u16, kind: Kind) -> Result<(), FollowError> {
        let view = (self.ask)()?;
        let (routes, lane) = (self.routes, self.lane);
        if routes.owner_of_moving(slot) == Some(lane) {
            return self.find_return(slot, &view);
        }
        if view.claims(slot) {
            return match begin_move(routes, slot, lane)? {
                true => Err(FollowError::Reload(format!(
                    "slot {slot} moves to a master that received some of its keys before"
                ))),
                false => Ok(()),
            };
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
            (self.require)(other);
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
        let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
        if is("FLUSHALL") || is("FLUSHDB") {
            // It removes the keys of one master.
            return Ok(Effect::Unknown);
        }
        if is("CLUSTER") {
            // Valkey tells its replicas about migrations. CLUSTER FLUSHSLOT removes keys.
            let removes = words
                .get(1)
                .is_some_and(|what| what.eq_ignore_ascii_case(b"FLUSHSLOT"));
            return Ok(match removes {
                true => Effect::Unknown,
                false => Effect::Nothing,
            });
        }
        let restored = [&[&b"RESTORE"[..]], &words[1..]].concat();
        let (kind, words) = match () {
            () if is("DEL") || is("UNLINK") => (Kind::Removal, words),
            () if is("RESTORE-ASKING") => (Kind::Arrival, &restored[..]),
            () => (Kind::Change, words),
        };
        let mut mine = HashSet::new();
        for (key, _) in keys_of(words) {
            if self.filter.has(place.database, key) && self.applies(key, kind, place.offset)? {
                mine.insert(key);
            }
        }
        let has = |_, key: &[u8]| mine.contains(key);
        Ok(match self.filter.effect(place.database, words, &has) {
            Effect::Whole if kind == Kind::Arrival => {
                Effect::Part(words.iter().map(|word| word.to_vec()).collect())
            }
            effect => effect,
        })
    }

    fn begin(&self) {
        self.version.set(self.routes.version(self.lane));
    }

    fn commit(
        &self,
        commit: &mut dyn FnMut() -> Result<(), FollowError>,
    ) -> Result<bool, FollowError> {
        self.routes.commit(self.lane, self.version.get(), commit)
    }
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
