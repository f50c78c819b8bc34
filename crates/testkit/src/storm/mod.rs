//! Implements a storm: processes write and read a store while a test kills some of them.
//!
//! Every process counts its operations in a separate file. From these counts, the test determines
//! which processes hang, and how often dead processes have incremented a counter.
//!
//! - `accounts`: accounts whose balances always add up to zero.
//! - `checkpointer`: a process that repeatedly writes checkpoints.
//! - `copier`: a process that repeatedly copies the store, and checks that each copy is a
//!   consistent snapshot.
//! - `feeds`: feeds whose items can be verified.
//! - `member`: a process of a storm, which the test starts and kills.
//! - `messages`: processes that publish and subscribe until they are killed.
//! - `reader`: a process that reads random keys and checks their values. It is not killed.
//! - `shapes`: values of every type and size class that identify the origin of each byte.
//! - `streams`: streams whose entries can be verified, and their consumer groups.
//! - `values`: values with checksums.
//! - `writer`: a process that makes random changes until it is killed.

pub mod accounts;
pub mod checkpointer;
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

/// The number of keys with sealed values, which start with a checksum.
pub const SEALED: u32 = 40;
/// The number of keys with appended strings, which consist of records with checksums.
pub const APPENDED: u32 = 8;
/// The number of counters.
pub const COUNTERS: u32 = 4;
/// The number of groups. All keys of a group always have equal values.
pub const GROUPS: u32 = 6;
/// The number of keys in each group.
pub const MEMBERS: u32 = 12;
/// The number of keys that the renamed value can have.
pub const NAMES: u32 = 6;
/// The maximum number of threads of a process.
pub const THREADS: u64 = 4;

/// Returns the name of a key with a sealed value.
pub fn sealed_key(index: u32) -> Vec<u8> {
    format!("sealed:{index}").into_bytes()
}

/// Returns the name of a key with an appended string.
pub fn appended_key(index: u32) -> Vec<u8> {
    format!("appended:{index}").into_bytes()
}

/// Returns the name of a counter's key.
pub fn counter_key(index: u32) -> Vec<u8> {
    format!("counter:{index}").into_bytes()
}

/// The name that the checksum of the renamed value covers in place of the value's current key.
pub const RENAMED: &[u8] = b"renamed";

/// Returns the name of a key that the renamed value can have.
pub fn renamed_key(index: u32) -> Vec<u8> {
    format!("renamed:{index}").into_bytes()
}

/// Returns the name that the checksums of a group's values cover.
pub fn group_name(group: u32) -> Vec<u8> {
    format!("group:{group}").into_bytes()
}

/// Returns the names of a group's keys.
pub fn group(group: u32) -> Vec<Vec<u8>> {
    (0..MEMBERS)
        .map(|member| format!("group:{group}:{member}").into_bytes())
        .collect()
}

/// The file in which a process counts its operations.
#[derive(Debug)]
pub struct Progress {
    file: File,
}

/// The positions of the words in a [`Progress`] file. The operations of each thread come first,
/// followed by the started and the completed increments of each thread and counter, and the numbers
/// of received and lost messages.
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

    /// Opens the file in the process that counts its operations.
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

    /// Counts a completed operation of a thread.
    pub fn operation(&self, thread: u64) {
        self.add(thread);
    }

    /// Returns the number of completed operations of each thread.
    pub fn operations(&self) -> Vec<u64> {
        (0..THREADS).map(|thread| self.word(thread)).collect()
    }

    /// Counts an increment that the thread is about to make.
    pub fn begin(&self, thread: u64, counter: u32) {
        self.add(BEGUN + thread * u64::from(COUNTERS) + u64::from(counter));
    }

    /// Counts a completed increment.
    pub fn done(&self, thread: u64, counter: u32) {
        self.add(DONE + thread * u64::from(COUNTERS) + u64::from(counter));
    }

    /// Returns the number of completed increments of a counter and the number of started
    /// increments.
    pub fn increments(&self, counter: u32) -> (u64, u64) {
        let sum = |first: u64| {
            (0..THREADS)
                .map(|thread| self.word(first + thread * u64::from(COUNTERS) + u64::from(counter)))
                .sum()
        };
        (sum(DONE), sum(BEGUN))
    }

    /// Records the number of messages that a subscriber has received and the number that were
    /// reported as lost.
    pub fn set_messages(&self, received: u64, lost: u64) {
        self.set(RECEIVED, received);
        self.set(LOST, lost);
    }

    /// Returns the number of received messages and the number of lost messages.
    pub fn messages(&self) -> (u64, u64) {
        (self.word(RECEIVED), self.word(LOST))
    }
}

/// Checks all values in the store that have a checksum or another verifiable property.
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

/// Reads the keys of a group in one snapshot, and checks that all of them have the same value or
/// that none of them exists.
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
