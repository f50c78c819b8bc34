//! Runs a process that reads random keys and checks their values. It is not killed.

use std::path::Path;
use std::time::Duration;

use undercroft_engine::{Error, Store};

use super::accounts::check_accounts;
use super::{
    APPENDED, COUNTERS, GROUPS, NAMES, Progress, RENAMED, SEALED, appended_key, check_group,
    check_key, counter_key, feeds, renamed_key, sealed_key, streams, values,
};

/// Reads the store until the process is killed. Returns only if a check fails. If `write` is set, a
/// read that repeatedly fails acquires a lock. Otherwise, the process opens the store read-only and
/// acquires no locks.
pub fn run(path: &Path, progress: &Path, seed: u64, write: bool) -> Result<(), String> {
    let say = |error: Error| error.to_string();
    let store = Store::open(path, write).map_err(say)?;
    let progress = Progress::open(progress).map_err(|error| error.to_string())?;
    if !write {
        // A read-only handle cannot itself recover a dead writer's changes: it waits until another
        // writer does.
        store.set_patience(Duration::from_secs(60));
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut counters = [0; COUNTERS as usize];
    loop {
        match random.u32(0..12) {
            0..3 => {
                let key = sealed_key(random.u32(0..SEALED));
                check_key(&store, &key, values::check_sealed).map_err(say)??;
            }
            3 | 4 => check_group(&store, random.u32(0..GROUPS))?,
            5 => check_accounts(&store)?,
            6 => {
                let key = appended_key(random.u32(0..APPENDED));
                check_key(&store, &key, values::check_records).map_err(say)??;
            }
            7 => {
                let key = renamed_key(random.u32(0..NAMES));
                let check = |_: &[u8], value: &[u8]| values::check_sealed(RENAMED, value);
                check_key(&store, &key, check).map_err(say)??;
            }
            8 => {
                let index = random.u32(0..COUNTERS);
                let now = read_counter(&store, index)?;
                let last = &mut counters[index as usize];
                if now < *last {
                    return Err(format!("counter {index} went from {last} back to {now}"));
                }
                *last = now;
            }
            9 => feeds::check(&store, random.u32(0..feeds::FEEDS))?,
            10 => streams::check(&store, random.u32(0..streams::STREAMS))?,
            _ => scan(&store, random.usize(2..4))?,
        }
        progress.operation(0);
    }
}

/// Returns the value of a counter, or 0 if it does not exist.
pub fn read_counter(store: &Store, index: u32) -> Result<u64, String> {
    let mut text = Vec::new();
    let there = store
        .get(0, &counter_key(index), &mut text)
        .map_err(|error| error.to_string())?;
    if !there {
        return Ok(0);
    }
    let text = String::from_utf8_lossy(&text);
    text.parse()
        .map_err(|_| format!("counter {index}: expected an integer, got {text:?}"))
}

/// Scans a database while its hash tables grow and shrink.
fn scan(store: &Store, database: usize) -> Result<(), String> {
    let mut cursor = 0;
    let mut strange = None;
    loop {
        cursor = store
            .scan(
                database,
                cursor,
                50,
                |reader, entry| {
                    let mut value = Vec::new();
                    entry
                        .text(reader.view())?
                        .append_to(reader.view(), &mut value)?;
                    Ok(Some(value))
                },
                |key, value| {
                    if !key.starts_with(b"many:") || value != b"one of many" {
                        strange = Some(key.to_vec());
                    }
                },
            )
            .map_err(|error| error.to_string())?;
        if let Some(key) = strange {
            return Err(format!(
                "a strange key or value: {}",
                String::from_utf8_lossy(&key)
            ));
        }
        if cursor == 0 {
            return Ok(());
        }
    }
}
