//! Implements `undercroft import`.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufReader, Seek};

use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{DATABASES, Error, Expiry, Limits, Options, Store, ValueType};

use crate::archive::{self, Counts, Record, Refusal};
use crate::arguments::Import;
use crate::failure::{Failure, Outcome, SUCCESS, at};
use crate::interrupt::Interrupt;
use crate::out::{say, tell};
use crate::progress::Progress;
use crate::size::{counted, grouped, human};
use crate::store;
use crate::unfinished::Unfinished;

pub(crate) fn run(arguments: &Import) -> Outcome {
    let path = arguments.file.display();
    let interrupt = Interrupt::catch()?;
    let file = File::open(&arguments.file).map_err(at(format_args!("opening {path}")))?;
    let status = file
        .metadata()
        .map_err(at(format_args!("opening {path}")))?;
    if !status.is_file() {
        return Err(Failure::new(format_args!(
            "{path}: expected a regular file, because import reads it twice"
        )));
    }
    let mut file = BufReader::with_capacity(1 << 20, file);
    let counts = verify(&mut file, status.len())
        .map_err(|refusal| Failure::new(format_args!("{path}: {refusal}; nothing was changed")))?;
    let (mut store, unfinished) = open_or_begin(arguments)?;
    store.set_wait_hook(Box::new(interrupt.clone()));
    if let Some(bytes) = arguments.maxmemory {
        store.set_max_memory(bytes)?;
    }
    prepare(&store, counts, arguments)?;
    file.rewind().map_err(at(format_args!("reading {path}")))?;
    let imported = fill(&store, &mut file, status.len(), &interrupt).map_err(|ended| {
        let left = match unfinished {
            Some(_) => "no store was created".to_owned(),
            None => format!(
                "{} is incomplete: it has {} of the file's {}; import --replace starts over",
                store.path().display(),
                grouped(ended.imported),
                counted(counts.keys(), "key")
            ),
        };
        match ended.refusal {
            None => Failure::interrupted(left),
            Some(refusal) => Failure::new(format_args!("{path}: {refusal}; {left}")),
        }
    })?;
    if let Err(error) = store.sync() {
        tell(format_args!(
            "undercroft: all keys were imported, but the store was not synced: {error}\n"
        ));
    }
    let place = match &unfinished {
        Some(unfinished) => unfinished.target().display().to_string(),
        None => store.path().display().to_string(),
    };
    if let Some(unfinished) = unfinished {
        unfinished.publish()?;
    }
    let expired = match counts.keys() - imported {
        0 => String::new(),
        expired => format!("; {} had expired", counted(expired, "key")),
    };
    say!(
        "imported {} ({} of keys and values) into {place}{expired}",
        counted(imported, "key"),
        human(counts.bytes),
    );
    Ok(SUCCESS)
}

/// Opens the target store if it exists. Otherwise creates an unfinished store, which is published
/// later.
fn open_or_begin(arguments: &Import) -> Result<(Store, Option<Unfinished>), Failure> {
    let name = store::parse(arguments.store.name())?;
    if name.path.symlink_metadata().is_ok() || store::journal_of(&name).is_some() {
        return Ok((
            store::open_or_create(arguments.store.name(), arguments.capacity)?,
            None,
        ));
    }
    let options = Options {
        capacity: arguments.capacity,
        ..Options::default()
    };
    let (store, unfinished) = Unfinished::create(&name, &options)?;
    store.tell_when_lost();
    Ok((store, Some(unfinished)))
}

/// The state of an import that ended early.
struct Ended {
    /// The number of keys imported before it ended.
    imported: u64,
    /// The reason why the import ended, or `None` if a signal interrupted it.
    refusal: Option<Refusal<Failure>>,
}

/// Verifies the entire file, showing the progress.
fn verify(file: &mut BufReader<File>, length: u64) -> Result<Counts, Refusal<Infallible>> {
    let mut progress = Progress::new("verifying", length);
    archive::read(file, length, |_, at| {
        progress.at(at);
        Ok(())
    })
}

/// Checks that the data fits within the memory limit, and removes existing keys if the user
/// requested it.
fn prepare(store: &Store, counts: Counts, arguments: &Import) -> Result<(), Failure> {
    let mut keys = 0;
    for database in 0..DATABASES {
        keys += store.count_keys(database)?;
    }
    if keys > 0 && !arguments.replace {
        return Err(Failure::new(format_args!(
            "{} already has {}; --replace removes them first",
            store.path().display(),
            counted(keys, "key")
        )));
    }
    let limit = store.max_memory();
    if limit != 0 && counts.bytes > limit {
        return Err(Failure::new(format_args!(
            "the file holds {}, but the store accepts at most {}; raise the limit with --maxmemory",
            human(counts.bytes),
            human(limit)
        )));
    }
    if keys > 0 {
        store.flush_all(true)?;
    }
    Ok(())
}

fn fill(
    store: &Store,
    file: &mut BufReader<File>,
    length: u64,
    interrupt: &Interrupt,
) -> Result<u64, Ended> {
    let mut progress = Progress::new("importing", length);
    let mut imported = 0;
    // Whether the current key was skipped because it had expired. Records that add to its
    // collection are then also skipped.
    let mut skipped = false;
    let filled = archive::read(file, length, |record, at| {
        progress.at(at);
        if interrupt.is_caught() {
            return Err(Failure::new("interrupted"));
        }
        if record.more && skipped {
            return Ok(());
        }
        let written = put(store, &record)?;
        skipped = !written;
        imported += u64::from(written && !record.more);
        Ok(())
    });
    match filled {
        Ok(_) => Ok(imported),
        Err(refusal) => Err(Ended {
            imported,
            refusal: (!interrupt.is_caught()).then_some(refusal),
        }),
    }
}

/// Sets a key, or adds to its collection. Returns `false` if the key has expired.
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
    store.check_memory_for(record.items.iter().map(<[u8]>::len).sum())?;
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
