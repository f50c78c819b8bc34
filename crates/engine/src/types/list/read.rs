//! Reads lists, either optimistically or under a lock.

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

/// The options of LPOS, which select the positions to return.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    /// The rank of the first match to return, starting at 1. A negative rank counts matches from
    /// the tail. The rank must not be 0.
    pub rank: i64,
    /// The maximum number of positions to return. 0 means that all positions are returned.
    pub count: u64,
    /// The maximum number of items to compare. 0 means that all items are compared.
    pub most: u64,
}

/// Returns the number of items in a list.
pub(super) fn length(view: &View<'_>, entry: &Entry) -> Result<u64, Error> {
    match pack::load(view, entry)? {
        Some(bytes) => Ok(pack::count(&bytes)),
        None => Ok(Sequence::load(view, entry.value_at())?.count()),
    }
}

/// Appends a range of items to `out`. `choose` is called with the number of items and returns the
/// range `from..to`, which must exist.
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
    /// Returns the number of items in a list, or 0 if the key does not exist. O(1).
    pub fn list_length(&self, database: usize, key: &Key<'_>) -> Result<u64, Error> {
        match self.find_type(database, key, ValueType::List)? {
            Some(entry) => length(self.view(), &entry),
            None => Ok(0),
        }
    }

    /// Appends the items at positions `start..=stop` of a list to `out`. Positions have the same
    /// meaning as in LRANGE. Returns whether the key existed. O(log n + items).
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

    /// Appends the item at `index` to `out`. A negative index counts from the tail. Returns whether
    /// the key existed and whether the item existed. O(log n).
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

    /// Stores in `found` the positions of the items that equal a text. Returns whether the key
    /// existed. O(n).
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
                // Revalidate the view, so that a loop over a torn list stops collecting matches
                // early (R3).
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

/// A search that collects positions until the requested number of matches is found.
struct Seeker<'f> {
    wanted: Positions,
    /// The number of matches that must still be skipped before the first match to return.
    skip: u64,
    found: &'f mut Vec<u64>,
}

impl Seeker<'_> {
    /// Adds the matches in the leaf whose first item is at position `before`. Returns whether the
    /// search is complete.
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
