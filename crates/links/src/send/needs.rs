//! Collects the changed keys, and what a replica needs to receive of each.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use undercroft_engine::changes::{Change, ChangedPart};
use undercroft_engine::keyspace::{Delta, KeyState};
use undercroft_engine::{Changes, DATABASES, Error, Reader, Store};

use super::replaced::Replaced;

/// The state of a changed key that a replica receives.
#[derive(Debug)]
pub(super) enum Update {
    /// The complete state, or `None` if the key does not exist.
    Complete(Option<KeyState>),
    /// The state of the changed parts.
    Delta(Box<Delta>),
}

impl Update {
    /// Returns about how many bytes the update takes in memory.
    fn length(&self) -> u64 {
        let length = match self {
            Update::Complete(state) => state.as_ref().map_or(0, |state| state.items.byte_length()),
            Update::Delta(delta) => delta.length(),
        };
        (size_of::<ChangedKey>() + length) as u64
    }
}

/// A change to complete databases, or to the function libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Swap([usize; 2]),
    Empty(usize),
    Libraries,
}

/// A part of a key that may have changed.
#[derive(Clone, Debug)]
enum Part {
    Member(Box<[u8]>),
    Group(Box<[u8]>),
    /// The names of a group and of a consumer.
    Consumer(Box<[u8]>, Box<[u8]>),
    /// The name of a group, and the ID of an entry.
    Pending(Box<[u8]>, [u64; 2]),
    Other(ChangedPart<'static>),
}

impl Part {
    fn of(part: ChangedPart<'_>) -> Part {
        use ChangedPart::{Bytes, Consumer, Entry, Expiry, Group, Items, Member, Pending, Trimmed};
        match part {
            Member(name) => Part::Member(name.into()),
            Group(name) => Part::Group(name.into()),
            Consumer { group, name } => Part::Consumer(group.into(), name.into()),
            Pending { group, ms, seq } => Part::Pending(group.into(), [ms, seq]),
            Expiry => Part::Other(Expiry),
            Trimmed => Part::Other(Trimmed),
            Bytes { position, length } => Part::Other(Bytes { position, length }),
            Entry { ms, seq } => Part::Other(Entry { ms, seq }),
            Items {
                left,
                added,
                count,
                length,
            } => Part::Other(Items {
                left,
                added,
                count,
                length,
            }),
        }
    }

    fn get(&self) -> ChangedPart<'_> {
        match self {
            Part::Member(name) => ChangedPart::Member(name),
            Part::Group(name) => ChangedPart::Group(name),
            Part::Consumer(group, name) => ChangedPart::Consumer { group, name },
            Part::Pending(group, [ms, seq]) => ChangedPart::Pending {
                group,
                ms: *ms,
                seq: *seq,
            },
            Part::Other(part) => *part,
        }
    }

    /// Returns whether the part is one of a stream.
    fn is_of_stream(&self) -> bool {
        use ChangedPart::{Entry, Trimmed};
        match self {
            Part::Group(_) | Part::Consumer(..) | Part::Pending(..) => true,
            Part::Other(part) => matches!(part, Entry { .. } | Trimmed),
            Part::Member(_) => false,
        }
    }

    /// Returns whether the part can be changed only once: repeating the change would add to it.
    fn is_once(&self) -> bool {
        use ChangedPart::{Entry, Items, Trimmed};
        matches!(self, Part::Other(Items { .. } | Entry { .. } | Trimmed))
    }
}

/// The part of a key that is needed.
#[derive(Clone, Debug)]
enum Need {
    Complete,
    /// The state of these parts, in the order of their changes.
    Parts(Vec<Part>),
}

/// A changed key.
#[derive(Debug)]
pub(super) struct ChangedKey {
    pub(super) database: usize,
    pub(super) name: Arc<[u8]>,
    need: Need,
    /// The state that the replica receives. `None` if the key must still be read.
    pub(super) update: Option<Update>,
}

impl ChangedKey {
    /// Returns whether the key must be read at the moment up to which the changes are sent: parts
    /// that can be changed only once are not read earlier, as later changes would be sent twice.
    fn is_late(&self) -> bool {
        matches!(&self.need, Need::Parts(parts) if parts.iter().any(Part::is_once))
    }
}

