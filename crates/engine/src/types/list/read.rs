//! Reading lists, optimistically or under a lock.

use undercroft_memory::View;

use super::leaf::{Leaf, Needle};
use super::sequence::Sequence;
use super::{clamp, pack, resolve};
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::types::value_type::ValueType;

/// Which positions of a text LPOS finds.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    /// The first match that counts, from 1; backwards from the tail where
    /// negative. Not 0.
    pub rank: i64,
    /// The most positions to find; 0 is all.
    pub count: u64,
    /// The most items to look at; 0 is all.
    pub most: u64,
}

/// Number of items of a list.
pub(super) fn length(view: &View<'_>, entry: &Entry) -> Result<u64, Error> {
    match pack::load(view, entry)? {
        Some(bytes) => Ok(pack::count(&bytes)),
        None => Ok(Sequence::load(view, entry.value_at())?.count()),
    }
}

/// Appends items `from..to`, which must be there, to `out`.
pub(super) fn append_range(
    view: &View<'_>,
    entry: &Entry,
    choose: impl FnOnce(u64) -> (u64, u64),
    out: &mut Ranges,
) -> Result<(), Error> {
    if let Some(bytes) = pack::load(view, entry)? {
        let (from, to) = choose(pack::count(&bytes));
        return pack::append_range(&bytes, from, to, out);
    }
    let tree = Sequence::load(view, entry.value_at())?;
    let (from, to) = choose(tree.count());
    tree.append_range(view, from, to, out)
}

/// Appends all items to `out`.
pub(crate) fn append_all(view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error> {
    append_range(view, entry, |count| (0, count), out)
}

impl Reader<'_, '_> {
    /// Number of items in a list; 0 where the key is not there. O(1).
    pub fn list_length(&self, database: usize, key: &Key<'_>) -> Result<u64, Error> {
        match self.find_type(database, key, ValueType::List)? {
            Some(entry) => length(self.view(), &entry),
            None => Ok(0),
        }
    }

    /// Appends items `start..=stop` of a list, as LRANGE counts them, to `out`.
    /// Returns whether the key was there. O(log n + items).
    #[inline]
    pub fn list_range(
        &self,
        database: usize,
        key: &Key<'_>,
        (start, stop): (i64, i64),
        out: &mut Ranges,
    ) -> Result<bool, Error> {
        let Some(entry) = self.find_type(database, key, ValueType::List)? else {
            return Ok(false);
        };
        append_range(self.view(), &entry, |count| clamp(start, stop, count), out)?;
        Ok(true)
    }

    /// Appends the item with an index, from the tail where negative, to `out`.
    /// Returns whether the key was there, and whether the item was. O(log n).
    pub fn list_index(
        &self,
        database: usize,
        key: &Key<'_>,
        index: i64,
        out: &mut Ranges,
    ) -> Result<(bool, bool), Error> {
        let Some(entry) = self.find_type(database, key, ValueType::List)? else {
            return Ok((false, false));
        };
        let before = out.len();
        let choose = |count| resolve(index, count).map_or((0, 0), |at| (at, at + 1));
        append_range(self.view(), &entry, choose, out)?;
        Ok((true, out.len() > before))
    }

    /// Puts the positions of a text in a list into `found`. Returns whether the
    /// key was there. O(n).
    pub fn list_positions(
        &self,
        database: usize,
        key: &Key<'_>,
        text: &[u8],
        wanted: Positions,
        found: &mut Vec<u64>,
    ) -> Result<bool, Error> {
        found.clear();
        let Some(entry) = self.find_type(database, key, ValueType::List)? else {
            return Ok(false);
        };
        let view = self.view();
        let mut seeker = Seeker {
            wanted,
            skip: wanted.rank.unsigned_abs().saturating_sub(1),
            found,
        };
        let forward = wanted.rank > 0;
        if let Some(bytes) = pack::load(view, &entry)? {
            let items = pack::items(&bytes)?;
            let count = items.len() as u64;
            let matches: Vec<u16> = (0..items.len())
                .filter(|&index| items.get(index).bytes == text)
                .map(|index| index as u16)
                .collect();
            seeker.take(&matches, 0, count, forward);
            return Ok(true);
        }
        let tree = Sequence::load(view, entry.value_at())?;
        let count = tree.count();
        if count == 0 {
            return Ok(true);
        }
        let needle = Needle::new(text);
        let mut place = tree.find(view, if forward { 0 } else { count - 1 })?;
        let mut matches = Vec::new();
        let mut seen = 0_u64;
        loop {
            if let Some(next) = place.next_leaf(view) {
                view.prefetch_range(next, 512);
            }
            let leaf = Leaf::load(view, place.leaf)?;
            leaf.find(view, &needle, &mut matches)?;
            if !matches.is_empty() {
                // R3: a torn list must not make us collect for long.
                view.recheck()?;
            }
            if seeker.take(&matches, place.before, count, forward) {
                return Ok(true);
            }
            seen = seen.saturating_add(place.count);
            if wanted.most > 0 && seen >= wanted.most {
                return Ok(true);
            }
            if seen > count || !place.step(view, forward)? {
                return Ok(true);
            }
        }
    }
}

/// Collects positions until there are enough.
struct Seeker<'f> {
    wanted: Positions,
    /// Matches that do not count yet.
    skip: u64,
    found: &'f mut Vec<u64>,
}

impl Seeker<'_> {
    /// Takes the matches in a leaf that begins at a position. Returns whether
    /// that was all.
    fn take(&mut self, matches: &[u16], before: u64, count: u64, forward: bool) -> bool {
        for place in 0..matches.len() {
            let place = if forward {
                place
            } else {
                matches.len() - 1 - place
            };
            let position = before.wrapping_add(matches[place].into());
            let looked_at = if forward {
                position
            } else {
                count.wrapping_sub(1).wrapping_sub(position)
            };
            if self.wanted.most > 0 && looked_at >= self.wanted.most {
                return true;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.found.push(position);
            if self.wanted.count > 0 && self.found.len() as u64 >= self.wanted.count {
                return true;
            }
        }
        false
    }
}
