//! Implements the operations that change feeds.

use super::FEED;
use super::edit::Packer;
use super::leaves::image::{Image, Rows};
use super::leaves::leaf::HIDDEN;
use super::order::{FeedType, Order};
use super::query::filter::Selection;
use super::query::found::FoundItems;
use super::query::walk::{Found, Wanted};
use super::read::{Between, FeedRange};
use super::root::Feed;
use super::root::Made;
use super::schema::Schema;
use undercroft_memory::removing;

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::elements;
use crate::structures::key::Key;
use crate::transaction::effect::Effect;
use crate::transaction::writer::{self, Writer};
use crate::types::list::End;
use crate::types::value_type::ValueType;

/// A removal rebuilds the complete feed if more than one in `MADE_ANEW` leaves contains an item to
/// remove.
const MADE_ANEW: u64 = 4;

/// Converts an index to an insertion position. A non-negative index refers to the position before
/// that item. A negative index refers to the position after an item counted from the end, so -1 is
/// the end of the feed.
fn resolve(position: i64, count: u64) -> u64 {
    match u64::try_from(position) {
        Ok(position) => position.min(count),
        Err(_) => (count + 1).saturating_sub(position.unsigned_abs()),
    }
}

impl Writer<'_, '_> {
    /// Looks up the feed at a key. Fails if the value has another type.
    pub fn feed(&mut self, database: usize, key: &Key<'_>) -> Result<Option<Feed>, Error> {
        Ok(self.find_feed(database, key)?.map(|(_, feed)| feed))
    }

    fn find_feed(
        &mut self,
        database: usize,
        key: &Key<'_>,
    ) -> Result<Option<(writer::Found, Feed)>, Error> {
        let Some(found) = self.find_type(database, key, ValueType::Feed)? else {
            return Ok(None);
        };
        let feed = Feed::load(self.view(), key.shard, &found.entry)?;
        Ok(Some((found, feed)))
    }

    /// Records that a feed changed and emits an event.
    fn feed_changed(&mut self, database: usize, key: &Key<'_>, event: KeyEvent) {
        self.changed(database, key, Effect::Changed);
        self.tell(event, database, key);
    }

    /// Creates an empty feed. Returns `false` and does nothing if the key already exists.
    pub fn feed_create(
        &mut self,
        database: usize,
        key: &Key<'_>,
        schema: &Schema,
    ) -> Result<bool, Error> {
        if self.find(database, key)?.is_some() {
            return Ok(false);
        }
        let words = Feed::root_words(schema, Made::default(), 0, key.shard.into());
        self.put_object(database, key, None, FEED, &words)?;
        self.feed_changed(database, key, KeyEvent::FeedCreate);
        Ok(true)
    }

    /// Inserts items of the feed's schema before the item at `position`, or at the end. Returns the
    /// new number of items, or `None` if the feed does not exist. A sorted feed ignores `position`
    /// and inserts items by value. If its values are unique, it ignores items whose values already
    /// exist. O(log n + items).
    pub fn feed_add(
        &mut self,
        database: usize,
        key: &Key<'_>,
        position: i64,
        rows: &Rows,
    ) -> Result<Option<u64>, Error> {
        match self.find_feed(database, key)? {
            Some(found) => self
                .add_to_feed((database, key), found, position, rows.image())
                .map(Some),
            None => Ok(None),
        }
    }

