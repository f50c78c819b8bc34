//! Generates values of every type and size class that identify the origin of each byte: a value
//! repeats one word of eight bytes, and different values use different words. Writers constantly
//! replace the values of a few keys.

use std::path::Path;

use undercroft_engine::feeds::{FeedType, Order, Rows, Schema};
use undercroft_engine::{Error, Limits, Ranges, Store, ValueType};

/// The keys whose values are replaced.
pub const KEYS: [&str; 6] = [
    "shape:0", "shape:1", "shape:2", "shape:3", "shape:4", "shape:5",
];
/// The number of fields, members or list items in each collection.
pub const ITEMS: usize = 64;
/// The size of a word, in bytes.
const WORD: usize = 8;

/// The lengths of strings, in words. They are stored in the key's entry, in blocks, in runs of
/// pages, or in separate arenas (the pages of one large object).
const STRINGS: [usize; 8] = [1, 24, 40, 490, 640, 2600, 12_600, 40_000];
/// The lengths of items, in words, for packed collections and for items in separate blocks.
const LENGTHS: [usize; 3] = [1, 6, 625];

/// The numbers of items in feeds with one leaf and with many leaves.
const FEEDS: [usize; 2] = [ITEMS, 2400];
/// The size, in bits, of a feed item's attribute. All of its values occur equally often.
const COUNTED: u8 = 4;

/// Returns the name of a hash's field.
pub fn field(index: usize) -> String {
    format!("field:{index}")
}

/// Returns a member of a collection, which consists of a word and an index. Members sort by index.
fn member(word: &[u8], index: usize) -> Vec<u8> {
    let thousand = char::from(b':' + (index / 1000) as u8);
    [word, format!("{thousand}{:03}", index % 1000).as_bytes()].concat()
}

/// Replaces values until the process is killed. Returns only if a call fails.
///
/// # Errors
/// Returns the error from the call that failed.
pub fn write(path: &Path, seed: u64) -> Result<(), Error> {
    let store = Store::open(path, true)?;
    let mut random = fastrand::Rng::with_seed(seed);
    for number in 0_u32.. {
        let word = format!("{:03x}{:05x}", seed & 0xfff, number & 0xf_ffff);
        let key = KEYS[random.usize(..KEYS.len())].as_bytes();
        match random.u32(0..10) {
            0 => drop(store.delete(0, &[key])?),
            1..4 => {
                let length = STRINGS[random.usize(..STRINGS.len())];
                store.set(0, key, word.repeat(length).as_bytes())?;
            }
            kind @ 4..8 => collection(&store, key, kind, word.as_bytes(), &mut random)?,
            kind => feed(&store, key, kind == 8, word.as_bytes(), &mut random)?,
        }
    }
    Ok(())
}

/// Replaces the value of a key with a collection in one transaction.
fn collection(
    store: &Store,
    key: &[u8],
    kind: u32,
    word: &[u8],
    random: &mut fastrand::Rng,
) -> Result<(), Error> {
    let mut items = Ranges::new();
    let length = LENGTHS[random.usize(..LENGTHS.len())];
    let (value_type, limits) = match kind {
        4 => (ValueType::Hash, Limits::DEFAULT),
        5 => (ValueType::List, Limits::DEFAULT),
        6 => (ValueType::Set, Limits::DEFAULT),
        _ => (ValueType::SortedSet, Limits::DEFAULT),
    };
    for index in 0..ITEMS {
        match value_type {
            ValueType::Hash => {
                items.push(field(index).as_bytes());
                items.push(&word.repeat(length));
            }
            ValueType::List => items.push(&word.repeat(length)),
            _ => items.push(&member(word, index)),
        }
        if value_type == ValueType::SortedSet {
            items.push(index.to_string().as_bytes());
        }
    }
    let key = store.key(key);
    store.write(store.shards_of([&key]), |writer| {
        writer.put_items(0, &key, value_type, &items, None, &limits)
    })
}