/// The changed keys and databases.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) keys: Vec<ChangedKey>,
    pub(super) operations: Vec<Operation>,
    /// For each database, the indices of its changed keys.
    index: [HashMap<Arc<[u8]>, usize>; DATABASES],
    /// The keys that changed since they were last read.
    unread: Vec<usize>,
    /// About how many bytes the updates of the keys take in memory.
    length: u64,
    swapped: BTreeSet<usize>,
    /// Whether a log has a record that a database was emptied.
    has_emptied: bool,
    /// Whether the replica may have a part of the changes already.
    is_repeated: bool,
    /// Whether the replica has no commands for the parts of streams.
    has_whole_streams: bool,
}

impl Needs {
    /// Returns an empty collection. `is_repeated` indicates whether the replica may have a part of
    /// the changes already; parts that can be changed only once are then not enough. `has_whole_streams`
    /// indicates whether the replica has no commands for the parts of streams.
    pub(super) fn new(is_repeated: bool, has_whole_streams: bool) -> Needs {
        Needs {
            is_repeated,
            has_whole_streams,
            ..Needs::default()
        }
    }

    /// Returns whether databases were swapped.
    pub(super) fn has_swaps(&self) -> bool {
        !self.swapped.is_empty()
    }

    /// Returns whether databases were emptied.
    pub(super) fn has_emptied(&self) -> bool {
        self.has_emptied
    }

    /// Reads the keys, each at a moment of its own, and calls `take` with one after the other. The keys
    /// that are in memory at a time have values of about `room` bytes, or one has a larger one. A key that
    /// may have been replaced is read completely.
    pub(super) fn take_each(
        self,
        store: &Store,
        (replaced, room): (&mut Replaced, u64),
        take: &mut dyn FnMut(Needs) -> Result<(), Error>,
    ) -> Result<(), Error> {
        take(Needs {
            operations: self.operations,
            ..Needs::default()
        })?;
        let mut keys = self.keys.into_iter().peekable();
        while keys.peek().is_some() {
            let (mut some, mut length) = (Vec::new(), 0);
            while length < room
                && let Some(mut key) = keys.next()
            {
                if replaced.may_contain(key.database, &key.name) {
                    key.need = Need::Complete;
                }
                let update = read_alone(store, &key)?;
                length += update.length();
                key.update = Some(update);
                some.push(key);
            }
            // A key can have been replaced before it was read, by a change that is found only now.
            replaced.look(store, room)?;
            for mut key in some {
                let is_part = matches!(key.update, Some(Update::Delta(_)));
                if is_part && replaced.may_contain(key.database, &key.name) {
                    key.need = Need::Complete;
                    key.update = Some(read_alone(store, &key)?);
                }
                take(Needs {
                    keys: vec![key],
                    ..Needs::default()
                })?;
            }
        }
        Ok(())
    }

    /// Adds changes, which come after those that were added before.
    pub(super) fn add(&mut self, changes: &Changes) {
        for change in changes.iter() {
            self.has_emptied |= matches!(change, Change::Emptied { .. });
            match change {
                Change::Key(database, key, _) => self.require(database, key, Need::Complete),
                Change::Part(database, key, part) => {
                    let part = Part::of(part);
                    let is_whole = self.is_repeated && part.is_once()
                        || self.has_whole_streams && part.is_of_stream();
                    let need = match is_whole {
                        true => Need::Complete,
                        false => Need::Parts(vec![part]),
                    };
                    self.require(database, key, need);
                }
                // Changes to complete databases are logged in all shards.
                Change::Swapped { databases, shard } => {
                    self.swapped.extend(databases);
                    if shard == 0 {
                        self.operations.push(Operation::Swap(databases));
                    }
                }
                Change::Emptied { database, shard: 0 } => {
                    self.operations.push(Operation::Empty(database));
                }
                Change::Emptied { .. } => {}
                Change::Libraries => self.operations.push(Operation::Libraries),
            }
        }
    }

