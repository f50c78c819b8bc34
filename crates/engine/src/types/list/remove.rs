//! Removes list items from the ends, by value and by range.

use undercroft_memory::{Pool, Transaction, View, removing};

use super::fill::End;
use super::leaf::{Leaf, Needle};
use super::object::discard_subtree;
use super::sequence::{Sequence, free_blocks};
use super::write::ListForm;
use super::{clamp, pack};
use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::writer::{Found, Writer, root};

impl Writer<'_, '_> {
    /// Pops up to `count` items from one end of a list and appends them to `out`, in the order in
    /// which they are popped. Removes the key if the list becomes empty. Returns whether the key
    /// existed. O(items).
    #[inline]
    pub fn list_pop(
        &mut self,
        database: usize,
        key: &Key<'_>,
        end: End,
        count: u64,
        out: &mut Ranges,
    ) -> Result<bool, Error> {
        let _removing = removing();
        let Some((found, held)) = self.find_list(database, key)? else {
            return Ok(false);
        };
        if count == 0 {
            return Ok(true);
        }
        let before = out.len();
        let length;
        let gone = match held {
            ListForm::Packed(bytes) => {
                let items = pack::count(&bytes);
                let taken = count.min(items);
                let start = out.len();
                let (from, kept) = match end {
                    End::Left => (0, taken..items),
                    End::Right => (items - taken, 0..items - taken),
                };
                pack::append_range(&bytes, from, from + taken, out)?;
                if end == End::Right {
                    out.reverse_from(start);
                }
                let mut left = pack::items(&bytes)?;
                left.keep(kept.start as usize..kept.end as usize);
                length = left.len() as u64;
                self.put_list(
                    database,
                    key,
                    Some(found),
                    key.shard.into(),
                    &left,
                    End::Right,
                )?;
                left.is_empty()
            }
            ListForm::Tree(mut tree, pool) => {
                self.expect_parts(database, key)?;
                tree.pop(self.transaction, pool, end, count, out)?;
                length = tree.count();
                self.remove_if_empty(database, key, found, &tree)?
            }
        };
        let part = ChangedPart::Items {
            left: end == End::Left,
            added: false,
            count: (out.len() - before) as u64,
            length,
        };
        self.taken_parts(database, key, gone, [part]);
        self.tell_taken(end.pop_event(), database, key, gone);
        Ok(true)
    }

    /// Removes the key if its list is empty. Returns whether the key was removed.
    fn remove_if_empty(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Found,
        tree: &Sequence,
    ) -> Result<bool, Error> {
        let empty = tree.count() == 0;
        if empty {
            self.remove_found(root(database, key), found)?;
        }
        Ok(empty)
    }

    /// Removes items that equal `text`. Removes the first `count` items, the last `-count` items if
    /// `count` is negative, or all items if `count` is 0. Returns the number of items removed.
    /// O(n).
    pub fn list_remove(
        &mut self,
        database: usize,
        key: &Key<'_>,
        count: i64,
        text: &[u8],
    ) -> Result<u64, Error> {
        let _removing = removing();
        let Some((found, held)) = self.find_list(database, key)? else {
            return Ok(0);
        };
        let most = if count == 0 {
            u64::MAX
        } else {
            count.unsigned_abs()
        };
        let (removed, gone) = match held {
            ListForm::Packed(bytes) => {
                let mut items = pack::items(&bytes)?;
                let matches = (0..items.len()).filter(|&index| items.get(index).bytes == text);
                let matches = choose(
                    matches.map(|index| index as u16).collect(),
                    most,
                    count >= 0,
                );
                for &index in matches.iter().rev() {
                    items.remove(index.into());
                }
                if !matches.is_empty() {
                    self.put_list(
                        database,
                        key,
                        Some(found),
                        key.shard.into(),
                        &items,
                        End::Right,
                    )?;
                }
                (matches.len() as u64, items.is_empty())
            }
            ListForm::Tree(mut tree, pool) => {
                let needle = Needle::new(text);
                self.expect_parts(database, key)?;
                let removed = tree.remove(self.transaction, pool, &needle, most, count >= 0)?;
                (removed, self.remove_if_empty(database, key, found, &tree)?)
            }
        };
        if removed > 0 {
            self.changed(database, key, Effect::of_taking(gone));
            self.tell_taken(KeyEvent::LRem, database, key, gone);
        }
        Ok(removed)
    }

    /// Removes all items outside of positions `start..=stop`, as LTRIM does. Returns whether the
    /// key existed. O(log n), because the removed subtrees are freed later.
    pub fn list_trim(
        &mut self,
        database: usize,
        key: &Key<'_>,
        start: i64,
        stop: i64,
    ) -> Result<bool, Error> {
        let _removing = removing();
        let Some((found, held)) = self.find_list(database, key)? else {
            return Ok(false);
        };
        let gone = match held {
            ListForm::Packed(bytes) => {
                let mut items = pack::items(&bytes)?;
                let (from, to) = clamp(start, stop, items.len() as u64);
                items.keep(from as usize..to as usize);
                self.put_list(
                    database,
                    key,
                    Some(found),
                    key.shard.into(),
                    &items,
                    End::Right,
                )?;
                items.is_empty()
            }
            ListForm::Tree(mut tree, pool) => {
                let (from, to) = clamp(start, stop, tree.count());
                let mut off = Vec::new();
                if from < to {
                    tree.cut_end(self.transaction, pool, End::Right, to, &mut off)?;
                    tree.cut_end(self.transaction, pool, End::Left, from, &mut off)?;
                } else {
                    let count = tree.count();
                    tree.cut(self.transaction, pool, 0, count, &mut off)?;
                }
                for subtree in off {
                    discard_subtree(self.transaction, pool, subtree)?;
                }
                self.remove_if_empty(database, key, found, &tree)?
            }
        };
        self.free_along(key.shard, 0)?;
        self.changed(database, key, Effect::of_taking(gone));
        self.tell_taken(KeyEvent::LTrim, database, key, gone);
        Ok(true)
    }
}

