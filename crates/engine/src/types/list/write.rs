//! Pushes, sets, inserts and moves list items.

use undercroft_memory::{BlockStock, Pool, Transaction};

use super::fill::End;
use super::items::{INLINE_ITEM_MAX, ListItem, ListItems, REFERENCE};
use super::leaf::Leaf;
use super::object::pool_of;
use super::sequence::Sequence;
use super::{LIST, pack, resolve};
use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::element::Blocks;
use crate::structures::elements;
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::writer::{Found, Writer};
use crate::types::string::write::STRING_MAX;
use crate::types::value_type::ValueType;

/// The result of LINSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key did not exist.
    NoKey,
    /// No item was equal to the pivot.
    NoPivot,
    /// The item was inserted, and the list has this new length.
    Length(u64),
}

/// The representation of a list, either packed bytes or a tree.
pub(super) enum ListForm {
    /// The bytes of a packed list.
    Packed(Vec<u8>),
    /// The tree of a large list, and the memory pool of the tree.
    Tree(Sequence, Pool),
}

impl Writer<'_, '_> {
    /// Looks up a list and loads its representation.
    pub(super) fn find_list(
        &mut self,
        database: usize,
        key: &Key<'_>,
    ) -> Result<Option<(Found, ListForm)>, Error> {
        let Some(found) = self.find_type(database, key, ValueType::List)? else {
            return Ok(None);
        };
        let held = match pack::load(self.view(), &found.entry)? {
            Some(bytes) => ListForm::Packed(bytes),
            None => {
                let tree = Sequence::load(self.view(), found.entry.value_at())?;
                ListForm::Tree(tree, pool_of(self.view(), key.shard, &found.entry)?)
            }
        };
        Ok(Some((found, held)))
    }

    /// Returns the number of items in a list, or 0 if the key does not exist. O(1).
    pub fn list_length(&mut self, database: usize, key: &Key<'_>) -> Result<u64, Error> {
        match self.find_type(database, key, ValueType::List)? {
            Some(found) => super::read::length(self.view(), &found.entry),
            None => Ok(0),
        }
    }

    /// Stores `items` as the list at a key, packed if there are only a few. If `items` is empty,
    /// removes the key. The previous list must have been packed. Long items and trees are allocated
    /// in `pool`.
    pub(super) fn put_list(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        pool: Pool,
        items: &ListItems,
        grows: End,
    ) -> Result<(), Error> {
        if items.is_empty() {
            if let Some(found) = found {
                self.remove_found(crate::transaction::writer::root(database, key), found)?;
            }
            return Ok(());
        }
        if let Some(bytes) = pack::pack(items) {
            return self.put_packed(database, key, found, LIST, &bytes);
        }
        let words = Sequence::build(self.transaction, pool, items, grows)?;
        self.put_object(database, key, found, LIST, &words)
    }

    /// Pushes items at one end of a list in the given order. Creates the list if it does not exist,
    /// unless `if_present` is set. Returns the new length, or 0 if the list does not exist.
    /// O(items).
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type, and [`Error::TooLong`] if an
    /// item is too long.
    #[inline]
    pub fn list_push(
        &mut self,
        database: usize,
        key: &Key<'_>,
        end: End,
        values: &[&[u8]],
        if_present: bool,
    ) -> Result<u64, Error> {
        if values.iter().any(|value| value.len() as u64 > STRING_MAX) {
            return Err(Error::TooLong);
        }
        self.free_along(key.shard, values.len())?;
        match self.find_list(database, key)? {
            None if if_present => Ok(0),
            None => self.push_packed(database, key, None, vec![0], end, values),
            Some((found, ListForm::Packed(bytes))) => {
                self.push_packed(database, key, Some(found), bytes, end, values)
            }
            Some((found, ListForm::Tree(mut tree, pool))) => {
                let pool = self.settle_list(pool, &found.entry, &mut tree, values)?;
                tree.push(self.transaction, pool, end, values)?;
                self.pushed(database, key, (end, values.len()), tree.count());
                Ok(tree.count())
            }
        }
    }

