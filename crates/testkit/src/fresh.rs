//! What tests start with: new stores, and random numbers that a seed repeats.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::scenario::{self, Scenario};
use tempfile::TempDir;
use undercroft_engine::{Options, Store};

/// Address space of a new store: room for every test, quickly set up.
const CAPACITY: u64 = 256 << 20;

/// A directory in shared memory, gone with the value.
///
/// # Panics
/// If it cannot be made.
pub fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory")
}

/// A new store of so many shards, `store` in a directory of its own.
///
/// # Panics
/// If it cannot be made.
pub fn store(shards: usize) -> (TempDir, Store) {
    let place = place(shards);
    let store = place.open();
    (place.directory, store)
}

/// Where a new store is that nobody has open. It goes with the value.
#[derive(Debug)]
pub struct Place {
    directory: TempDir,
    /// The store's file.
    pub path: PathBuf,
}

/// A new store of so many shards for several handles.
///
/// # Panics
/// If it cannot be made.
pub fn place(shards: usize) -> Place {
    let directory = directory();
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(CAPACITY),
        shards: Some(shards),
        ring: None,
    };
    drop(Store::create(&path, &options).expect("a new store"));
    Place { directory, path }
}

impl Place {
    /// A handle of its own on the store.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(&self) -> Store {
        Store::open(&self.path, true).expect("a whole store")
    }
}

/// A handle on the store at a path, which is made where there is none: four
/// shards, and a ring of messages that is soon full.
///
/// # Panics
/// If it can be neither opened nor made.
pub fn handle(path: &Path) -> Store {
    let options = Options {
        capacity: Some(16 << 20),
        shards: Some(4),
        ring: Some(256 << 10),
    };
    Store::open_or_create(path, &options).expect("a store")
}

/// The seed in `UNDERCROFT_SEED`, or one by chance; printed.
///
/// # Panics
/// If what is in it is no number.
pub fn seed() -> u64 {
    let given = std::env::var_os("UNDERCROFT_SEED");
    let seed = given.map_or_else(|| fastrand::u64(..), |given| parse(&given));
    println!("seed {seed}: repeat with UNDERCROFT_SEED={seed}");
    seed
}

/// How much of a kill test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A part that the seed chooses: `make test`.
    Part,
    /// All kinds of change, and storms of some minutes: `make soak`, by `UNDERCROFT_CRASH=soak`.
    Soak,
    /// Nothing is left out: `make crash`, by `UNDERCROFT_CRASH=full`.
    Full,
}

impl Extent {
    /// What `UNDERCROFT_CRASH` asks for.
    ///
    /// # Panics
    /// If it is another word.
    pub fn asked() -> Extent {
        match std::env::var("UNDERCROFT_CRASH").as_deref() {
            Err(_) => Extent::Part,
            Ok("soak") => Extent::Soak,
            Ok("full") => Extent::Full,
            Ok(other) => panic!("UNDERCROFT_CRASH: expected soak or full, got {other:?}"),
        }
    }
}

/// One of so many scenarios is in a part of them.
const PART: usize = 8;

/// The scenarios of a run, in the order of [`scenario::all`], of those that `belongs` lets through: where `UNDERCROFT_SCENARIO` is
/// set those whose names contain it, otherwise all of them, or the part that the seed chooses.
pub fn chosen(
    extent: Extent,
    random: &mut fastrand::Rng,
    belongs: impl Fn(&Scenario) -> bool,
) -> Vec<&'static Scenario> {
    let belong = scenario::all().filter(|known| belongs(known));
    match std::env::var("UNDERCROFT_SCENARIO") {
        Ok(name) => belong.filter(|known| known.name.contains(&name)).collect(),
        Err(_) if extent == Extent::Part => {
            let first = random.usize(..PART);
            belong.skip(first).step_by(PART).collect()
        }
        Err(_) => belong.collect(),
    }
}

fn parse(given: &OsStr) -> u64 {
    let number = given.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("UNDERCROFT_SEED: expected a number, got {given:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_what_was_given() {
        assert_eq!(parse(OsStr::new("18446744073709551615")), u64::MAX);
    }

    #[test]
    #[should_panic(expected = "UNDERCROFT_SEED: expected a number, got \"12e\"")]
    fn a_misspelt_seed_is_refused() {
        parse(OsStr::new("12e"));
    }
}
