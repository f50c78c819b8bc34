//! The change log of a store that has replicas: which keys were changed, and how, since the changes
//! were last sent. There is a log in each shard for the keys of the shard.
//!
//! A log contains the names of keys, not their values. The process that sends the changes reads the
//! values of all changed keys at one moment, so that many changes to the same key cost no more than
//! one. Each record is a part of the transaction that makes the change: it is there if and only if
//! the change is, whichever process was killed at whichever moment.
//!
//! ```text
//! record  | kind, database, length of the key | length of the detail | key ... | detail ... |
//! ```
//!
//! A log that no process reads must not fill the store. Once it has [`LOG_MAX`] bytes, it is removed, and
//! the replicas need a complete data set.

use undercroft_memory::{Fault, Transaction, View};

use crate::error::Error;
use crate::structures::byte_queue::ByteQueue;
use crate::structures::roots::{CHANGE_LOG, CHANGES_LOST, DATABASES};
use crate::transaction::effect::{Change, ChangedPart, Effect};

/// The size of a log's blocks in bytes.
const BLOCK: u64 = 8192;
/// The maximum length of all logs together in bytes.
const LOG_MAX: u64 = 256 << 20;
/// The number of bytes before the key in a record.
const HEADER: usize = 16;
/// The maximum length of a record that is composed without an allocation.
const SHORT: usize = 128;

/// The kinds of records that are not effects on a key.
const EMPTIED: u8 = 16;
const SWAPPED: u8 = 17;
const LIBRARIES: u8 = 18;
/// The kinds of records about parts of keys.
const MEMBER: u8 = 32;
const EXPIRY: u8 = 33;
const BYTES: u8 = 34;
/// The first of four kinds: the low bits are set if the left end is meant, and if items were added.
const ITEMS: u8 = 36;
const ENTRY: u8 = 40;
const TRIMMED: u8 = 41;
const GROUP: u8 = 42;
const CONSUMER: u8 = 43;
const PENDING: u8 = 44;

/// Returns the change log of a shard.
#[inline(always)]
pub(crate) fn log_of(shard: usize) -> ByteQueue {
    ByteQueue {
        shard,
        root: CHANGE_LOG,
        block: BLOCK,
    }
}

/// Returns whether a shard's changes are logged.
#[inline(always)]
pub(crate) fn is_logged(view: &View<'_>, shard: usize) -> bool {
    log_of(shard).exists(view)
}