    fn push_packed(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        mut bytes: Vec<u8>,
        end: End,
        values: &[&[u8]],
    ) -> Result<u64, Error> {
        let length = pack::count(&bytes) + values.len() as u64;
        if end == End::Right && pack::extend(&mut bytes, values) {
            self.put_packed(database, key, found, LIST, &bytes)?;
            self.pushed(database, key, (end, values.len()), length);
            return Ok(length);
        }
        let mut items = pack::items(&bytes)?;
        let kept = items.len();
        let pool = self.pool_for(key, values)?;
        if values.iter().any(|value| value.len() > INLINE_ITEM_MAX) {
            let mut stock = BlockStock::new(pool);
            for value in values {
                if value.len() > INLINE_ITEM_MAX {
                    stock.expect(value.len() as u64);
                }
            }
            items.extend(self.transaction, &mut stock, values)?;
            stock.close(self.transaction);
        } else {
            items.extend(self.transaction, &mut { pool }, values)?;
        }
        if end == End::Left {
            items.turn(kept);
        }
        self.put_list(database, key, found, pool, &items, end)?;
        self.pushed(database, key, (end, values.len()), length);
        Ok(length)
    }

    /// Reports that items were pushed. `length` is the new length of the list.
    fn pushed(&mut self, database: usize, key: &Key<'_>, (end, count): (End, usize), length: u64) {
        let part = ChangedPart::Items {
            left: end == End::Left,
            added: true,
            count: count as u64,
            length,
        };
        self.changed_parts(database, key, [part]);
        self.tell(end.push_event(), database, key);
    }

    /// Returns the memory pool for a list that outgrew the packed form when `values` were added.
    fn pool_for(&mut self, key: &Key<'_>, values: &[&[u8]]) -> Result<Pool, Error> {
        let bytes: usize = values.iter().map(|value| value.len()).sum();
        elements::new_pool(self.transaction, key.shard, bytes as u64)
    }

    /// Replaces the item at `index`. A negative index counts from the tail. Returns whether the key
    /// existed and whether the item existed. O(log n).
    pub fn list_set(
        &mut self,
        database: usize,
        key: &Key<'_>,
        index: i64,
        value: &[u8],
    ) -> Result<(bool, bool), Error> {
        if value.len() as u64 > STRING_MAX {
            return Err(Error::TooLong);
        }
        let Some((found, held)) = self.find_list(database, key)? else {
            return Ok((false, false));
        };
        let count = match &held {
            ListForm::Packed(bytes) => pack::count(bytes),
            ListForm::Tree(tree, _) => tree.count(),
        };
        let Some(position) = resolve(index, count) else {
            return Ok((true, false));
        };
        match held {
            ListForm::Packed(bytes) => {
                let mut items = pack::items(&bytes)?;
                let pool = self.pool_for(key, &[value])?;
                let mut reference = [0; REFERENCE];
                let element =
                    Sequence::element(self.transaction, &mut { pool }, value, &mut reference)?;
                items.replace(position as usize, element);
                self.put_list(database, key, Some(found), pool, &items, End::Right)?;
            }
            ListForm::Tree(mut tree, pool) => {
                let pool = self.settle_list(pool, &found.entry, &mut tree, &[value])?;
                tree.set(self.transaction, pool, position, value)?;
            }
        }
        self.changed(database, key, Effect::Changed);
        self.tell(KeyEvent::LSet, database, key);
        Ok((true, true))
    }

    /// Inserts an item before or after the first item that equals the pivot. O(n) to find the
    /// pivot, O(log n) to insert.
    pub fn list_insert(
        &mut self,
        database: usize,
        key: &Key<'_>,
        before: bool,
        pivot: &[u8],
        value: &[u8],
    ) -> Result<Inserted, Error> {
        if value.len() as u64 > STRING_MAX {
            return Err(Error::TooLong);
        }
        let Some((found, held)) = self.find_list(database, key)? else {
            return Ok(Inserted::NoKey);
        };
        let behind = u64::from(!before);
        let length = match held {
            ListForm::Packed(bytes) => {
                let mut items = pack::items(&bytes)?;
                let Some(index) = items.find(pivot, 0) else {
                    return Ok(Inserted::NoPivot);
                };
                let pool = self.pool_for(key, &[value])?;
                let mut reference = [0; REFERENCE];
                let element =
                    Sequence::element(self.transaction, &mut { pool }, value, &mut reference)?;
                items.insert(index + behind as usize, element);
                self.put_list(database, key, Some(found), pool, &items, End::Right)?;
                items.len() as u64
            }
            ListForm::Tree(mut tree, pool) => {
                let Some(position) = tree.first_match(self.transaction.view(), pivot)? else {
                    return Ok(Inserted::NoPivot);
                };
                let pool = self.settle_list(pool, &found.entry, &mut tree, &[value])?;
                tree.insert(self.transaction, pool, position + behind, value)?;
                tree.count()
            }
        };
        self.changed(database, key, Effect::Changed);
        self.tell(KeyEvent::LInsert, database, key);
        Ok(Inserted::Length(length))
    }

