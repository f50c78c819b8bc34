//! Loads the keys of RDB files into a store, or only validates them.
//!
//! The calling thread finds the keys in the file and packs them into batches. Further threads decode
//! the values and store them. When they are all busy, the calling thread does the same with its
//! batch, so that every thread works all the time. Keys of a file are unique, so their order does
//! not matter.
//!
//! - `apply`: decodes and stores the keys of a batch.
//! - `batch`: keys in one buffer, which threads pass to each other.
//! - `results`: the options of loading a file, and its results and errors.

mod apply;
mod batch;
mod results;

use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, ScopedJoinHandle};

use undercroft_engine::Store;

use self::apply::Applier;
use self::batch::Batch;
pub use self::results::{Counts, LoadError, LoadOptions, Loaded};
use crate::rdb::{Event, KeyEvent, Reader};

/// The number of batches that wait for each thread.
const WAITING: usize = 2;
/// The maximum number of threads. Further threads wait for the one that finds the keys.
const THREADS_MAX: usize = 4;

/// Loads all keys of a file into `store`, or validates all keys if there is no store. Calls `watch`
/// with the number of bytes read, several times a second; the work ends if `watch` returns false.
/// Takes time proportional to the file, and memory for a few keys.
///
/// # Errors
/// Returns an error if the file is damaged, contains data that a store cannot hold, or if the store
/// fails. Keys that were stored before the error stay.
pub fn load<R: Read>(
    reader: &mut Reader<R>,
    store: Option<&Store>,
    options: &LoadOptions,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<Loaded, LoadError> {
    load_placed(reader, store, options, &|database, _| Some(database), watch)
}

/// Loads the keys of a file for whose database and name `place` returns a database, into that database,
/// like [`load`].
///
/// # Errors
/// Returns the errors of [`load`], except for errors in the values of other keys.
pub fn load_placed<R: Read>(
    reader: &mut Reader<R>,
    store: Option<&Store>,
    options: &LoadOptions,
    place: &dyn Fn(usize, &[u8]) -> Option<usize>,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<Loaded, LoadError> {
    let mut applier = Applier::new(store, options);
    let helpers = options.threads.clamp(1, THREADS_MAX) - 1;
    thread::scope(|scope| {
        let (returned, empty) = channel();
        let helpers = (0..helpers)
            .map(|_| {
                let (full, batches) = sync_channel(WAITING);
                let (applier, returned) = (Applier::new(store, options), returned.clone());
                let thread = scope.spawn(move || help(applier, &batches, &returned));
                Helper { full, thread }
            })
            .collect();
        let mut team = Team {
            helpers,
            empty,
            next: 0,
        };
        let read = read(reader, &mut team, &mut applier, place, watch);
        applier.expect(0);
        // An error of a helper explains why its channel was closed.
        for helper in team.helpers {
            drop(helper.full);
            let counts = helper.thread.join();
            let counts = counts.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            applier.counts.add(&counts);
        }
        let mut loaded = read?;
        loaded.counts = applier.counts;
        Ok(loaded)
    })
}

/// A thread that applies batches, and its queue.
struct Helper<'s> {
    full: SyncSender<Batch>,
    thread: ScopedJoinHandle<'s, Result<Counts, LoadError>>,
}

/// The threads that help, and the batches that they have applied.
struct Team<'s> {
    helpers: Vec<Helper<'s>>,
    empty: Receiver<Batch>,
    /// The helper that gets the next batch.
    next: usize,
}

/// A helper has ended because of an error.
struct HelperEnded;

impl Team<'_> {
    /// Passes a batch to a helper with room in its queue. Returns the batch if there is none.
    fn pass(&mut self, mut batch: Batch) -> Result<Option<Batch>, HelperEnded> {
        for _ in 0..self.helpers.len() {
            self.next = (self.next + 1) % self.helpers.len();
            batch = match self.helpers[self.next].full.try_send(batch) {
                Ok(()) => return Ok(None),
                Err(TrySendError::Full(batch)) => batch,
                Err(TrySendError::Disconnected(_)) => return Err(HelperEnded),
            };
        }
        Ok(Some(batch))
    }
}

fn help(
    mut applier: Applier<'_>,
    batches: &Receiver<Batch>,
    returned: &Sender<Batch>,
) -> Result<Counts, LoadError> {
    for mut batch in batches {
        applier.apply(&batch)?;
        batch.clear();
        // The receiver is gone only once the file has ended.
        let _ = returned.send(batch);
    }
    Ok(applier.counts)
}

fn read<R: Read>(
    reader: &mut Reader<R>,
    team: &mut Team<'_>,
    applier: &mut Applier<'_>,
    place: &dyn Fn(usize, &[u8]) -> Option<usize>,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<Loaded, LoadError> {
    let mut loaded = Loaded::default();
    let mut batch = Batch::default();
    loop {
        let is_last = match reader.next_event()? {
            None => true,
            Some(Event::Key(key)) => {
                if let Some(database) = place(key.database, key.key) {
                    batch.push(&KeyEvent { database, ..key });
                }
                false
            }
            Some(Event::Library { text, .. }) => {
                loaded.libraries.push(text.to_vec());
                false
            }
            Some(Event::Aux { name, value }) => {
                if matches!(name, b"redis-ver" | b"valkey-ver") {
                    loaded.server = Some(value.escape_ascii().to_string());
                }
                if name == b"repl-stream-db" {
                    let text = std::str::from_utf8(value).ok();
                    loaded.stream_database = text.and_then(|text| text.parse().ok());
                }
                false
            }
            Some(Event::Sizes { keys, .. }) => {
                applier.expect(keys);
                false
            }
        };
        if !is_last && !batch.is_full() {
            continue;
        }
        if !watch(reader.offset()) {
            return Err(LoadError::Stopped);
        }
        match team.pass(batch) {
            Ok(None) => batch = team.empty.try_recv().unwrap_or_default(),
            Ok(Some(own)) => {
                applier.apply(&own)?;
                batch = own;
                batch.clear();
            }
            // The helper's own error is returned instead.
            Err(HelperEnded) => return Err(LoadError::Stopped),
        }
        if is_last {
            return Ok(loaded);
        }
    }
}

#[cfg(test)]
mod tests;