/// Replaces the value of a key with a feed in one transaction. The items are ordered by index, and
/// an item's attribute is the low bits of its index.
fn feed(
    store: &Store,
    key: &[u8],
    sorted: bool,
    word: &[u8],
    random: &mut fastrand::Rng,
) -> Result<(), Error> {
    let order = match sorted {
        true => Order::Sorted {
            of: FeedType::Bytes,
            unique: random.bool(),
        },
        false => Order::List,
    };
    let schema = Schema::new(member(word, 0).len() as u8, &[COUNTED], order).expect("sound");
    let indexed = schema.with_index().filter(|_| random.bool());
    let schema = indexed.unwrap_or(schema);
    let mut rows = Rows::new(&schema);
    for index in 0..FEEDS[random.usize(..FEEDS.len())] {
        rows.push(
            &member(word, index),
            &[index as u32 % (1 << COUNTED)],
            false,
        );
    }
    let key = store.key(key);
    store.write(store.shards_of([&key]), |writer| {
        writer.remove(0, &key)?;
        writer.feed_create(0, &key, &schema)?;
        writer.feed_add(0, &key, -1, &rows).map(drop)
    })
}

/// Returns the word that a value repeats.
///
/// # Errors
/// Fails if the value is truncated or mixes several words.
pub fn word_of(value: &[u8]) -> Result<&[u8], String> {
    let cut = || {
        format!(
            "{} bytes: {:?}",
            value.len(),
            String::from_utf8_lossy(&value[..value.len().min(40)])
        )
    };
    let (word, _) = value.split_at_checked(WORD).ok_or_else(cut)?;
    match value.chunks(WORD).position(|other| other != word) {
        None => Ok(word),
        Some(at) => {
            let other = &value[at * WORD..value.len().min((at + 1) * WORD)];
            let [word, other] = [word, other].map(String::from_utf8_lossy);
            Err(format!(
                "{} bytes of {word:?}, and at word {at} {other:?}",
                value.len()
            ))
        }
    }
}

/// Checks the values that one read of a key returned: there must be none, or `count` values that
/// repeat the same word.
///
/// # Errors
/// Fails if the number of values is wrong, or if their words differ.
pub fn check_values(values: &[&[u8]], count: usize) -> Result<(), String> {
    if values.is_empty() {
        return Ok(());
    }
    if values.len() != count {
        return Err(format!("{} values, expected {count} or none", values.len()));
    }
    let first = word_of(values[0])?;
    for value in values {
        let word = word_of(value)?;
        if word != first {
            let [first, word] = [first, word].map(String::from_utf8_lossy);
            return Err(format!("values of {first:?} and of {word:?}"));
        }
    }
    Ok(())
}

/// Checks how many of a feed's items have a certain attribute value. The number must be 0 or that
/// of a complete feed.
///
/// # Errors
/// Fails if the count is wrong.
pub fn check_count(count: i64) -> Result<(), String> {
    match FEEDS.iter().any(|&items| items as i64 >> COUNTED == count) || count == 0 {
        true => Ok(()),
        false => Err(format!("{count} items")),
    }
}

/// Checks the members that one read of a key returned: there must be none, or `count` different
/// members that contain the same word.
///
/// # Errors
/// Fails if the number of members is wrong, or if their words differ.
pub fn check_members(members: &[&[u8]], count: usize) -> Result<(), String> {
    let Some(first) = members.first() else {
        return Ok(());
    };
    let mut seen = members.to_vec();
    seen.sort_unstable();
    seen.dedup();
    let is_known = |text: &&[u8]| {
        let known = |index| member(first.get(..WORD).unwrap_or(first), index) == *text;
        (0..ITEMS).any(known)
    };
    if seen.len() != count || !seen.iter().all(is_known) {
        let first = String::from_utf8_lossy(first);
        return Err(format!(
            "{} members beside {first:?}, expected {count} or none",
            seen.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_of_two_values_is_detected() {
        let whole = "00000001".repeat(50);
        assert_eq!(word_of(whole.as_bytes()), Ok(&b"00000001"[..]));
        let torn = whole
            .replace("00000001", "00000002")
            .replacen("00000002", "00000001", 1);
        assert!(word_of(torn.as_bytes()).is_err());
        assert!(word_of(&whole.as_bytes()[1..]).is_err() && word_of(b"0").is_err());
        let [one, two] = ["00000001", "00000002"].map(str::as_bytes);
        assert!(check_values(&[one, one], 2).is_ok() && check_values(&[], 2).is_ok());
        assert!(check_values(&[one, two], 2).is_err() && check_values(&[one], 2).is_err());
        let [first, second, other] = [member(one, 1), member(one, 2), member(two, 3)];
        assert!(check_members(&[&first, &second], 2).is_ok());
        assert!(check_members(&[&first, &first], 2).is_err());
        assert!(check_members(&[&first, &other], 2).is_err());
    }
}
