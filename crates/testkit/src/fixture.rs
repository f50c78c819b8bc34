//! Creates the store for every scenario, with two shards, a fixed hash key and a fixed time.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use undercroft_engine::{Error, Options, Store};
use undercroft_memory::layout::header;

/// The time of every scenario, in Unix milliseconds.
pub const NOW: u64 = 1_000_000_000;
/// A duration, in milliseconds, that exceeds the time for which the store retains messages.
pub const MESSAGES_KEPT: u64 = 3_600_000;

/// The hash key of every scenario. It is fixed, so that all runs are identical.
pub const HASH_KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

/// Creates a 4 MiB store with two shards and the hash key [`HASH_KEY`].
///
/// # Panics
/// Panics if the store cannot be created.
pub fn create(path: &Path) -> Store {
    create_of(path, 4 << 20)
}

/// Creates a store like [`create`], with another capacity in bytes.
///
/// # Panics
/// Panics if the store cannot be created.
pub fn create_of(path: &Path, capacity: u64) -> Store {
    let options = Options {
        capacity: Some(capacity),
        shards: Some(2),
        ring: Some(64 << 10),
    };
    drop(Store::create(path, &options).expect("a new store"));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("the new store");
    for (word, value) in HASH_KEY.into_iter().enumerate() {
        let at = header::HASH_KEY + word as u64 * 8;
        file.write_all_at(&value.to_le_bytes(), at)
            .expect("a header");
    }
    let mut covered = vec![0; header::CHECKSUM as usize];
    file.read_exact_at(&mut covered, 0).expect("a header");
    let checksum = u64::from(crc32fast::hash(&covered));
    file.write_all_at(&checksum.to_le_bytes(), header::CHECKSUM)
        .expect("a header");
    open(path).expect("the new store with another hash key")
}

/// Opens a store, and sets its time to [`NOW`].
pub fn open(path: &Path) -> Result<Store, Error> {
    let store = Store::open(path, true)?;
    store.set_time(NOW);
    Ok(store)
}