/// Truncates the matches in a leaf to the `most` matches that are removed first. These matches are
/// nearest to the head if `forward` is set, otherwise nearest to the tail.
fn choose(mut matches: Vec<u16>, most: u64, forward: bool) -> Vec<u16> {
    let spare = (matches.len() as u64).saturating_sub(most) as usize;
    if forward {
        matches.truncate(matches.len() - spare);
    } else {
        matches.drain(..spare);
    }
    matches
}

impl Sequence {
    /// Pops up to `count` items from one end of the tree and appends them to `out`.
    fn pop(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        end: End,
        count: u64,
        out: &mut Ranges,
    ) -> Result<(), Error> {
        let mut left = count.min(self.count());
        while left > 0 {
            let view = transaction.view();
            let place = self.find_end(view, end == End::Right)?;
            let mut leaf = Leaf::load(view, place.leaf)?;
            let taken = left.min(leaf.count);
            let start = out.len();
            let (from, to) = match end {
                End::Left => (0, taken),
                End::Right => (leaf.count - taken, leaf.count),
            };
            leaf.append_range(view, from, to, out)?;
            if end == End::Right {
                out.reverse_from(start);
            }
            free_blocks(transaction, pool, &leaf, from, to)?;
            if taken == leaf.count {
                transaction.free(pool, leaf.at);
                self.splice(transaction, pool, &place.path, 1, &[])?;
            } else {
                leaf.drop_items(transaction, end, taken)?;
                leaf.store_fill(transaction, pool.shard())?;
                self.add(transaction, pool.shard(), &place.path, -(taken as i64))?;
            }
            left -= taken;
            if self.count() > 0 {
                transaction.end_of_part()?;
            }
        }
        Ok(())
    }

    /// Returns the position of the first item that equals `text`.
    pub(super) fn first_match(&self, view: &View<'_>, text: &[u8]) -> Result<Option<u64>, Error> {
        let needle = Needle::new(text);
        let mut place = self.find(view, 0)?;
        let mut matches = Vec::new();
        loop {
            if let Some(next) = place.next_leaf(view) {
                view.prefetch_range(next, 512);
            }
            Leaf::load(view, place.leaf)?.find(view, &needle, &mut matches)?;
            if let Some(&index) = matches.first() {
                return Ok(Some(place.before + u64::from(index)));
            }
            if !place.step(view, true)? {
                return Ok(None);
            }
        }
    }

    /// Removes up to `most` items that match `needle`, starting from the head if `forward` is set,
    /// otherwise from the tail. Returns the number of items removed.
    fn remove(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        needle: &Needle<'_>,
        most: u64,
        forward: bool,
    ) -> Result<u64, Error> {
        let mut removed = 0;
        let mut matches = Vec::new();
        let mut position = if forward { 0 } else { self.count() - 1 };
        'leaves: while removed < most {
            let mut place = self.find(transaction.view(), position)?;
            let leaf = loop {
                let view = transaction.view();
                if let (true, Some(next)) = (forward, place.next_leaf(view)) {
                    view.prefetch_range(next, 512);
                }
                let leaf = Leaf::load(view, place.leaf)?;
                leaf.find(view, needle, &mut matches)?;
                if !matches.is_empty() {
                    break leaf;
                }
                if !place.step(view, forward)? {
                    break 'leaves;
                }
            };
            matches = choose(matches, most - removed, forward);
            let mut items = leaf.items(transaction.view())?;
            for &index in matches.iter().rev() {
                let index = u64::from(index);
                free_blocks(transaction, pool, &leaf, index, index + 1)?;
                items.remove(index as usize);
            }
            removed += matches.len() as u64;
            let (before, left) = (place.before, items.len() as u64);
            self.put_items(transaction, pool, place, items)?;
            if self.count() > 0 {
                transaction.end_of_part()?;
            }
            if forward {
                position = before + left;
                if position >= self.count() {
                    break;
                }
            } else if before == 0 {
                break;
            } else {
                position = before - 1;
            }
        }
        Ok(removed)
    }

    /// Removes the items before `position` if the end is `Left`, or the items from `position` to
    /// the tail if the end is `Right`.
    fn cut_end(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        end: End,
        position: u64,
        off: &mut Vec<(u64, usize)>,
    ) -> Result<(), Error> {
        let nothing = match end {
            End::Left => position == 0,
            End::Right => position >= self.count(),
        };
        if nothing {
            return Ok(());
        }
        let view = transaction.view();
        let place = self.find(view, position)?;
        let mut leaf = Leaf::load(view, place.leaf)?;
        let inside = position - place.before;
        let mut boundary = place.before;
        if inside > 0 {
            let (from, to) = match end {
                End::Left => (0, inside),
                End::Right => (inside, leaf.count),
            };
            free_blocks(transaction, pool, &leaf, from, to)?;
            leaf.drop_items(transaction, end, to - from)?;
            leaf.store_fill(transaction, pool.shard())?;
            let change = -((to - from) as i64);
            self.add(transaction, pool.shard(), &place.path, change)?;
            if end == End::Right {
                boundary += inside;
            }
        }
        match end {
            End::Left => self.cut(transaction, pool, 0, boundary, off),
            End::Right => self.cut(transaction, pool, boundary, self.count(), off),
        }
    }
}
