//! Sets up tests: creates stores, and provides random numbers that a seed reproduces.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::scenario::{self, Scenario};
use tempfile::TempDir;
use undercroft_engine::{Options, Store};

/// The capacity of a new store, in bytes. It suffices for every test and is quick to map.
const CAPACITY: u64 = 256 << 20;

/// Creates a directory in shared memory, which is deleted when the value is dropped.
///
/// # Panics
/// Panics if the directory cannot be created.
pub fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory")
}

/// Creates and opens a store with `shards` shards in a new directory.
///
/// # Panics
/// Panics if the store cannot be created.
pub fn store(shards: usize) -> (TempDir, Store) {
    let place = place(shards);
    let store = place.open();
    (place.directory, store)
}

/// A new store that no process has opened. Its directory is deleted when the value is dropped.
#[derive(Debug)]
pub struct Place {
    directory: TempDir,
    /// The path of the store's file.
    pub path: PathBuf,
}

/// Creates a store with `shards` shards that tests can open several times.
///
/// # Panics
/// Panics if the store cannot be created.
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
    /// Opens another handle to the store.
    ///
    /// # Panics
    /// Panics if the store cannot be opened.
    pub fn open(&self) -> Store {
        Store::open(&self.path, true).expect("a whole store")
    }
}

/// Opens the store at a path. If it does not exist, creates a store with four shards and a small
/// message ring that fills up quickly.
///
/// # Panics
/// Panics if the store can be neither opened nor created.
pub fn handle(path: &Path) -> Store {
    let options = Options {
        capacity: Some(16 << 20),
        shards: Some(4),
        ring: Some(256 << 10),
    };
    Store::open_or_create(path, &options).expect("a store")
}

/// Returns and prints the seed in `UNDERCROFT_SEED`, or a random seed if the variable is not set.
///
/// # Panics
/// Panics if `UNDERCROFT_SEED` is not a number.
pub fn seed() -> u64 {
    let given = std::env::var_os("UNDERCROFT_SEED");
    let seed = given.map_or_else(|| fastrand::u64(..), |given| parse(&given));
    println!("seed {seed}: repeat with UNDERCROFT_SEED={seed}");
    seed
}

/// The extent of a kill test: the scenarios that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A part of the scenarios, chosen by the seed (`make test`).
    Part,
    /// All scenarios, and storms of a few minutes (`make soak`, `UNDERCROFT_CRASH=soak`).
    Soak,
    /// All scenarios at full length (`make crash`, `UNDERCROFT_CRASH=full`).
    Full,
}

impl Extent {
    /// Returns the extent that `UNDERCROFT_CRASH` selects.
    ///
    /// # Panics
    /// Panics if `UNDERCROFT_CRASH` is an unknown word.
    pub fn asked() -> Extent {
        match std::env::var("UNDERCROFT_CRASH").as_deref() {
            Err(_) => Extent::Part,
            Ok("soak") => Extent::Soak,
            Ok("full") => Extent::Full,
            Ok(other) => panic!("UNDERCROFT_CRASH: expected soak or full, got {other:?}"),
        }
    }
}

/// A partial run selects one in this many scenarios.
const PART: usize = 8;

/// Returns the scenarios of a run that satisfy `belongs`, in the order of [`scenario::all`]. If
/// `UNDERCROFT_SCENARIO` is set, selects the scenarios whose names contain its value. Otherwise,
/// selects all scenarios or, in a partial run, those that the seed chooses.
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
    fn a_seed_is_parsed_from_its_text() {
        assert_eq!(parse(OsStr::new("18446744073709551615")), u64::MAX);
    }

    #[test]
    #[should_panic(expected = "UNDERCROFT_SEED: expected a number, got \"12e\"")]
    fn an_invalid_seed_is_refused() {
        parse(OsStr::new("12e"));
    }
}
