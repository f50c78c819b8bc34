//! Counts the keys of a store, by database and by type.

use undercroft_engine::{DATABASES, Error, Store, ValueType};

use crate::failure::Failure;

/// The number of keys to measure in one scan step.
const AT_ONCE: u64 = 256;
/// The number of elements to sample when estimating the size of a large collection.
const SAMPLES: u64 = 5;

/// A count of keys, or the error if a lock held by a writer prevented counting.
pub(crate) enum Counted<T> {
    /// The count is complete.
    Of(T),
    /// A process held a lock for longer than the store is configured to wait.
    Waits(Error),
}

impl<T> Counted<T> {
    fn of(result: Result<T, Error>) -> Result<Counted<T>, Failure> {
        match result {
            Ok(found) => Ok(Counted::Of(found)),
            Err(error) if error.is_wait() => Ok(Counted::Waits(error)),
            Err(error) => Err(error.into()),
        }
    }
}

/// A database that contains keys.
pub(crate) struct Database {
    pub(crate) number: usize,
    pub(crate) keys: u64,
    /// The number of keys that have a deadline.
    pub(crate) expiring: u64,
}

/// Counts the keys of each nonempty database.
pub(crate) fn databases(store: &Store) -> Result<Counted<Vec<Database>>, Failure> {
    let count = |number| {
        let keys = store.count_keys(number)?;
        let expiring = store.expiring_keys(number);
        Ok(Database {
            number,
            keys,
            expiring,
        })
    };
    let all: Result<Vec<Database>, Error> = (0..DATABASES).map(count).collect();
    Counted::of(all.map(|mut all| {
        all.retain(|database| database.keys > 0);
        all
    }))
}

/// The number of keys of one type, and their memory usage.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) keys: u64,
    /// The memory that the keys use, including their elements and their shares of tables.
    pub(crate) bytes: u64,
}

/// Sums up the keys of each type in the store. Takes time proportional to the number of keys.
pub(crate) fn sums(store: &Store) -> Result<Counted<Vec<(ValueType, Sum)>>, Failure> {
    let mut sums = [Sum::default(); ValueType::ALL.len()];
    let scanned = (0..DATABASES).try_for_each(|database| scan(store, database, &mut sums));
    Counted::of(scanned.map(|()| {
        let all = ValueType::ALL.into_iter().zip(sums);
        all.filter(|(_, sum)| sum.keys > 0).collect()
    }))
}

fn scan(store: &Store, database: usize, sums: &mut [Sum]) -> Result<(), Error> {
    let mut cursor = 0;
    loop {
        cursor = store.scan(
            database,
            cursor,
            AT_ONCE,
            |reader, entry| {
                let bytes = entry.memory_usage(reader.view(), SAMPLES)?;
                Ok(Some((entry.value_type()?, bytes)))
            },
            |_, (value_type, bytes)| {
                let mut all = ValueType::ALL.iter().zip(&mut *sums);
                if let Some((_, sum)) = all.find(|(other, _)| **other == value_type) {
                    sum.keys += 1;
                    sum.bytes += bytes;
                }
            },
        )?;
        if cursor == 0 {
            return Ok(());
        }
    }
}
