//! Writes a snapshot of a store as an RDB file.
//!
//! Threads encode the keys of different shards at the same time. The calling thread writes what they
//! have encoded, in any order, because the keys of an RDB file have no order.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use undercroft_engine::keyspace::Snapshot;
use undercroft_engine::rdb::RdbVersion;
use undercroft_engine::{DATABASES, Error, Store};

use super::encode::{Encoder, Own, Part};
use crate::rdb::Writer;

/// The number of encoded parts that wait to be written.
const WAITING: usize = 4;
/// The maximum number of threads. Further threads wait for the one that writes.
const THREADS_MAX: usize = 4;

/// How to write a file.
#[derive(Clone, Copy, Debug)]
pub struct SaveOptions {
    /// The version of the format.
    pub version: RdbVersion,
    /// Whether to leave out keys that an RDB file cannot contain. Otherwise, they are an error.
    pub skip_own: bool,
    /// The number of threads to use, at least 1.
    pub threads: usize,
    /// Whether to write the keys.
    pub keys: bool,
    /// Whether to write the function libraries.
    pub libraries: bool,
}

impl SaveOptions {
    /// Returns options that use one thread for each core.
    pub fn new(version: RdbVersion) -> SaveOptions {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        SaveOptions {
            version,
            skip_own: false,
            threads: cores,
            keys: true,
            libraries: true,
        }
    }
}

/// The numbers of a written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The number of keys in the file.
    pub keys: u64,
    /// The keys that were left out.
    pub left_out: Own,
    /// The number of function libraries in the file.
    pub libraries: u64,
    /// The length of the file in bytes.
    pub length: u64,
}

/// The reason why a file was not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum SaveError {
    /// The output failed.
    Io(io::Error),
    /// The store failed.
    Store(Error),
    /// The store has keys that an RDB file cannot contain.
    Own(Own),
    /// The caller's `watch` ended the work.
    Stopped,
}

impl fmt::Display for SaveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Io(error) => error.fmt(formatter),
            SaveError::Store(error) => error.fmt(formatter),
            SaveError::Own(own) => write!(formatter, "an RDB file cannot contain {own}"),
            SaveError::Stopped => formatter.write_str("interrupted"),
        }
    }
}

impl std::error::Error for SaveError {}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> SaveError {
        SaveError::Io(error)
    }
}

impl From<Error> for SaveError {
    fn from(error: Error) -> SaveError {
        SaveError::Store(error)
    }
}

/// Writes all unexpired keys of a snapshot of `store`, and the function libraries. Calls `watch`
/// with the number of keys written so far, many times a second; the work ends if `watch` returns
/// false. Takes time proportional to the data.
///
/// # Errors
/// Returns an error if the output or the store fails, or if the store has keys that an RDB file
/// cannot contain and the options do not allow to leave them out. In that case, the output contains
/// a part of the file.
pub fn save<W: Write>(
    store: &Store,
    snapshot: &Snapshot<'_>,
    out: W,
    options: &SaveOptions,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<(W, Saved), SaveError> {
    let mut writer = Writer::new(out, options.version)?;
    writer.aux("undercroft-ver", env!("CARGO_PKG_VERSION"))?;
    writer.aux("redis-bits", "64")?;
    writer.aux("ctime", &(snapshot.now() / 1000).to_string())?;
    writer.aux("used-mem", &store.used_memory().to_string())?;
    writer.aux("aof-base", "0")?;
    let mut saved = Saved::default();
    for library in snapshot.libraries()? {
        if !options.libraries {
            break;
        }
        writer.library(&library)?;
        saved.libraries += 1;
    }
    for database in 0..DATABASES {
        let (keys, expiring) = snapshot.keys(database)?;
        if keys > 0 && options.keys {
            writer.select(database, keys, expiring)?;
            let parts = Parts {
                store,
                snapshot,
                database,
                version: options.version,
            };
            write_database(&parts, options, &mut writer, &mut saved, watch)?;
        }
    }
    if !saved.left_out.is_empty() && !options.skip_own {
        return Err(SaveError::Own(saved.left_out));
    }
    let (out, length) = writer.finish()?;
    saved.length = length;
    Ok((out, saved))
}

/// The keys of a database to encode.
struct Parts<'a> {
    store: &'a Store,
    snapshot: &'a Snapshot<'a>,
    database: usize,
    version: RdbVersion,
}

impl Parts<'_> {
    /// Encodes the keys of one shard, and passes each part to `pass`, which returns whether to go
    /// on.
    fn encode(&self, shard: usize, pass: &mut dyn FnMut(Part) -> bool) -> Result<(), SaveError> {
        let mut encoder = Encoder::new(self.store, self.version);
        self.snapshot.visit(self.database, shard, |item| {
            encoder.add(&item);
            match encoder.full_part().is_none_or(&mut *pass) {
                true => Ok(()),
                false => Err(SaveError::Stopped),
            }
        })?;
        match pass(encoder.last_part()) {
            true => Ok(()),
            false => Err(SaveError::Stopped),
        }
    }
}

fn write_database<W: Write>(
    parts: &Parts<'_>,
    options: &SaveOptions,
    writer: &mut Writer<W>,
    saved: &mut Saved,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<(), SaveError> {
    let shards = parts.snapshot.shards();
    let threads = options.threads.clamp(1, THREADS_MAX).min(shards);
    let mut failure = None;
    let mut write = |part: Part| {
        saved.keys += part.keys;
        saved.left_out.add(&part.own);
        // A file that will be an error anyway is not written any further, but all keys that an RDB
        // file cannot contain are counted.
        let is_wanted = options.skip_own || saved.left_out.is_empty();
        let written = match is_wanted {
            true => writer.append(&part.bytes).map_err(SaveError::Io),
            false => Ok(()),
        };
        let result = match written {
            Ok(()) if !watch(saved.keys) => Err(SaveError::Stopped),
            written => written,
        };
        result.map_err(|error| failure = Some(error)).is_ok()
    };
    let encoded = match threads {
        1 => (0..shards).try_for_each(|shard| parts.encode(shard, &mut write)),
        _ => encode_together(parts, threads, &mut write),
    };
    match failure {
        Some(failure) => Err(failure),
        None => encoded,
    }
}

/// Encodes all shards on several threads, and passes their parts to `write` on this thread.
fn encode_together(
    parts: &Parts<'_>,
    threads: usize,
    write: &mut dyn FnMut(Part) -> bool,
) -> Result<(), SaveError> {
    let (next, is_stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = |sender: SyncSender<Part>| -> Result<(), SaveError> {
        loop {
            let shard = next.fetch_add(1, Ordering::Relaxed);
            if shard >= parts.snapshot.shards() || is_stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            let encoded = parts.encode(shard, &mut |part| sender.send(part).is_ok());
            if encoded.is_err() {
                is_stopped.store(true, Ordering::Relaxed);
                return encoded;
            }
        }
    };
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING);
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let sender = sender.clone();
                scope.spawn(|| work(sender))
            })
            .collect();
        drop(sender);
        // Dropping the receiver ends the workers after a failure.
        for part in receiver {
            if !write(part) {
                break;
            }
        }
        let mut result = Ok(());
        for worker in workers {
            let ended = worker.join();
            let ended = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match ended {
                // The failure that stopped the other workers is the one to report.
                Err(SaveError::Stopped) if result.is_err() => {}
                Err(error) => result = Err(error),
                Ok(()) => {}
            }
        }
        result
    })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
