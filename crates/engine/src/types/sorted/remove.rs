//! Removes members from sorted sets.

use undercroft_memory::{View, removing};

use super::bounds::Bounds;
use super::leaf::Ranked;
use super::read::Sink;
use super::scored::Scored;
use super::write::parts;
use super::{Large, SORTED_SET, SortedSet, pack};
use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::dictionary;
use crate::structures::dictionary_change;
use crate::structures::element::Element;
use crate::structures::elements::element_key;
use crate::structures::key::Key;
use crate::structures::packed;
use crate::structures::prefetch::TOGETHER;
use crate::structures::removal_method::{REBUILD_MIN, RemovalMethod, RemovedElements};
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::writer::{Found, Writer, root};
use crate::types::value_type::ValueType;

impl Writer<'_, '_> {
    /// Removes members from a sorted set, and removes the key if no members are left. Returns the
    /// number of members removed.
    pub fn sorted_remove(
        &mut self,
        database: usize,
        key: &Key<'_>,
        members: &[&[u8]],
    ) -> Result<u64, Error> {
        let _removing = removing();
        let Some(found) = self.find_type(database, key, ValueType::SortedSet)? else {
            return Ok(0);
        };
        let mut bytes = Vec::new();
        let mut removed = 0;
        let empty = if found.entry.append_packed(self.view(), &mut bytes)? {
            for member in members {
                removed += u64::from(pack::take(&mut bytes, &packed::form(member))?);
            }
            if removed > 0 && !bytes.is_empty() {
                self.put_packed(database, key, Some(found), SORTED_SET, &bytes)?;
            }
            bytes.is_empty()
        } else {
            let large = Large::to_change(self.view(), key.shard, &found.entry)?;
            match RemovalMethod::of(large.elements, self.transaction, members)? {
                RemovalMethod::All(all) => {
                    removed = all;
                    true
                }
                RemovalMethod::Most(gone) => {
                    removed = gone.count();
                    let kept = large.members_without(self.view(), &gone)?;
                    self.keep_only(database, key, found, &kept)?;
                    false
                }
                RemovalMethod::Each => {
                    self.expect_parts(database, key)?;
                    for group in members.chunks(TOGETHER) {
                        for member in &large.elements.group(self.transaction, group) {
                            removed += u64::from(self.remove_from_large(&large, member)?);
                            self.transaction.end_of_part()?;
                        }
                    }
                    large.ranks(self.view())?.count() == 0
                }
            }
        };
        if empty {
            self.remove_found(root(database, key), found)?;
        }
        if removed > 0 {
            let parts = members.iter().map(|member| ChangedPart::Member(member));
            self.taken_parts(database, key, empty, parts);
            self.tell_taken(KeyEvent::ZRem, database, key, empty);
        }
        Ok(removed)
    }

    fn remove_from_large(&mut self, large: &Large, member: &Key<'_>) -> Result<bool, Error> {
        let transaction = &mut *self.transaction;
        let there = dictionary::find_slot(transaction.view(), large.elements, member)?;
        let Some((slot, element)) = there else {
            return Ok(false);
        };
        let ranked = Ranked::load(transaction.view(), element.at)?;
        let mut ranks = large.ranks(transaction.view())?;
        ranks.remove(transaction, large.pool, member.bytes, ranked)?;
        element.free(transaction, large.pool)?;
        dictionary_change::remove(transaction, large.elements, slot)?;
        Ok(true)
    }

    /// Removes the members in a range, and removes the key if no members are left. Returns the
    /// number of members removed. O(log n + members).
    pub fn sorted_remove_range(
        &mut self,
        database: usize,
        key: &Key<'_>,
        bounds: &Bounds<'_>,
    ) -> Result<u64, Error> {
        let Some(found) = self.find_type(database, key, ValueType::SortedSet)? else {
            return Ok(0);
        };
        let set = SortedSet::of(self.view(), &found.entry)?;
        let ranks = set.ranks(self.view(), bounds, false)?;
        self.remove_ranks(database, key, found, ranks, bounds.removal())
    }

