//! The engine's half of the structural check: every dictionary, every entry.

use undercroft_memory::{Offset, Report, View};

use crate::error::Error;
use crate::messages::receivers::Topic;
use crate::store::Store;
use crate::structures::dictionary::{
    BUCKET, CHAIN_MAX, Dictionary, Table, chain_fault, load_bucket,
};
use crate::structures::element::Element;
use crate::structures::elements::Elements;
use crate::structures::entry::{Entry, Form};
use crate::structures::key::hash;
use crate::structures::roots::{
    DATABASES, EXPIRES, KEYS, NEXT_TABLE, QUEUES, Root, WAITERS, hidden,
};
use crate::upkeep::detached;
use crate::upkeep::graveyard::{self, Dying, Left};

/// One walk over a shard's structures.
pub(crate) struct Walk<'w> {
    store: &'w Store,
    pub(crate) view: &'w View<'w>,
    pub(crate) shard: usize,
    /// To be called with each block.
    pub(crate) reach: &'w mut dyn FnMut(Offset),
    report: &'w mut Report,
    /// The keys of this dictionary may lie in any shard.
    anywhere: bool,
}

impl Store {
    /// Walks every structure of the store, with all writers waiting. An error
    /// only where the walk could not begin; what is wrong is in the report.
    pub fn check(&self) -> Result<Report, Error> {
        let report = self.segment.check(|shard, view, reach, report| {
            let mut walk = Walk {
                store: self,
                view,
                shard,
                reach,
                report,
                anywhere: false,
            };
            for database in (0..DATABASES).chain(hidden()) {
                walk.anywhere = [Topic::Pattern.database(), QUEUES, WAITERS].contains(&database);
                walk.database(Root { shard, database });
            }
            walk.dying();
        })?;
        Ok(report)
    }
}

/// Calls `reach` with every block of an object that has no arena, its entry's own ones aside. The shard is locked: the walk
/// trusts what it reads. O(64 KiB of the object).
///
/// # Errors
/// Those of damage.
pub(crate) fn for_each_block(
    store: &Store,
    view: &View<'_>,
    shard: usize,
    entry: &Entry,
    reach: &mut dyn FnMut(Offset),
) -> Result<(), Error> {
    let mut walk = Walk {
        store,
        view,
        shard,
        reach,
        report: &mut Report::default(),
        anywhere: false,
    };
    entry.object()?.check(&mut walk, entry)
}

