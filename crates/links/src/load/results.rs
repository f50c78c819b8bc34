//! The options of loading a file, and its results and errors.

use std::fmt;
use std::thread;

use undercroft_engine::Error;

use crate::rdb::{ReadError, shown};

/// How to load a file.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Whether to store hashes whose fields expire without the expiries. Otherwise, such a hash is
    /// an error.
    pub drop_field_expiry: bool,
    /// Whether to load the data set of a replica's source: all keys, also those that have expired,
    /// into the databases that a replica [loads](undercroft_engine::loading_database).
    pub is_replica: bool,
    /// The number of threads to use, at least 1.
    pub threads: usize,
}

impl LoadOptions {
    /// Returns options that use one thread for each core and refuse fields that expire.
    pub fn new() -> LoadOptions {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        LoadOptions {
            drop_field_expiry: false,
            is_replica: false,
            threads: cores,
        }
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions::new()
    }
}

/// The numbers of keys in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of keys that were stored, or are valid.
    pub keys: u64,
    /// The number of keys that were left out because they had expired.
    pub expired: u64,
    /// The number of keys that were left out because their collection has no elements.
    pub empty: u64,
    /// The number of fields whose expiry was dropped.
    pub dropped_expiries: u64,
    /// The total size of the stored keys and values in bytes.
    pub bytes: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Counts) {
        self.keys += other.keys;
        self.expired += other.expired;
        self.empty += other.empty;
        self.dropped_expiries += other.dropped_expiries;
        self.bytes += other.bytes;
    }
}

/// The content of a file apart from its keys, and the numbers of keys.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The numbers of keys.
    pub counts: Counts,
    /// The texts of the function libraries, which the caller loads.
    pub libraries: Vec<Vec<u8>>,
    /// The version of the server that wrote the file, if the file names it.
    pub server: Option<String>,
    /// The database that the source's stream of changes has selected, in a file for a replica.
    pub stream_database: Option<usize>,
}

/// The reason why loading a file was aborted.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    Read(ReadError),
    /// A key cannot be stored.
    Store {
        /// The name of the key, in printable form.
        key: String,
        /// The error of the store.
        error: Error,
    },
    /// A function library cannot be loaded.
    Library(String),
    /// The caller's `watch` ended the work.
    Stopped,
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Read(error) => error.fmt(formatter),
            LoadError::Store { key, error } => write!(formatter, "storing the key {key}: {error}"),
            LoadError::Library(text) => formatter.write_str(text),
            LoadError::Stopped => formatter.write_str("interrupted"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<ReadError> for LoadError {
    fn from(error: ReadError) -> LoadError {
        LoadError::Read(error)
    }
}

impl LoadError {
    pub(crate) fn of_key(key: &[u8], error: Error) -> LoadError {
        LoadError::Store {
            key: shown(key),
            error,
        }
    }
}