    /// Pops up to `count` members with the lowest scores, or with the highest scores if `highest`
    /// is set, and appends them to `out`. Removes the key if no members are left. Returns whether
    /// the key existed.
    pub fn sorted_pop(
        &mut self,
        database: usize,
        key: &Key<'_>,
        highest: bool,
        count: u64,
        out: &mut Scored,
    ) -> Result<bool, Error> {
        let Some(found) = self.find_type(database, key, ValueType::SortedSet)? else {
            return Ok(false);
        };
        let set = SortedSet::of(self.view(), &found.entry)?;
        let length = set.length(self.view())?;
        let count = count.min(length);
        let (ranks, event) = if highest {
            ((length - count, length), KeyEvent::ZPopMax)
        } else {
            ((0, count), KeyEvent::ZPopMin)
        };
        set.append_ranks(self.view(), ranks, highest, out)?;
        self.remove_ranks(database, key, found, ranks, event)?;
        Ok(true)
    }

    fn remove_ranks(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Found,
        (from, to): (u64, u64),
        event: KeyEvent,
    ) -> Result<u64, Error> {
        let _removing = removing();
        let removed = to.saturating_sub(from);
        if removed == 0 {
            return Ok(0);
        }
        let mut bytes = Vec::new();
        let gone = if found.entry.append_packed(self.view(), &mut bytes)? {
            pack::cut(&mut bytes, (from as usize, to as usize))?;
            if bytes.is_empty() {
                self.remove_found(root(database, key), found)?;
            } else {
                self.put_packed(database, key, Some(found), SORTED_SET, &bytes)?;
            }
            bytes.is_empty()
        } else {
            let large = Large::to_change(self.view(), key.shard, &found.entry)?;
            let length = large.ranks(self.view())?.count();
            let kept = length.saturating_sub(removed);
            if kept == 0 {
                self.remove_found(root(database, key), found)?;
            } else if self.transaction.is_in_parts() {
                self.expect_parts(database, key)?;
                let mut left = removed;
                while left > 0 {
                    let some = left.min(TOGETHER as u64);
                    self.remove_from_ranks(&large, (from, from + some))?;
                    self.transaction.end_of_part()?;
                    left -= some;
                }
            } else if removed > REBUILD_MIN as u64 && kept < removed {
                let set = SortedSet::of(self.view(), &found.entry)?;
                let mut kept = Scored::new();
                set.append_ranks(self.view(), (0, from), false, &mut kept)?;
                set.append_ranks(self.view(), (to, length), false, &mut kept)?;
                self.keep_only(database, key, found, &kept)?;
            } else {
                self.remove_from_ranks(&large, (from, to))?;
            }
            kept == 0
        };
        self.changed(database, key, Effect::of_taking(gone));
        self.tell_taken(event, database, key, gone);
        Ok(removed)
    }

    /// Replaces a large sorted set with a new one that contains the members in `kept`, which must
    /// be in order. This is cheaper than removing the other members one by one, because the old
    /// tree and dictionary are freed later (W8).
    fn keep_only(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Found,
        kept: &Scored,
    ) -> Result<(), Error> {
        let secret = self.transaction.hash_key();
        self.make_large(database, key, Some(found), &parts(secret, kept.iter()))?;
        self.free_along(key.shard, 0)
    }

    fn remove_from_ranks(&mut self, large: &Large, ranks: (u64, u64)) -> Result<(), Error> {
        let transaction = &mut *self.transaction;
        let mut tree = large.ranks(transaction.view())?;
        let mut gone = Vec::new();
        tree.for_each(transaction.view(), ranks, false, |at| {
            gone.push(at);
            Ok(())
        })?;
        tree.remove_range(transaction, large.pool, ranks)?;
        let mut member = Vec::new();
        for at in gone {
            member.clear();
            let element = Element::load(transaction.view(), at)?;
            element.append_key(transaction.view(), &mut member)?;
            let key = element_key(transaction.hash_key(), &member);
            large.elements.remove(transaction, &key)?;
        }
        Ok(())
    }
}

impl Large {
    /// Returns the members that are not in `gone`, in the order of the sorted set.
    fn members_without(&self, view: &View<'_>, gone: &RemovedElements) -> Result<Scored, Error> {
        let ranks = self.ranks(view)?;
        let mut kept = Scored::new();
        ranks.for_each(view, (0, ranks.count()), false, |at| {
            if gone.has(at) {
                return Ok(());
            }
            kept.element(view, &Element::load(view, at)?)
        })?;
        Ok(kept)
    }
}
