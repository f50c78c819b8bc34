//! Runs a process that makes random changes to a store until it is killed.

use std::path::Path;

use undercroft_engine::{Error, Expiry, Store};

use super::accounts::{check_accounts, transfer};
use super::{
    APPENDED, COUNTERS, GROUPS, NAMES, Progress, RENAMED, SEALED, appended_key, check_group,
    check_key, counter_key, feeds, group, group_name, renamed_key, sealed_key, streams, values,
};

/// The length, in bytes, above which an appended string is replaced by a new one.
const TEXT_MAX: usize = 40_000;

/// Changes the store with `threads` threads until the process is killed. Returns only if an
/// operation fails.
pub fn run(path: &Path, progress: &Path, seed: u64, threads: u64) -> Result<(), String> {
    let store = Store::open(path, true).map_err(|error| error.to_string())?;
    let progress = Progress::open(progress).map_err(|error| error.to_string())?;
    std::thread::scope(|scope| {
        let work = |thread: u64| {
            let random = fastrand::Rng::with_seed(seed ^ thread << 32);
            let writer = Writer {
                store: &store,
                progress: &progress,
                thread,
                random,
            };
            let error = writer.work();
            // The test reads this message. Exiting the process ends the other threads.
            eprintln!(
                "writer, thread {thread} of process {}: {error}; locks: {:?}",
                std::process::id(),
                store.held_locks()
            );
            std::process::exit(1);
        };
        for thread in 1..threads {
            scope.spawn(move || work(thread));
        }
        work(0)
    })
}

struct Writer<'w> {
    store: &'w Store,
    progress: &'w Progress,
    thread: u64,
    random: fastrand::Rng,
}

impl Writer<'_> {
    fn work(mut self) -> String {
        loop {
            if let Err(error) = self.operation() {
                return error;
            }
            self.progress.operation(self.thread);
        }
    }

    /// Returns a random length that is usually small, sometimes close to a threshold, and rarely
    /// large.
    fn length(&mut self) -> usize {
        match self.random.u32(0..40) {
            0 if self.random.bool() => self.random.usize(260_000..400_000),
            0 => self.random.usize(60_000..150_000),
            1 => self.random.usize(16_000..18_000),
            2..6 => self.random.usize(3000..6000),
            6..12 => self.random.usize(600..1100),
            _ => self.random.usize(8..200),
        }
    }

    fn operation(&mut self) -> Result<(), String> {
        let say = |error: Error| error.to_string();
        match self.random.u32(0..118) {
            0..8 => transfer(self.store, &mut self.random).map_err(say),
            8..30 => {
                let key = sealed_key(self.random.u32(0..SEALED));
                let length = self.length();
                let value = values::sealed(&key, length, &mut self.random);
                self.store.set(0, &key, &value).map_err(say)
            }
            30..38 => {
                let keys = [0, 1].map(|_| sealed_key(self.random.u32(0..SEALED)));
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                self.store.delete(0, &keys).map(drop).map_err(say)
            }
            38..46 => {
                let counter = self.random.u32(0..COUNTERS);
                self.progress.begin(self.thread, counter);
                self.store
                    .increment(0, &counter_key(counter), 1)
                    .map_err(say)?;
                self.progress.done(self.thread, counter);
                Ok(())
            }
            46..58 => self.set_group().map_err(say),
            58..64 => {
                let key = sealed_key(self.random.u32(0..SEALED));
                let after = match self.random.bool() {
                    true => self.random.u64(1..20),
                    false => 3_600_000,
                };
                let at = self.store.now() + after;
                self.store.expire_at(0, &key, at).map(drop).map_err(say)
            }
            64..74 => self.rename().map_err(say),
            74..86 => self.append().map_err(say),
            86..90 => self.grow_and_shrink().map_err(say),
            90..92 => self.store.sweep(8).map(drop).map_err(say),
            92..94 => self
                .store
                .write(self.store.all_shards(), |writer| {
                    writer.swap_databases(2, 3)
                })
                .map_err(say),
            94..96 => check_group(self.store, self.random.u32(0..GROUPS)),
            96..98 => check_accounts(self.store),
            98..106 => feeds::change(self.store, &mut self.random).map_err(say),
            106..114 => streams::change(self.store, &mut self.random).map_err(say),
            _ => {
                let key = sealed_key(self.random.u32(0..SEALED));
                check_key(self.store, &key, values::check_sealed).map_err(say)?
            }
        }
    }

    /// Sets all keys of a group. Some values are so long that the undo log grows.
    fn set_group(&mut self) -> Result<(), Error> {
        let index = self.random.u32(0..GROUPS);
        let length = match self.random.u32(0..8) {
            0 => self.random.usize(17_000..40_000),
            1..4 => self.random.usize(880..900),
            _ => self.length().min(6000),
        };
        let value = values::sealed(&group_name(index), length, &mut self.random);
        let keys = group(index);
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
        self.store.set_many(0, &pairs)
    }

    fn rename(&mut self) -> Result<(), Error> {
        let from = renamed_key(self.random.u32(0..NAMES));
        let to = renamed_key(self.random.u32(0..NAMES));
        let length = self.length();
        let value = values::sealed(RENAMED, length, &mut self.random);
        let (from, to) = (self.store.key(&from), self.store.key(&to));
        self.store
            .write(self.store.shards_of([&from, &to]), |writer| {
                if writer.rename(0, &from, &to)? {
                    Ok(())
                } else {
                    writer.set(0, &from, &value, Expiry::Never)
                }
            })
    }

    fn append(&mut self) -> Result<(), Error> {
        let name = appended_key(self.random.u32(0..APPENDED));
        let records = self.random.usize(1..30);
        let mut bytes = Vec::new();
        for _ in 0..records {
            bytes.extend(values::record(&name, &mut self.random));
        }
        let key = self.store.key(&name);
        self.store.write(self.store.shards_of([&key]), |writer| {
            if writer.append(0, &key, &bytes)? > TEXT_MAX as u64 {
                writer.remove(0, &key)?;
            }
            Ok(())
        })
    }

    /// Adds and removes many keys, so that hash tables grow and shrink.
    fn grow_and_shrink(&mut self) -> Result<(), Error> {
        let database = self.random.usize(2..4);
        let first = self.random.u32(0..2000);
        match self.random.u32(0..16) {
            0 => self.store.flush(&[database], self.random.bool()).map(drop),
            1..9 => (first..first + 60).try_for_each(|index| {
                let key = format!("many:{index}");
                self.store.set(database, key.as_bytes(), b"one of many")
            }),
            _ => (first..first + 60).try_for_each(|index| {
                let key = format!("many:{index}");
                self.store.delete(database, &[key.as_bytes()]).map(drop)
            }),
        }
    }
}
