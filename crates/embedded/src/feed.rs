//! Implements feed calls for language bindings, which pass many items in one buffer. Values are
//! copied in the feed's own layout, without an argument or a reply for each value.

use undercroft_commands::{Failure, append_feed_between, count_feed_between, feed_selection};
use undercroft_engine::feeds::{FeedRange, FoundItems, Order, Schema, Seen, Untallied};
use undercroft_engine::{Error, ShardSet};

use crate::OpenStore;

/// The conditions that select items of a feed.
#[derive(Clone, Copy, Debug)]
pub struct FeedQuery<'q> {
    /// The condition on an item's mark, which records whether the item has been seen.
    pub seen: Seen,
    /// The condition on an item's attributes, in the filter syntax of FEED commands.
    pub filter: Option<&'q [u8]>,
    /// The bounds of a range of values, as in FEED.BETWEEN. Only for sorted feeds.
    pub between: Option<(&'q [u8], &'q [u8])>,
}

impl FeedQuery<'_> {
    /// A query that selects all visible items.
    pub const VISIBLE: FeedQuery<'static> = FeedQuery {
        seen: Seen::Visible,
        filter: None,
        between: None,
    };
}

/// Items to add to a feed. The values are stored consecutively in one slice, and the attributes in
/// another.
#[derive(Clone, Copy, Debug)]
pub struct FeedItems<'a> {
    /// The bytes of all values.
    pub values: &'a [u8],
    /// The size of each value in bytes, which must not be 0.
    pub size: usize,
    /// The attributes of all items, with `columns` numbers for each value.
    pub attributes: &'a [u32],
    /// The number of attributes per value. With 0 columns, all attributes are 0.
    pub columns: usize,
}

impl FeedItems<'_> {
    /// Returns the values and attributes, or `None` if a feed with this schema does not accept them
    /// at this position.
    fn of(&self, schema: &Schema, position: Option<i64>) -> Option<(&[u8], &[u32])> {
        let columns = schema.widths().len();
        let is_place = match schema.order() {
            Order::List => position.is_some(),
            Order::Queue => matches!(position, Some(0 | -1)),
            Order::Sorted { .. } => position.is_none(),
        };
        let fits = schema.value_size() == self.size && [0, columns].contains(&self.columns);
        (is_place && fits).then_some((self.values, self.attributes))
    }
}

impl OpenStore {
    /// Inserts items into a feed before the item at a position. Without a position, each item is
    /// inserted where its value belongs. Returns the new number of items, or `None` if the feed
    /// does not exist or does not accept the items. In that case, FEED.ADD with the same items
    /// reports the reason.
    ///
    /// # Errors
    /// Returns the same errors as any write.
    pub fn feed_add(
        &self,
        (database, key): (usize, &[u8]),
        position: Option<i64>,
        items: &FeedItems<'_>,
    ) -> Result<Option<u64>, Error> {
        let store = &self.store;
        let key = store.key(key);
        store.check_memory_for(items.values.len())?;
        let added = store.write(ShardSet::one(key.shard()), |writer| {
            let place = position.unwrap_or(-1);
            writer.feed_add_visible(database, &key, place, |schema| items.of(schema, position))
        })?;
        if added.is_some() {
            store.note_use(&key);
        }
        Ok(added)
    }

    /// Moves the first item with a value to a position in the feed. Returns whether the feed
    /// contains the value, or `None` if the feed does not exist or does not accept the move. In
    /// that case, FEED.MOVE reports the reason.
    ///
    /// # Errors
    /// Returns the same errors as any write.
    pub fn feed_move(
        &self,
        (database, key): (usize, &[u8]),
        value: &[u8],
        position: i64,
    ) -> Result<Option<bool>, Error> {
        let store = &self.store;
        let key = store.key(key);
        store.check_memory_for(value.len())?;
        let moved = store.write(ShardSet::one(key.shard()), |writer| {
            let Some(feed) = writer.feed(database, &key)? else {
                return Ok(None);
            };
            let is_place = match feed.schema().order() {
                Order::List => true,
                Order::Queue => matches!(position, 0 | -1),
                Order::Sorted { .. } => false,
            };
            if !is_place || !feed.schema().takes(value) {
                return Ok(None);
            }
            writer.feed_move(database, &key, value, position).map(Some)
        })?;
        if moved.is_some() {
            store.note_use(&key);
        }
        Ok(moved)
    }

    /// Reads items of a feed into a buffer, including their attributes if the range requests them.
    /// `takes` returns whether the caller accepts the feed's kind of items. Returns the kind of the
    /// items, or `None` if the key does not exist.
    ///
    /// # Errors
    /// Returns the same errors as FEED.RANGE and FEED.BETWEEN.
    pub fn feed_items(
        &self,
        (database, key): (usize, &[u8]),
        query: FeedQuery<'_>,
        range: FeedRange,
        takes: impl Fn(&Schema) -> bool + Sync,
        items: &mut FoundItems,
    ) -> Result<Option<Schema>, Failure> {
        let store = &self.store;
        let key = store.key(key);
        let schema = store.read_into(ShardSet::one(key.shard()), items, |reader, items| {
            let Some(feed) = reader.feed(database, &key)? else {
                return Ok::<_, Failure>(None);
            };
            let schema = *feed.schema();
            if takes(&schema) {
                let selection = feed_selection(&schema, query.seen, query.filter)?;
                let view = reader.view();
                match query.between {
                    None => feed.range(view, &selection, range, items)?,
                    Some(limits) => {
                        append_feed_between(&feed, view, &selection, limits, range, items)?;
                    }
                }
            }
            Ok(Some(schema))
        })?;
        store.looked_up(database, &key, schema.is_some());
        store
            .access()
            .make_tallies(database, &key, items.untallied());
        Ok(schema)
    }

    /// Returns the number of items that a query selects, or 0 if the key does not exist.
    ///
    /// # Errors
    /// Returns the same errors as FEED.COUNT.
    pub fn feed_count(
        &self,
        (database, key): (usize, &[u8]),
        query: FeedQuery<'_>,
    ) -> Result<u64, Failure> {
        let store = &self.store;
        let key = store.key(key);
        let mut untallied = Untallied::default();
        let shards = ShardSet::one(key.shard());
        let count = store.read_into(shards, &mut untallied, |reader, untallied| {
            let Some(feed) = reader.feed(database, &key)? else {
                return Ok::<_, Failure>(None);
            };
            let selection = feed_selection(feed.schema(), query.seen, query.filter)?;
            let view = reader.view();
            count_feed_between(&feed, view, &selection, query.between, untallied).map(Some)
        })?;
        store.looked_up(database, &key, count.is_some());
        store.access().make_tallies(database, &key, &untallied);
        Ok(count.unwrap_or(0))
    }
}