    /// Moves an item from one end of a list to one end of the same or another list, and appends the
    /// item to `out`. Returns whether an item was moved. O(log n).
    pub fn list_move(
        &mut self,
        database: usize,
        (from, from_end): (&Key<'_>, End),
        (to, to_end): (&Key<'_>, End),
        out: &mut Ranges,
    ) -> Result<bool, Error> {
        let Some(found) = self.find_type(database, from, ValueType::List)? else {
            return Ok(false);
        };
        let is_new = self.find_type(database, to, ValueType::List)?.is_none();
        let start = out.len();
        let view = self.view();
        let moved = if from.bytes == to.bytes && super::read::length(view, &found.entry)? == 1 {
            // Rotating a list with one item does not change the list, so keep the key and its
            // expiry.
            super::read::append_all(view, &found.entry, out)?;
            self.changed(database, from, Effect::Changed);
            true
        } else {
            self.quietly(|writer| {
                writer.list_pop(database, from, from_end, 1, out)?;
                if out.len() == start {
                    return Ok(false);
                }
                let item = out.get(start).to_vec();
                writer.list_push(database, to, to_end, &[&item], false)?;
                Ok::<_, Error>(true)
            })?
        };
        if moved {
            // Redis emits the push event before the pop event.
            if is_new {
                self.tell(KeyEvent::New, database, to);
            }
            self.tell(to_end.push_event(), database, to);
            let gone = self.outbox.tells() && self.find(database, from)?.is_none();
            self.tell_taken(from_end.pop_event(), database, from, gone);
        }
        Ok(moved)
    }
}

impl ListItems {
    /// Appends values as items. A long value is stored in a separate block and appended as a
    /// reference.
    fn extend(
        &mut self,
        transaction: &mut Transaction<'_>,
        blocks: &mut impl Blocks,
        values: &[&[u8]],
    ) -> Result<(), Error> {
        for value in values {
            let mut reference = [0; REFERENCE];
            self.push(Sequence::element(
                transaction,
                blocks,
                value,
                &mut reference,
            )?);
        }
        Ok(())
    }
}

impl Sequence {
    /// Replaces the item at a position, which must exist.
    fn set(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        position: u64,
        value: &[u8],
    ) -> Result<(), Error> {
        let place = self.find(transaction.view(), position)?;
        let leaf = Leaf::load(transaction.view(), place.leaf)?;
        let index = position - place.before;
        if value.len() <= INLINE_ITEM_MAX
            && leaf.overwrite(transaction, pool.shard(), index, &ListItem::text(value))?
        {
            return Ok(());
        }
        super::sequence::free_blocks(transaction, pool, &leaf, index, index + 1)?;
        let mut items = leaf.items(transaction.view())?;
        let mut reference = [0; REFERENCE];
        let element = Sequence::element(transaction, &mut { pool }, value, &mut reference)?;
        items.replace(index as usize, element);
        self.put_items(transaction, pool, place, items)
    }

    /// Inserts an item before the item at the given position. If the position equals the length,
    /// the item is appended.
    fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        position: u64,
        value: &[u8],
    ) -> Result<(), Error> {
        if position == 0 || position >= self.count() {
            let end = if position == 0 { End::Left } else { End::Right };
            return self.push(transaction, pool, end, &[value]);
        }
        let place = self.find(transaction.view(), position)?;
        let leaf = Leaf::load(transaction.view(), place.leaf)?;
        let mut items = leaf.items(transaction.view())?;
        let mut reference = [0; REFERENCE];
        let element = Sequence::element(transaction, &mut { pool }, value, &mut reference)?;
        items.insert((position - place.before) as usize, element);
        self.put_items(transaction, pool, place, items)
    }
}
