//! The structural check of dictionaries, for both databases and large collections.

use undercroft_memory::{Offset, Report, View};

use crate::error::Error;
use crate::structures::dictionary::{BUCKET, CHAIN_MAX, Dictionary, Table, load_bucket};
use crate::structures::element::Element;
use crate::structures::elements::Elements;
use crate::structures::key::hash;
use crate::structures::roots::{KEYS, NEXT_TABLE};

/// The state of a shard's structural check.
pub(crate) struct Check<'w> {
    pub(crate) view: &'w View<'w>,
    pub(crate) shard: usize,
    /// The callback that is called for each reachable block.
    pub(crate) reach: &'w mut dyn FnMut(Offset),
    pub(crate) report: &'w mut Report,
    /// The secret of the store's hash function.
    pub(crate) secret: [u64; 2],
}

/// Checks one item of a dictionary. If a table and a bucket are given, the item must belong in that
/// bucket. Adds the item to the counts of all items and of items with an expiry.
pub(crate) type Item<'i> = dyn FnMut(&mut Check<'_>, Offset, Option<(Table, Offset)>, &mut [u64; 2]) -> Result<(), Error>
    + 'i;

impl Check<'_> {
    /// Records a problem in the report.
    pub(crate) fn problem(&mut self, text: impl FnOnce() -> String) {
        let shard = self.shard;
        self.report.problem(|| format!("shard {shard}: {}", text()));
    }

    /// Checks a dictionary. Returns the number of its keys, and the number of keys with an expiry.
    pub(crate) fn dictionary<D: Dictionary>(
        &mut self,
        root: D,
        item: &mut Item<'_>,
        name: &dyn Fn() -> String,
    ) -> [u64; 2] {
        let mut counts = [0; 2];
        if let Err(error) = self.tables(root, item, name, &mut counts) {
            self.problem(|| format!("{}: {error}", name()));
        }
        counts
    }

    fn tables<D: Dictionary>(
        &mut self,
        root: D,
        item: &mut Item<'_>,
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
        self.table(item, tables.main, first, true, counts);
        if let Some((other, _)) = tables.other {
            self.table(item, other, 0, true, counts);
        }
        let counted = counts[0];
        if noted != counted {
            self.problem(|| format!("{} counts {noted} keys but has {counted}", name()));
        }
        Ok(())
    }

    /// Checks the buckets of a table, starting at bucket `first`. If `homes` is true, each entry
    /// must be in the home bucket of its key.
    pub(crate) fn table(
        &mut self,
        item: &mut Item<'_>,
        table: Table,
        first: u64,
        homes: bool,
        counts: &mut [u64; 2],
    ) {
        if self
            .view
            .check(table.at, table.buckets().saturating_mul(BUCKET))
            .is_err()
        {
            return self.problem(|| {
                format!(
                    "a table of 2^{} buckets does not fit in its extent",
                    table.bits
                )
            });
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
                    if let Err(error) = item(self, entry, home, counts) {
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

    /// Checks the dictionary of a large collection.
    pub(crate) fn elements(&mut self, elements: Elements, name: &str) {
        self.dictionary(elements, &mut element, &|| name.to_owned());
    }
}

/// An [`Item`] callback that checks an element of a collection.
pub(crate) fn element(
    check: &mut Check<'_>,
    at: Offset,
    home: Option<(Table, Offset)>,
    counts: &mut [u64; 2],
) -> Result<(), Error> {
    (check.reach)(at);
    let element = Element::load(check.view, at)?;
    check.view.check(at, element.size())?;
    if let Some((block, length)) = element.block(check.view)? {
        (check.reach)(block);
        check.view.check(block, length)?;
    }
    counts[0] += 1;
    if let Some((table, home)) = home {
        let mut key = Vec::new();
        element.append_key(check.view, &mut key)?;
        if table.bucket(hash(check.secret, &key)) != home {
            check
                .problem(|| format!("the key of the element at {at:#x} belongs in another bucket"));
        }
    }
    Ok(())
}
