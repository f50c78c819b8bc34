//! Maintains feeds whose items can be verified: a value consists of a number and its checksum, and
//! the number determines the item's attributes.

use undercroft_engine::feeds::{
    FeedType, Filter, FoundItems, Order, Rows, Schema, Seen, Selection, Test, Untallied,
};
use undercroft_engine::lists::End;
use undercroft_engine::{Error, Ranges, Store, Writer};

/// The number of feeds: a list, a feed with an index, and a feed sorted by unique values.
pub const FEEDS: u32 = 3;
const INDEXED: u32 = 1;
const SORTED: u32 = 2;
/// The exclusive upper bound for the numbers in values.
const NUMBERS: u32 = 3000;
/// The number of items above which many items are removed from a feed in one operation.
const MANY: u64 = 4000;
/// Attribute values below this bound are counted in tallies.
const LOW: u32 = 5;
/// The size of a value in bytes. The value repeats a big-endian number and its checksum. A few
/// thousand such values fill so many leaves that a node has room for a tally.
const SIZE: u8 = 64;

fn key(feed: u32) -> Vec<u8> {
    format!("feed:{feed}").into_bytes()
}

fn schema(feed: u32) -> Schema {
    let order = match feed {
        SORTED => Order::Sorted {
            of: FeedType::Bytes,
            unique: true,
        },
        _ => Order::List,
    };
    let schema = Schema::new(SIZE, &[4, 3, 1], order).expect("a sound schema");
    match feed {
        INDEXED => schema.with_index().expect("a list"),
        _ => schema,
    }
}

fn value(number: u32) -> [u8; SIZE as usize] {
    let number = number.to_be_bytes();
    let mut value = [0; SIZE as usize];
    for part in value.as_chunks_mut::<8>().0 {
        part[..4].copy_from_slice(&number);
        part[4..].copy_from_slice(&crc32fast::hash(&number).to_be_bytes());
    }
    value
}

fn attributes(number: u32) -> [u32; 3] {
    [number % 16, number % 5, number % 2]
}

/// Makes a random change to one of the feeds.
pub fn change(store: &Store, random: &mut fastrand::Rng) -> Result<(), Error> {
    let feed = random.u32(..FEEDS);
    let (name, schema) = (key(feed), schema(feed));
    let key = store.key(&name);
    let (first, kind) = (random.u32(..NUMBERS), random.u32(..16));
    let values: Vec<_> = (first..first + random.u32(1..4)).map(value).collect();
    let values: Vec<&[u8]> = values.iter().map(<[u8; SIZE as usize]>::as_slice).collect();
    let selection = Selection::of_values(&values);
    let (position, end) = (
        random.i64(-i64::from(NUMBERS)..NUMBERS.into()),
        random.bool(),
    );
    let mut rows = Rows::new(&schema);
    for number in first..first + [1, 3, 40, 700][random.usize(..4)] {
        rows.push(&value(number), &attributes(number), random.u8(..8) == 0);
    }
    let mut some = Filter::default();
    some.add(&schema, 0, Test::OneOf(vec![first % 16, (first + 7) % 16]));
    let some = Selection::new(Seen::All, some);
    let change = |writer: &mut Writer<'_, '_>| {
        writer.feed_create(0, &key, &schema)?;
        match kind {
            0..6 => writer.feed_add(0, &key, position, &rows).map(drop)?,
            6..9 => writer.feed_remove(0, &key, &selection).map(drop)?,
            9 | 10 => writer.feed_hide(0, &key, &selection, end).map(drop)?,
            11 | 12 if feed != SORTED => {
                writer.feed_move(0, &key, values[0], position).map(drop)?
            }
            11..14 => {
                let end = if end { End::Left } else { End::Right };
                let count = 1 + u64::from(first) % 90;
                writer
                    .feed_pop(0, &key, end, count, &mut FoundItems::default())
                    .map(drop)?;
            }
            14 => writer.feed_remove(0, &key, &some).map(drop)?,
            _ => writer.feed_compact(0, &key).map(drop)?,
        }
        if writer.feed_add(0, &key, 0, &Rows::new(&schema))? > Some(MANY) {
            writer.feed_remove(0, &key, &some)?;
        }
        Ok(())
    };
    store.write(store.shards_of([&key]), change)
}

/// Checks one snapshot of a feed: a writer must have added each item, and each item must be in the
/// right position.
pub fn check(store: &Store, feed: u32) -> Result<(), String> {
    let (name, schema) = (key(feed), schema(feed));
    let key = store.key(&name);
    let mut found = (Ranges::new(), Untallied::default());
    let counted = store.read_into(store.shards_of([&key]), &mut found, |reader, found| {
        let (rows, untallied) = found;
        let (Some(entry), Some(feed)) = (reader.find(0, &key)?, reader.feed(0, &key)?) else {
            return Ok::<_, Error>(None);
        };
        entry.append_items(reader.view(), rows)?;
        let mut low = Filter::default();
        low.add(&schema, 0, Test::Less(LOW));
        let mut seen = |seen, filter| {
            let selection = Selection::new(seen, filter);
            feed.count_of(reader.view(), &selection, untallied)
        };
        Ok(Some([
            seen(Seen::Visible, Filter::default())?,
            seen(Seen::Hidden, Filter::default())?,
            seen(Seen::Visible, low)?,
        ]))
    });
    let (rows, untallied) = found;
    // Make the tallies: a death during this step leaves either a complete tally or none.
    store.access().make_tallies(0, &key, &untallied);
    let Some(numbers) = counted.map_err(|error| error.to_string())? else {
        return Ok(());
    };
    let (mut counts, mut last) = ([0, 0, 0], None);
    for row in rows.iter().skip(1) {
        let known = row.get(1..5).and_then(|number| number.try_into().ok());
        let number = u32::from_be_bytes(known.unwrap_or_default());
        let is = |hidden| *row == schema.item_row(&value(number), &attributes(number), hidden);
        match [false, true].into_iter().position(is) {
            Some(hidden) => {
                counts[hidden] += 1;
                counts[2] += u64::from(hidden == 0 && attributes(number)[0] < LOW);
            }
            None => return Err(format!("feed {feed} has an item {row:?}")),
        }
        if let Some(last) = last.replace(number)
            && feed == SORTED
            && last >= number
        {
            return Err(format!("feed {feed} has {number} behind {last}"));
        }
    }
    match counts == numbers {
        true => Ok(()),
        false => Err(format!(
            "feed {feed} has {counts:?} items, visible, hidden, and visible with an attribute below {LOW}, and counts \
             {numbers:?}"
        )),
    }
}