    fn require(&mut self, database: usize, name: &[u8], need: Need) {
        let Some(&at) = self.index[database].get(name) else {
            let name: Arc<[u8]> = name.into();
            self.index[database].insert(name.clone(), self.keys.len());
            self.unread.push(self.keys.len());
            self.keys.push(ChangedKey {
                database,
                name,
                need,
                update: None,
            });
            return;
        };
        let key = &mut self.keys[at];
        if let Some(update) = key.update.take() {
            self.length -= update.length();
            self.unread.push(at);
        }
        match (&mut key.need, need) {
            (Need::Complete, _) => {}
            (old, Need::Complete) => *old = Need::Complete,
            (Need::Parts(parts), Need::Parts(more)) => parts.extend(more),
        }
    }

    /// Reads the keys that changed since they were last read, each at a moment of its own. Returns false
    /// as soon as the keys take more than `room` bytes in memory.
    pub(super) fn read_early(&mut self, store: &Store, room: u64) -> Result<bool, Error> {
        let unread = std::mem::take(&mut self.unread);
        for at in unread {
            let key = &mut self.keys[at];
            if key.is_late() {
                self.unread.push(at);
                continue;
            }
            let update = read_alone(store, key)?;
            self.length += update.length();
            key.update = Some(update);
            if self.length > room {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the keys that must be read at the moment up to which the changes are sent, each with
    /// its state at that moment, given the last changes. Returns `None` if all keys take more than
    /// `room` bytes in memory.
    pub(super) fn read_late(
        &self,
        reader: &Reader<'_, '_>,
        changes: &Changes,
        room: u64,
    ) -> Result<Option<Needs>, Error> {
        let mut late = Needs::new(self.is_repeated, self.has_whole_streams);
        for &at in &self.unread {
            let key = &self.keys[at];
            late.require(key.database, &key.name, key.need.clone());
        }
        for change in changes.iter() {
            // A key that was read early may need more than its last change.
            let (Change::Key(database, name, _) | Change::Part(database, name, _)) = change else {
                continue;
            };
            if let Some(&at) = self.index[database].get(name)
                && !late.index[database].contains_key(name)
            {
                late.require(database, name, self.keys[at].need.clone());
            }
        }
        late.add(changes);
        if self.has_swaps() || late.has_swaps() {
            late.expect_swaps(self);
        }
        for key in &mut late.keys {
            let update = read(reader, key)?;
            late.length += update.length();
            key.update = Some(update);
            if self.length.saturating_add(late.length) > room {
                return Ok(None);
            }
        }
        Ok(Some(late))
    }

    /// Takes account of swapped databases: a key that changed in one of them can now be in any.
    fn expect_swaps(&mut self, earlier: &Needs) {
        let swapped: BTreeSet<usize> = self.swapped.union(&earlier.swapped).copied().collect();
        let keys = self.keys.iter().chain(&earlier.keys);
        let names = keys.filter(|key| swapped.contains(&key.database));
        let names: BTreeSet<Arc<[u8]>> = names.map(|key| key.name.clone()).collect();
        for name in names {
            for &database in &swapped {
                self.require(database, &name, Need::Complete);
            }
        }
    }

    /// Adds the result of [`read_late`](Self::read_late).
    pub(super) fn merge(&mut self, late: Needs) {
        self.operations.extend(late.operations);
        self.swapped.extend(late.swapped);
        self.length += late.length;
        for key in late.keys {
            match self.index[key.database].get(&key.name) {
                Some(&at) => self.keys[at] = key,
                None => {
                    self.index[key.database].insert(key.name.clone(), self.keys.len());
                    self.keys.push(key);
                }
            }
        }
    }
}

/// Reads what is needed of a key, at a moment of its own.
fn read_alone(store: &Store, key: &ChangedKey) -> Result<Update, Error> {
    let shards = store.shards_of([&store.key(&key.name)]);
    store.read(shards, |reader| read(reader, key))
}

/// Reads what is needed of a key.
fn read(reader: &Reader<'_, '_>, key: &ChangedKey) -> Result<Update, Error> {
    if let Need::Parts(parts) = &key.need {
        let parts: Vec<ChangedPart<'_>> = parts.iter().map(Part::get).collect();
        if let Some(delta) = reader.delta(key.database, &key.name, &parts)? {
            return Ok(Update::Delta(Box::new(delta)));
        }
    }
    Ok(Update::Complete(reader.state(key.database, &key.name)?))
}