    /// Inserts visible items from two buffers, like [`feed_add`](Self::feed_add). `items` is called
    /// with the feed's schema and returns the concatenated values and the attributes of all items.
    /// The attributes can be empty if all are 0. Returns `None` if the feed does not exist, if
    /// `items` returns `None`, or if the items do not match the schema.
    pub fn feed_add_visible<'i>(
        &mut self,
        database: usize,
        key: &Key<'_>,
        position: i64,
        items: impl FnOnce(&Schema) -> Option<(&'i [u8], &'i [u32])>,
    ) -> Result<Option<u64>, Error> {
        let Some((found, feed)) = self.find_feed(database, key)? else {
            return Ok(None);
        };
        let Some((values, attributes)) = items(&feed.schema) else {
            return Ok(None);
        };
        let Some(rows) = Image::visible(&feed.schema, values, attributes) else {
            return Ok(None);
        };
        self.add_to_feed((database, key), (found, feed), position, rows)
            .map(Some)
    }

    fn add_to_feed(
        &mut self,
        (database, key): (usize, &Key<'_>),
        (found, mut feed): (writer::Found, Feed),
        position: i64,
        rows: Image,
    ) -> Result<u64, Error> {
        if rows.count == 0 {
            return Ok(feed.items());
        }
        self.free_along(key.shard, rows.count)?;
        if let Order::Sorted { of, unique } = feed.schema.order() {
            let rows = feed.in_order(self.view(), (of, unique), &rows)?;
            return self.feed_add_sorted(database, key, (found, feed), of, &rows);
        }
        let more = rows.count as u64;
        if feed.items() == 0 && rows.count > feed.full.places {
            let pool = elements::new_pool(self.transaction, key.shard, feed.bytes_of(more))?;
            let mut packer = Packer::new(&feed.schema, pool);
            packer.add(self.transaction, &rows, rows.places())?;
            let made = packer.finish(self.transaction)?;
            let hidden = rows.note(&feed.schema, rows.places())[0];
            let words = Feed::root_words(&feed.schema, made, hidden, pool);
            self.put_object(database, key, Some(found), FEED, &words)?;
        } else {
            feed.settle(self.transaction, more)?;
            let position = resolve(position, feed.items());
            feed.insert(self.transaction, position, (&rows, rows.places()))?;
        }
        self.feed_changed(database, key, KeyEvent::FeedAdd);
        Ok(feed.items().max(more))
    }

    /// Inserts items, which must be sorted by value, at the positions that their values determine.
    /// Returns the new number of items. If there are more items than leaves and not all items
    /// belong at the same position, the feed is rebuilt, so that no leaf is changed repeatedly.
    fn feed_add_sorted(
        &mut self,
        database: usize,
        key: &Key<'_>,
        (found, mut feed): (writer::Found, Feed),
        of: FeedType,
        rows: &Image,
    ) -> Result<u64, Error> {
        let (there, more) = (feed.items(), rows.count as u64);
        if more == 0 {
            return Ok(there);
        }
        let are_many = more > 1 && more > there / feed.full.places as u64;
        let in_one_place = || {
            let (_, end) = feed.gap(self.view(), of, rows, rows.places())?;
            Ok::<_, Error>(there > 0 && end == rows.end())
        };
        if are_many && !in_one_place()? {
            let bytes = feed.bytes_of(there + more);
            let pool = elements::new_pool(self.transaction, key.shard, bytes)?;
            let words = feed.merge_anew(self.transaction, pool, of, rows)?;
            self.put_object(database, key, Some(found), FEED, &words)?;
        } else {
            feed.settle(self.transaction, more)?;
            feed.insert_sorted(self.transaction, of, rows)?;
        }
        self.feed_changed(database, key, KeyEvent::FeedAdd);
        Ok(there + more)
    }

    /// Removes the items that a query selects. Returns the number of items removed. At most O(n),
    /// because subtrees are skipped if their notes rule out a match.
    pub fn feed_remove(
        &mut self,
        database: usize,
        key: &Key<'_>,
        selection: &Selection<'_>,
    ) -> Result<u64, Error> {
        self.feed_remove_among(database, key, selection, None)
    }

    /// Removes the items of a sorted feed that a query selects and whose values are within limits.
    /// Returns the number of items removed. Locating the limits takes O(log n).
    pub fn feed_remove_between(
        &mut self,
        database: usize,
        key: &Key<'_>,
        selection: &Selection<'_>,
        limits: Between<'_>,
    ) -> Result<u64, Error> {
        self.feed_remove_among(database, key, selection, Some(limits))
    }

    fn feed_remove_among(
        &mut self,
        database: usize,
        key: &Key<'_>,
        selection: &Selection<'_>,
        limits: Option<Between<'_>>,
    ) -> Result<u64, Error> {
        let _removing = removing();
        let Some((found, mut feed)) = self.find_feed(database, key)? else {
            return Ok(0);
        };
        let wanted = match limits {
            Some(limits) => Wanted::ALL.within(feed.positions_between(self.view(), limits)?),
            None => Wanted::ALL,
        };
        let gone = feed.collect(self.view(), selection, wanted)?;
        let items = gone.iter().map(Found::items).sum();
        if items == 0 {
            return Ok(0);
        }
        let leaves = feed.items() / feed.full.places as u64;
        if self.transaction.is_in_parts() {
            self.expect_parts(database, key)?;
            feed.remove_in_parts(self.transaction, &gone)?;
        } else if gone.len() as u64 * MADE_ANEW > leaves && gone.len() > 1 {
            self.make_feed_anew(database, key, (found, feed), &gone)?;
        } else {
            feed.remove(self.transaction, &gone)?;
        }
        self.feed_changed(database, key, KeyEvent::FeedDel);
        Ok(items)
    }

    /// Rebuilds the feed at a key with full leaves, omitting the items `without`.
    fn make_feed_anew(
        &mut self,
        database: usize,
        key: &Key<'_>,
        (found, feed): (writer::Found, Feed),
        without: &[Found],
    ) -> Result<(), Error> {
        let gone: u64 = without.iter().map(Found::items).sum();
        let bytes = feed.bytes_of(feed.items().saturating_sub(gone));
        let pool = elements::new_pool(self.transaction, key.shard, bytes)?;
        let words = feed.make_anew(self.transaction, pool, without)?;
        self.put_object(database, key, Some(found), FEED, &words)
    }

    /// Compacts a feed so that its leaves are full. Returns whether the feed exists. O(n).
    pub fn feed_compact(&mut self, database: usize, key: &Key<'_>) -> Result<bool, Error> {
        let Some((found, mut feed)) = self.find_feed(database, key)? else {
            return Ok(false);
        };
        if self.transaction.is_in_parts() {
            self.expect_parts(database, key)?;
            feed.join_in_parts(self.transaction)?;
        } else {
            self.make_feed_anew(database, key, (found, feed), &[])?;
        }
        self.changed(database, key, Effect::Changed);
        Ok(true)
    }

    /// Removes up to `count` visible items from one end and fills `out` with them. Returns whether
    /// the feed exists. O(log n + items).
    pub fn feed_pop(
        &mut self,
        database: usize,
        key: &Key<'_>,
        end: End,
        count: u64,
        out: &mut FoundItems,
    ) -> Result<bool, Error> {
        let _removing = removing();
        let Some((_, mut feed)) = self.find_feed(database, key)? else {
            return Ok(false);
        };
        let selection = Selection::visible();
        let range = FeedRange {
            from: 0,
            count,
            reverse: end == End::Right,
            attributes: false,
        };
        feed.range(self.view(), &selection, range, out)?;
        let wanted = Wanted {
            most: count,
            reverse: range.reverse,
            ..Wanted::ALL
        };
        let gone = feed.collect(self.view(), &selection, wanted)?;
        if gone.is_empty() {
            return Ok(true);
        }
        self.expect_parts(database, key)?;
        feed.remove_in_parts(self.transaction, &gone)?;
        self.feed_changed(database, key, KeyEvent::FeedPop);
        Ok(true)
    }

    /// Moves the first item with a value to a position among the other items. Returns whether an
    /// item has the value. Fails if the feed is sorted, because items of a sorted feed cannot be
    /// moved.
    pub fn feed_move(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value: &[u8],
        position: i64,
    ) -> Result<bool, Error> {
        let Some((_, mut feed)) = self.find_feed(database, key)? else {
            return Ok(false);
        };
        if feed.schema.order().sorted_by().is_some() {
            return Err(Error::WrongOrder);
        }
        let Some(item) = feed.first(self.view(), value)? else {
            return Ok(false);
        };
        let to = resolve(position, feed.items() - 1);
        if item.position() != to {
            feed.move_item(self.transaction, item, to)?;
        }
        self.feed_changed(database, key, KeyEvent::FeedMove);
        Ok(true)
    }

    /// Sets attributes of all items with a value. An attribute given as `None` does not change.
    /// Returns the number of items with the value.
    pub fn feed_set_attributes(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value: &[u8],
        attributes: &[Option<u32>],
    ) -> Result<u64, Error> {
        let values = [value];
        let selection = Selection::of_values(&values);
        let Some((_, mut feed)) = self.find_feed(database, key)? else {
            return Ok(0);
        };
        let found = feed.collect(self.view(), &selection, Wanted::ALL)?;
        let schema = feed.schema;
        feed.change(self.transaction, &found, |image, place| {
            image.set_attributes(&schema, place, attributes.iter().copied());
        })?;
        if !found.is_empty() {
            self.feed_changed(database, key, KeyEvent::FeedSetAttr);
        }
        Ok(found.iter().map(Found::items).sum())
    }

    /// Hides the items that a query selects, or makes them visible again. Returns the number of
    /// items whose visibility changed.
    pub fn feed_hide(
        &mut self,
        database: usize,
        key: &Key<'_>,
        selection: &Selection<'_>,
        hide: bool,
    ) -> Result<u64, Error> {
        let Some((_, mut feed)) = self.find_feed(database, key)? else {
            return Ok(0);
        };
        let found = feed.collect(self.view(), selection, Wanted::ALL)?;
        let before = feed.hidden;
        feed.change(self.transaction, &found, |image, place| {
            image.set_bit(HIDDEN, place, hide);
        })?;
        let changed = feed.hidden.abs_diff(before);
        if changed > 0 {
            let event = if hide {
                KeyEvent::FeedHide
            } else {
                KeyEvent::FeedShow
            };
            self.feed_changed(database, key, event);
        }
        Ok(changed)
    }
}
