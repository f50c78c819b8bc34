//! `undercroft import`.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufReader, Seek};

use undercroft_engine::{
    Condition, DATABASES, Error, Expiry, Limits, SetOptions, Store, ValueType,
};

use crate::archive::{self, Counts, Record, Refusal};
use crate::arguments::Import;
use crate::failure::{Failure, Outcome, SUCCESS, at};
use crate::out::{say, tell};
use crate::progress::Progress;
use crate::size::{counted, human};
use crate::store;

pub(crate) fn run(arguments: &Import) -> Outcome {
    let path = arguments.file.display();
    let file = File::open(&arguments.file).map_err(at(format_args!("opening {path}")))?;
    let status = file
        .metadata()
        .map_err(at(format_args!("opening {path}")))?;
    if !status.is_file() {
        return Err(Failure::new(format_args!(
            "{path}: expected a file, which is read twice; found something else"
        )));
    }
    let mut file = BufReader::with_capacity(1 << 20, file);
    let counts = verify(&mut file, status.len())
        .map_err(|refusal| Failure::new(format_args!("{path}: {refusal}; nothing was changed")))?;
    let store = store::open_or_create(arguments.store.name(), arguments.capacity)?;
    if let Some(bytes) = arguments.maxmemory {
        store.set_max_memory(bytes)?;
    }
    prepare(&store, counts, arguments)?;
    file.rewind().map_err(at(format_args!("reading {path}")))?;
    let imported = fill(&store, &mut file, status.len())
        .map_err(|refusal| Failure::new(format_args!("{path}: {refusal}")))?;
    if let Err(error) = store.sync() {
        tell(format_args!(
            "undercroft: all was imported, but not synced: {error}\n"
        ));
    }
    let expired = match counts.keys() - imported {
        0 => String::new(),
        expired => format!("; {} had expired meanwhile", counted(expired, "key")),
    };
    say!(
        "imported {} ({} of keys and values) into {}{expired}",
        counted(imported, "key"),
        human(counts.bytes),
        store.path().display()
    );
    Ok(SUCCESS)
}

/// Reads the whole file and believes nothing.
fn verify(file: &mut BufReader<File>, length: u64) -> Result<Counts, Refusal<Infallible>> {
    let mut progress = Progress::new("verifying", length);
    archive::read(file, length, |_, at| {
        progress.at(at);
        Ok(())
    })
}

/// Sees to it that the data has room and meets no other.
fn prepare(store: &Store, counts: Counts, arguments: &Import) -> Result<(), Failure> {
    let mut keys = 0;
    for database in 0..DATABASES {
        keys += store.count_keys(database)?;
    }
    if keys > 0 && !arguments.replace {
        return Err(Failure::new(format_args!(
            "{} has {} already; --replace removes them first",
            store.path().display(),
            counted(keys, "key")
        )));
    }
    let limit = store.max_memory();
    if limit != 0 && counts.bytes > limit {
        return Err(Failure::new(format_args!(
            "the file holds {} and the store takes {} at most; raise it with --maxmemory",
            human(counts.bytes),
            human(limit)
        )));
    }
    if keys > 0 {
        store.flush_all(true)?;
    }
    Ok(())
}

fn fill(store: &Store, file: &mut BufReader<File>, length: u64) -> Result<u64, Refusal<Failure>> {
    let mut progress = Progress::new("importing", length);
    let mut imported = 0;
    // The last key had expired, so that nothing is added to it either.
    let mut skipped = false;
    archive::read(file, length, |record, at| {
        progress.at(at);
        if record.more && skipped {
            return Ok(());
        }
        let written = put(store, &record).map_err(|error| {
            Failure::new(format_args!(
                "{error} ({} imported; the store is incomplete)",
                counted(imported, "key")
            ))
        })?;
        skipped = !written;
        imported += u64::from(written && !record.more);
        Ok(())
    })?;
    Ok(imported)
}

/// Sets one key or adds to it, unless it has expired meanwhile.
fn put(store: &Store, record: &Record<'_>) -> Result<bool, Error> {
    if record.expiry.is_some_and(|expiry| expiry <= store.now()) {
        return Ok(false);
    }
    if record.value_type == ValueType::String {
        let options = SetOptions {
            condition: Condition::Always,
            expiry: record.expiry.map_or(Expiry::Never, Expiry::At),
        };
        let value = record.items.iter().next().unwrap_or_default();
        return store.set_with(record.database, record.key, value, options);
    }
    store.check_memory()?;
    let key = store.key(record.key);
    let (database, value_type, items) = (record.database, record.value_type, record.items);
    let limits = Limits::DEFAULT;
    store.write(store.shards_of([&key]), |writer| {
        if record.more {
            writer.add_items(database, &key, value_type, items, &limits)?;
        } else {
            writer.put_items(database, &key, value_type, items, record.expiry, &limits)?;
        }
        Ok(true)
    })
}