impl Walk<'_> {
    /// Notes something that is wrong.
    pub(crate) fn problem(&mut self, text: impl FnOnce() -> String) {
        let shard = self.shard;
        self.report.problem(|| format!("shard {shard}: {}", text()));
    }

    fn database(&mut self, root: Root) {
        let name = || format!("database {}", root.database);
        let counts = self.dictionary(root, Dying::Keys, &name);
        let noted = root.get(self.view, EXPIRES);
        if noted != counts[1] {
            self.problem(|| {
                let counted = counts[1];
                format!("{} counts {noted} expiring keys and has {counted}", name())
            });
        }
    }

    /// Walks a dictionary. Returns how many keys it has, and how many of them
    /// expire.
    fn dictionary<D: Dictionary>(
        &mut self,
        root: D,
        kind: Dying,
        name: &dyn Fn() -> String,
    ) -> [u64; 2] {
        let mut counts = [0; 2];
        if let Err(error) = self.tables(root, kind, name, &mut counts) {
            self.problem(|| format!("{}: {error}", name()));
        }
        counts
    }

    fn tables<D: Dictionary>(
        &mut self,
        root: D,
        kind: Dying,
        name: &dyn Fn() -> String,
        counts: &mut [u64; 2],
    ) -> Result<(), Error> {
        let noted = root.word(self.view, KEYS)?;
        let Some(tables) = root.tables(self.view)? else {
            if noted != 0 {
                self.problem(|| format!("{} counts keys but has no table", name()));
            }
            return Ok(());
        };
        (self.reach)(tables.main.at);
        let next = root.word(self.view, NEXT_TABLE)?;
        if next != 0 {
            (self.reach)(next);
        }
        let first = tables.other.map_or(0, |(_, moved)| moved);
        self.table(kind, tables.main, first, true, counts);
        if let Some((other, _)) = tables.other {
            self.table(kind, other, 0, true, counts);
        }
        let counted = counts[0];
        if noted != counted {
            self.problem(|| format!("{} counts {noted} keys and has {counted}", name()));
        }
        Ok(())
    }

    /// Walks the buckets of a table. With `homes`, each entry must lie in its
    /// key's home bucket.
    fn table(&mut self, kind: Dying, table: Table, first: u64, homes: bool, counts: &mut [u64; 2]) {
        if self
            .view
            .check(table.at, table.buckets().saturating_mul(BUCKET))
            .is_err()
        {
            return self.problem(|| format!("a table of 2^{} buckets does not fit", table.bits));
        }
        for index in first..table.buckets() {
            let home = table.bucket(index);
            let mut at = home;
            for length in 0.. {
                if at != home {
                    (self.reach)(at);
                }
                let bucket = match load_bucket(self.view, at) {
                    Ok(bucket) if length < CHAIN_MAX => bucket,
                    _ => {
                        self.problem(|| format!("the chain of bucket {index} is damaged"));
                        break;
                    }
                };
                for entry in bucket.entries.into_iter().filter(|&entry| entry != 0) {
                    let home = homes.then_some((table, home));
                    let sound = match kind {
                        Dying::Keys => self.entry(entry, home, counts),
                        Dying::Elements => self.element(entry, home, counts),
                        // A tree has no tables.
                        Dying::Tree(_) | Dying::Parts => Err(chain_fault(at).into()),
                    };
                    if let Err(error) = sound {
                        self.problem(|| format!("the entry at {entry:#x}: {error}"));
                    }
                }
                if bucket.next == 0 {
                    break;
                }
                at = bucket.next;
            }
        }
    }

    fn entry(
        &mut self,
        at: Offset,
        home: Option<(Table, Offset)>,
        counts: &mut [u64; 2],
    ) -> Result<(), Error> {
        (self.reach)(at);
        let entry = Entry::load(self.view, at)?;
        self.view.check(at, entry.size())?;
        entry.value_type()?;
        if let Some(block) = entry.block(self.view)? {
            (self.reach)(block);
            self.view.check(block, entry.header.value_length())?;
        }
        if entry.header.form() == Some(Form::Object) {
            self.object(&entry)?;
        }
        counts[0] += 1;
        counts[1] += u64::from(entry.header.expires());
        if let Some((table, home)) = home {
            let mut key = Vec::new();
            entry.append_key(self.view, &mut key)?;
            let key_hash = hash(self.store.segment.hash_key(), &key);
            let strayed = !self.anywhere && self.store.key(&key).shard() != self.shard;
            if strayed || table.bucket(key_hash) != home {
                self.problem(|| format!("the key of the entry at {at:#x} belongs elsewhere"));
            }
        }
        Ok(())
    }

    fn object(&mut self, entry: &Entry) -> Result<(), Error> {
        let object = entry.object()?;
        let pool = object.pool(self.view, self.shard, entry)?;
        if pool.arena() != 0 {
            (self.reach)(pool.arena());
            detached::check_note(self.view, pool.arena())?;
        }
        object.check(self, entry)
    }

    /// Walks the dictionary of a large collection.
    pub(crate) fn elements(&mut self, elements: Elements, name: &str) {
        self.dictionary(elements, Dying::Elements, &|| name.to_owned());
    }

    /// The secret of the hashes of elements.
    pub(crate) fn secret(&self) -> [u64; 2] {
        self.store.segment.hash_key()
    }

    fn element(
        &mut self,
        at: Offset,
        home: Option<(Table, Offset)>,
        counts: &mut [u64; 2],
    ) -> Result<(), Error> {
        (self.reach)(at);
        let element = Element::load(self.view, at)?;
        self.view.check(at, element.size())?;
        if let Some((block, length)) = element.block(self.view)? {
            (self.reach)(block);
            self.view.check(block, length)?;
        }
        counts[0] += 1;
        if let Some((table, home)) = home {
            let mut key = Vec::new();
            element.append_key(self.view, &mut key)?;
            if table.bucket(hash(self.store.segment.hash_key(), &key)) != home {
                self.problem(|| format!("the key of the element at {at:#x} belongs elsewhere"));
            }
        }
        Ok(())
    }

    fn dying(&mut self) {
        let mut found = Vec::new();
        let walked = graveyard::for_each_dying(self.view, self.shard, |record, left| {
            found.push((record, left));
            if found.len() > 1 << 20 {
                return Err(Error::Name("a list without end".into()));
            }
            Ok(())
        });
        if let Err(error) = walked {
            self.problem(|| format!("the list of what is being freed: {error}"));
        }
        for (record, left) in found {
            self.left(record, left);
        }
    }

    /// Walks what is left of a structure that is being freed, from the block
    /// that refers to it.
    fn left(&mut self, record: Offset, left: Left) {
        (self.reach)(record);
        match left {
            Left::Tables(kind, tables) => {
                for (table, first) in tables {
                    (self.reach)(table.at);
                    self.table(kind, table, first, false, &mut [0; 2]);
                }
            }
            Left::Tree(kind, subtree, progress) => {
                let checked = kind.check_left(self.view, subtree, progress, self.reach);
                if let Err(error) = checked {
                    self.problem(|| format!("the tree that is freed by {record:#x}: {error}"));
                }
            }
            Left::Parts(parts) => {
                for (part, left) in parts {
                    self.left(part, left);
                }
            }
        }
    }
}
