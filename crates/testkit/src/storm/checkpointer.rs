//! Runs a process that repeatedly writes checkpoints of the store's journal.

use std::path::Path;

use undercroft_engine::{Error, Store};
use undercroft_memory as memory;

use super::Progress;

/// Writes checkpoints until the process is killed. Returns only if one fails.
pub fn run(path: &Path, progress: &Path) -> Result<(), String> {
    let store = Store::open(path, true).map_err(|error| error.to_string())?;
    let progress = Progress::open(progress).map_err(|error| error.to_string())?;
    loop {
        match store.checkpoint() {
            Ok(()) => progress.operation(0),
            // Another process is writing a checkpoint.
            Err(Error::Memory(error)) if matches!(*error, memory::Error::Busy { .. }) => {
                std::thread::yield_now();
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
