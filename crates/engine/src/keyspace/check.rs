//! The engine's part of the structural check, which checks every dictionary and every entry.

use undercroft_memory::{Offset, Report};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::byte_queue::BACKLOG_QUEUE;
use crate::structures::check::{Check, element};
use crate::structures::detached;
use crate::structures::dictionary::Table;
use crate::structures::entry::{Entry, Form};
use crate::structures::key::hash;
use crate::structures::roots::{
    DATABASES, EXPIRES, QUEUES, Root, SOURCE, WAITERS, hidden, loading,
};
use crate::transaction::change_log::log_of;
use crate::transaction::message::Topic;
use crate::upkeep::freed_structures::{FreedStructure, RemainingMemory};
use crate::upkeep::graveyard;

/// The context for checking the keys of one dictionary.
struct Keys<'s> {
    store: &'s Store,
    /// Whether the keys may be in any shard, regardless of their hash.
    anywhere: bool,
}

impl Store {
    /// Checks every structure of the store, with all writers blocked. Lists problems in the report,
    /// and returns an error only if the check cannot start.
    pub fn check(&self) -> Result<Report, Error> {
        let report = self.segment.check(|shard, view, reach, report| {
            let mut check = Check {
                view,
                shard,
                reach,
                report,
                secret: self.segment.hash_key(),
            };
            for database in (0..DATABASES).chain(hidden()).chain(loading()) {
                let anywhere =
                    [Topic::Pattern.database(), QUEUES, WAITERS, SOURCE].contains(&database);
                let keys = Keys {
                    store: self,
                    anywhere,
                };
                keys.database(&mut check, Root { shard, database });
            }
            let keys = Keys {
                store: self,
                anywhere: false,
            };
            keys.dying(&mut check);
            log_of(shard).check(&mut check, "the change log");
            if shard == 0 {
                BACKLOG_QUEUE.check(&mut check, "the backlog");
            }
        })?;
        Ok(report)
    }
}

impl Keys<'_> {
    fn database(&self, check: &mut Check<'_>, root: Root) {
        let name = || format!("database {}", root.database);
        let counts = check.dictionary(
            root,
            &mut |check, at, home, counts| self.entry(check, at, home, counts),
            &name,
        );
        let noted = root.get(check.view, EXPIRES);
        if noted != counts[1] {
            check.problem(|| {
                let counted = counts[1];
                format!("{} counts {noted} expiring keys but has {counted}", name())
            });
        }
    }

    fn entry(
        &self,
        check: &mut Check<'_>,
        at: Offset,
        home: Option<(Table, Offset)>,
        counts: &mut [u64; 2],
    ) -> Result<(), Error> {
        (check.reach)(at);
        let entry = Entry::load(check.view, at)?;
        check.view.check(at, entry.size())?;
        entry.value_type()?;
        if let Some(block) = entry.block(check.view)? {
            (check.reach)(block);
            check.view.check(block, entry.header.value_length())?;
        }
        if entry.header.form() == Some(Form::Object) {
            self.object(check, &entry)?;
        }
        counts[0] += 1;
        counts[1] += u64::from(entry.header.expires());
        if let Some((table, home)) = home {
            let mut key = Vec::new();
            entry.append_key(check.view, &mut key)?;
            let key_hash = hash(check.secret, &key);
            let strayed = !self.anywhere && self.store.key(&key).shard() != check.shard;
            if strayed || table.bucket(key_hash) != home {
                check.problem(|| {
                    format!("the key of the entry at {at:#x} belongs in another bucket")
                });
            }
        }
        Ok(())
    }

    fn object(&self, check: &mut Check<'_>, entry: &Entry) -> Result<(), Error> {
        let object = entry.object()?;
        let pool = object.pool(check.view, check.shard, entry)?;
        if pool.arena() != 0 {
            (check.reach)(pool.arena());
            detached::check_note(check.view, pool.arena())?;
        }
        object.check(check, entry)
    }

    fn dying(&self, check: &mut Check<'_>) {
        let mut found = Vec::new();
        let walked = graveyard::for_each_dying(check.view, check.shard, |record, left| {
            found.push((record, left));
            if found.len() > 1 << 20 {
                return Err(Error::Name("a list that ends".into()));
            }
            Ok(())
        });
        if let Err(error) = walked {
            check.problem(|| format!("the list of values being freed: {error}"));
        }
        for (record, left) in found {
            self.left(check, record, left);
        }
    }

    /// Checks the remaining blocks of a structure that is being freed. `record` is the block that
    /// refers to the structure.
    fn left(&self, check: &mut Check<'_>, record: Offset, left: RemainingMemory) {
        (check.reach)(record);
        match left {
            RemainingMemory::Tables(kind, tables) => {
                for (table, first) in tables {
                    (check.reach)(table.at);
                    match kind {
                        FreedStructure::Elements => {
                            check.table(&mut element, table, first, false, &mut [0; 2]);
                        }
                        // Trees and collection parts have no tables, so this branch is reached only
                        // for the keys of a database.
                        FreedStructure::Keys | FreedStructure::Tree(_) | FreedStructure::Parts => {
                            let item =
                                &mut |check: &mut Check<'_>,
                                      at: Offset,
                                      home: Option<(Table, Offset)>,
                                      counts: &mut [u64; 2]| {
                                    self.entry(check, at, home, counts)
                                };
                            check.table(item, table, first, false, &mut [0; 2]);
                        }
                    }
                }
            }
            RemainingMemory::Tree(kind, subtree, progress) => {
                let checked = kind.check_left(check.view, subtree, progress, check.reach);
                if let Err(error) = checked {
                    check.problem(|| {
                        format!("the tree being freed by the record at {record:#x}: {error}")
                    });
                }
            }
            RemainingMemory::Parts(parts) => {
                for (part, left) in parts {
                    self.left(check, part, left);
                }
            }
        }
    }
}
