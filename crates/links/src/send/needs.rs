//! Decides what a replica needs to receive of each changed key.

use std::collections::{BTreeMap, BTreeSet};

use undercroft_engine::changes::{Change, ChangedPart};
use undercroft_engine::keyspace::{Delta, KeyState};
use undercroft_engine::{Error, Reader};

/// What a replica needs to receive of a changed key.
#[derive(Debug)]
pub(super) enum Need<'c> {
    /// The complete state.
    Complete,
    /// The state of these parts, in the order of their changes.
    Parts(Vec<&'c ChangedPart>),
}

/// What a replica receives of a changed key.
#[derive(Debug)]
pub(super) enum Update {
    /// The complete state, or `None` if the key does not exist.
    Complete(Option<KeyState>),
    /// The state of the changed parts.
    Delta(Delta),
}

/// What a replica needs of all changed keys, given by their databases and names.
#[derive(Debug, Default)]
pub(super) struct Needs<'c>(pub(super) BTreeMap<(usize, Box<[u8]>), Need<'c>>);

impl<'c> Needs<'c> {
    /// Returns what is needed because of changes. `is_repeated` indicates whether the replica may
    /// have a part of the changes already; parts that cannot be changed twice are then not enough.
    pub(super) fn of(
        changes: impl IntoIterator<Item = &'c Change>,
        is_repeated: bool,
    ) -> Needs<'c> {
        let mut needs = Needs::default();
        let mut swapped = BTreeSet::new();
        for change in changes {
            match change {
                Change::Key(database, key, _) => {
                    needs.0.insert((*database, key.clone()), Need::Complete);
                }
                Change::Part(database, key, part) => {
                    let is_once = matches!(
                        part,
                        ChangedPart::Items { .. }
                            | ChangedPart::Entry { .. }
                            | ChangedPart::Trimmed
                    );
                    let need = needs.0.entry((*database, key.clone()));
                    let need = need.or_insert_with(|| Need::Parts(Vec::new()));
                    match need {
                        Need::Parts(_) if is_repeated && is_once => *need = Need::Complete,
                        Need::Parts(parts) => parts.push(part),
                        Need::Complete => {}
                    }
                }
                Change::Swapped { databases, .. } => swapped.extend(databases),
                Change::Emptied { .. } | Change::Libraries => {}
            }
        }
        if !swapped.is_empty() {
            needs.expect_swaps(&swapped);
        }
        needs
    }

    /// Takes account of swapped databases: a key that changed in one of them can now be in any.
    fn expect_swaps(&mut self, swapped: &BTreeSet<usize>) {
        let names = self
            .0
            .keys()
            .filter(|(database, _)| swapped.contains(database));
        let names: Vec<Box<[u8]>> = names.map(|(_, key)| key.clone()).collect();
        for key in names {
            for &database in swapped {
                self.0.insert((database, key.clone()), Need::Complete);
            }
        }
    }

    /// Returns the keys whose complete state is needed.
    pub(super) fn complete(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let is_complete = |need: &Need<'_>| matches!(need, Need::Complete);
        let complete = self.0.iter().filter(move |(_, need)| is_complete(need));
        complete.map(|((database, key), _)| (*database, &**key))
    }

    /// Reads the current states.
    pub(super) fn read(
        self,
        reader: &Reader<'_, '_>,
    ) -> Result<BTreeMap<(usize, Box<[u8]>), Update>, Error> {
        let mut updates = BTreeMap::new();
        for ((database, key), need) in self.0 {
            let delta = match need {
                Need::Complete => None,
                Need::Parts(parts) => reader.delta(database, &key, &parts)?,
            };
            let update = match delta {
                Some(delta) => Update::Delta(delta),
                None => Update::Complete(reader.state(database, &key)?),
            };
            updates.insert((database, key), update);
        }
        Ok(updates)
    }
}
