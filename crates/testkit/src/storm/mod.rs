//! A storm: processes that write and read one store while others are killed.
//!
//! Every process counts its work in words of a separate file. From these counts, the storm's master
//! sees which processes hang, and how often dead processes have incremented a counter.
//!
//! - `accounts`: accounts whose balances always add up to zero.
//! - `copier`: a process that repeatedly copies the store, and checks that each copy shows a single
//!   moment.
//! - `feeds`: feeds whose items can be verified.
//! - `member`: a process of a storm, as seen by the master.
//! - `messages`: processes that publish and subscribe until they are killed.
//! - `reader`: a process that reads at random, checks the values, and is not killed.
//! - `shapes`: values of every type and size class that identify the origin of each byte.
//! - `streams`: streams whose entries can be verified, and their consumer groups.
//! - `values`: values with checksums.
//! - `writer`: a process that writes at random until it is killed.

pub mod accounts;
pub mod copier;
pub mod feeds;
pub mod member;
pub mod messages;
pub mod reader;
pub mod shapes;
pub mod streams;
pub mod values;
pub mod writer;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use undercroft_engine::{Error, Store};

/// The number of keys with sealed values.
pub const SEALED: u32 = 40;
/// The number of keys with appended texts.
pub const APPENDED: u32 = 8;
/// The number of counters.
pub const COUNTERS: u32 = 4;
/// The number of groups, whose keys always have equal values.
pub const GROUPS: u32 = 6;
/// The number of keys in each group.
pub const MEMBERS: u32 = 12;
/// The number of keys between which one value is renamed.
pub const NAMES: u32 = 6;
/// The most threads that a process has.
pub const THREADS: u64 = 4;

/// Returns a key with a sealed value.
pub fn sealed_key(index: u32) -> Vec<u8> {
    format!("sealed:{index}").into_bytes()
}

/// Returns a key with an appended text.
pub fn appended_key(index: u32) -> Vec<u8> {
    format!("appended:{index}").into_bytes()
}

/// Returns the key of a counter.
pub fn counter_key(index: u32) -> Vec<u8> {
    format!("counter:{index}").into_bytes()
}

/// The name that the checksum of a renamed value covers instead of the value's current key.
pub const RENAMED: &[u8] = b"renamed";

/// Returns a key that the renamed value may have.
pub fn renamed_key(index: u32) -> Vec<u8> {
    format!("renamed:{index}").into_bytes()
}

/// Returns the name that the checksums of a group's values cover.
pub fn group_name(group: u32) -> Vec<u8> {
    format!("group:{group}").into_bytes()
}

/// Returns the keys of a group.
pub fn group(group: u32) -> Vec<Vec<u8>> {
    (0..MEMBERS)
        .map(|member| format!("group:{group}:{member}").into_bytes())
        .collect()
}

/// The file in which a process counts its work.
#[derive(Debug)]
pub struct Progress {
    file: File,
}

/// Words of a [`Progress`]: the operations of each thread; the increments begun, and those done, of
/// each thread and counter; the messages received and lost.
const BEGUN: u64 = THREADS;
const DONE: u64 = BEGUN + THREADS * COUNTERS as u64;
const RECEIVED: u64 = DONE + THREADS * COUNTERS as u64;
const LOST: u64 = RECEIVED + 1;
const WORDS: u64 = LOST + 1;

impl Progress {
    /// Creates the file for a process that is about to start.
    pub fn create(path: &Path) -> io::Result<Progress> {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        file.set_len(WORDS * 8)?;
        Ok(Progress { file })
    }

    /// Opens the file in the process that counts.
    pub fn open(path: &Path) -> io::Result<Progress> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Progress { file })
    }

    fn word(&self, index: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file
            .read_exact_at(&mut bytes, index * 8)
            .expect("a file of that length");
        u64::from_le_bytes(bytes)
    }

    fn set(&self, index: u64, value: u64) {
        self.file
            .write_all_at(&value.to_le_bytes(), index * 8)
            .expect("a file of that length");
    }

    fn add(&self, index: u64) {
        self.set(index, self.word(index) + 1);
    }

    /// Counts an operation of a thread.
    pub fn operation(&self, thread: u64) {
        self.add(thread);
    }

    /// Returns the number of operations of each thread.
    pub fn operations(&self) -> Vec<u64> {
        (0..THREADS).map(|thread| self.word(thread)).collect()
    }

    /// Counts an increment that is about to be made.
    pub fn begin(&self, thread: u64, counter: u32) {
        self.add(BEGUN + thread * u64::from(COUNTERS) + u64::from(counter));
    }

    /// Counts a completed increment.
    pub fn done(&self, thread: u64, counter: u32) {
        self.add(DONE + thread * u64::from(COUNTERS) + u64::from(counter));
    }

    /// Returns how many increments of a counter were completed, and how many were begun.
    pub fn increments(&self, counter: u32) -> (u64, u64) {
        let sum = |first: u64| {
            (0..THREADS)
                .map(|thread| self.word(first + thread * u64::from(COUNTERS) + u64::from(counter)))
                .sum()
        };
        (sum(DONE), sum(BEGUN))
    }

    /// Records how many messages a subscriber has received, and how many were reported as lost.
    pub fn set_messages(&self, received: u64, lost: u64) {
        self.set(RECEIVED, received);
        self.set(LOST, lost);
    }

    /// Returns the number of messages received and of messages lost.
    pub fn messages(&self) -> (u64, u64) {
        (self.word(RECEIVED), self.word(LOST))
    }
}

/// Checks all values in the store that can be verified.
pub fn check_values(store: &Store) -> Result<(), String> {
    let say = |error: Error| error.to_string();
    accounts::check_accounts(store)?;
    for index in 0..SEALED {
        check_key(store, &sealed_key(index), values::check_sealed).map_err(say)??;
    }
    for index in 0..APPENDED {
        check_key(store, &appended_key(index), values::check_records).map_err(say)??;
    }
    let sealed_alike = |_: &[u8], value: &[u8]| values::check_sealed(RENAMED, value);
    for index in 0..NAMES {
        check_key(store, &renamed_key(index), sealed_alike).map_err(say)??;
    }
    for index in 0..GROUPS {
        check_group(store, index)?;
    }
    (0..feeds::FEEDS).try_for_each(|feed| feeds::check(store, feed))
}

/// Reads a key, and checks its value if it exists.
pub(crate) fn check_key(
    store: &Store,
    key: &[u8],
    check: impl Fn(&[u8], &[u8]) -> Result<(), String>,
) -> Result<Result<(), String>, Error> {
    let mut value = Vec::new();
    Ok(if store.get(0, key, &mut value)? {
        check(key, &value)
    } else {
        Ok(())
    })
}

/// Reads a group at one moment, and checks that all keys have the same value or all are absent.
pub(crate) fn check_group(store: &Store, index: u32) -> Result<(), String> {
    let keys = group(index);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let values = store
        .get_many(0, &keys)
        .map_err(|error| error.to_string())?;
    if values.iter().any(|value| *value != values[0]) {
        let lengths: Vec<_> = values
            .iter()
            .map(|value| value.as_ref().map(Vec::len))
            .collect();
        return Err(format!("group {index} is torn apart: lengths {lengths:?}"));
    }
    match &values[0] {
        Some(value) => values::check_sealed(&group_name(index), value),
        None => Ok(()),
    }
}