/// A change to be logged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Logged<'k> {
    Key(usize, &'k [u8], Effect),
    Part(usize, &'k [u8], &'k ChangedPart<'k>),
    Emptied(usize),
    Swapped([usize; 2]),
    Libraries,
}

/// Appends a change to the log of a shard, which must exist. `shards` is the number of shards.
pub(crate) fn log_change(
    transaction: &mut Transaction<'_>,
    shard: usize,
    shards: usize,
    change: Logged<'_>,
) -> Result<(), Error> {
    let log = log_of(shard);
    let view = transaction.view();
    if log.end(view) - log.start(view) > LOG_MAX / shards as u64 {
        return lose_changes(transaction, shard);
    }
    let mut words = [0; 16];
    let (mut detail, mut rest) = (&[][..], &[][..]);
    let mut two = |one: u64, other: u64| {
        words[..8].copy_from_slice(&one.to_le_bytes());
        words[8..].copy_from_slice(&other.to_le_bytes());
    };
    let (kind, database, key) = match change {
        Logged::Key(database, key, effect) => (effect as u8, database, key),
        Logged::Emptied(database) => (EMPTIED, database, &[][..]),
        Logged::Swapped([one, other]) => {
            two(other as u64, 0);
            (SWAPPED, one, &[][..])
        }
        Logged::Libraries => (LIBRARIES, 0, &[][..]),
        Logged::Part(database, key, part) => {
            let kind = match *part {
                ChangedPart::Member(name) => {
                    detail = name;
                    MEMBER
                }
                ChangedPart::Expiry => EXPIRY,
                ChangedPart::Bytes { position, length } => {
                    two(position, length);
                    BYTES
                }
                ChangedPart::Items {
                    left,
                    added,
                    count,
                    length,
                } => {
                    two(count, length);
                    ITEMS | u8::from(left) | u8::from(added) << 1
                }
                ChangedPart::Entry { ms, seq } => {
                    two(ms, seq);
                    ENTRY
                }
                ChangedPart::Trimmed => TRIMMED,
                ChangedPart::Group(name) => {
                    detail = name;
                    GROUP
                }
                ChangedPart::Consumer { group, name } => {
                    two(group.len() as u64, 0);
                    (detail, rest) = (group, name);
                    CONSUMER
                }
                ChangedPart::Pending { group, ms, seq } => {
                    two(ms, seq);
                    detail = group;
                    PENDING
                }
            };
            (kind, database, key)
        }
    };
    let words: &[u8] = match kind {
        SWAPPED | BYTES | ITEMS..=ENTRY | CONSUMER | PENDING => &words,
        _ => &[],
    };
    let detail_length = words.len() + detail.len() + rest.len();
    let first = u64::from(kind) | (database as u64) << 8 | (key.len() as u64) << 16;
    let length = (HEADER + key.len() + detail_length).next_multiple_of(8);
    let (mut short, mut long) = ([0; SHORT], Vec::new());
    let record = match short.get_mut(..length) {
        Some(record) => record,
        None => {
            long.resize(length, 0);
            &mut long[..]
        }
    };
    record[..8].copy_from_slice(&first.to_le_bytes());
    record[8..HEADER].copy_from_slice(&(detail_length as u64).to_le_bytes());
    let mut at = HEADER;
    for bytes in [key, words, detail, rest] {
        record[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
    log.append(transaction, record)
}

/// Removes the log of a shard, so that the replicas need a complete data set.
pub(crate) fn lose_changes(transaction: &mut Transaction<'_>, shard: usize) -> Result<(), Error> {
    log_of(shard).remove(transaction)?;
    Ok(transaction.set_root(shard, CHANGES_LOST, 1)?)
}

/// Checks that the bytes of a shard's log consist of complete records.
pub(crate) fn check_changes(shard: usize, mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        let (_, length) = parse_change(shard, bytes).ok_or(Fault {
            at: CHANGE_LOG as u64,
            what: "a change log with complete records",
        })?;
        bytes = &bytes[length..];
    }
    Ok(())
}

/// Returns the number of bytes of the complete records at the beginning of a part of a shard's log.
pub(crate) fn complete_changes(shard: usize, bytes: &[u8]) -> usize {
    let mut complete = 0;
    while let Some((_, length)) = parse_change(shard, &bytes[complete..]) {
        complete += length;
    }
    complete
}

/// Iterates over the changes in the bytes of a shard's log, which must consist of [complete
/// records](check_changes).
pub(crate) fn parse_changes(shard: usize, mut bytes: &[u8]) -> impl Iterator<Item = Change<'_>> {
    std::iter::from_fn(move || {
        let (change, length) = parse_change(shard, bytes)?;
        bytes = &bytes[length..];
        Some(change)
    })
}

/// Returns the first change and the length of its record.
fn parse_change(shard: usize, bytes: &[u8]) -> Option<(Change<'_>, usize)> {
    let word = |bytes: &[u8], index: usize| {
        let bytes = bytes.get(8 * index..8 * index + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let first = word(bytes, 0)?;
    let length = usize::try_from(first >> 16).ok()?;
    let detail = usize::try_from(word(bytes, 1)?).ok()?;
    let record = HEADER.checked_add(length)?.checked_add(detail)?;
    let record = record.checked_next_multiple_of(8)?;
    let (key, rest) = bytes.get(HEADER..record)?.split_at(length);
    let detail = rest.get(..detail)?;
    let database = (first >> 8 & 0xff) as usize;
    if database >= DATABASES {
        return None;
    }
    let change = match first as u8 {
        EMPTIED => Change::Emptied { database, shard },
        SWAPPED => Change::Swapped {
            databases: [database, usize::try_from(word(detail, 0)?).ok()?],
            shard,
        },
        LIBRARIES => Change::Libraries,
        kind => match Effect::from_byte(kind) {
            Some(effect) => Change::Key(database, key, effect),
            None => {
                let part = match kind {
                    MEMBER => ChangedPart::Member(detail),
                    EXPIRY => ChangedPart::Expiry,
                    BYTES => ChangedPart::Bytes {
                        position: word(detail, 0)?,
                        length: word(detail, 1)?,
                    },
                    ITEMS..ENTRY => ChangedPart::Items {
                        left: kind & 1 != 0,
                        added: kind & 2 != 0,
                        count: word(detail, 0)?,
                        length: word(detail, 1)?,
                    },
                    ENTRY => ChangedPart::Entry {
                        ms: word(detail, 0)?,
                        seq: word(detail, 1)?,
                    },
                    TRIMMED => ChangedPart::Trimmed,
                    GROUP => ChangedPart::Group(detail),
                    CONSUMER => {
                        let names = detail.get(16..)?;
                        let length = usize::try_from(word(detail, 0)?).ok()?;
                        let (group, name) = names.split_at_checked(length)?;
                        ChangedPart::Consumer { group, name }
                    }
                    PENDING => ChangedPart::Pending {
                        group: detail.get(16..)?,
                        ms: word(detail, 0)?,
                        seq: word(detail, 1)?,
                    },
                    _ => return None,
                };
                Change::Part(database, key, part)
            }
        },
    };
    Some((change, record))
}
