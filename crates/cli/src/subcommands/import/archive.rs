//! Imports a file that `undercroft export` wrote.

use std::convert::Infallible;
use std::io::{BufReader, Read};

use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Limits, Store, ValueType};

use super::source::Source;
use super::target::Target;
use crate::archive::{self, Counts, Record, Refusal};
use crate::arguments::Import;
use crate::failure::{Failure, Outcome, SUCCESS};
use crate::interrupt::Interrupt;
use crate::out::say;
use crate::progress::Progress;
use crate::size::{counted, human};

pub(super) fn run(mut source: Source, arguments: &Import, interrupt: &Interrupt) -> Outcome {
    let path = source.name.clone();
    let Some(length) = source.length else {
        return Err(Failure::new(format_args!(
            "{path}: expected a regular file, because import reads it twice"
        )));
    };
    let mut content = BufReader::with_capacity(1 << 20, source.content()?);
    let counts = verify(&mut content, length)
        .map_err(|refusal| Failure::new(format_args!("{path}: {refusal}; nothing was changed")))?;
    let target = Target::open(arguments, interrupt)?;
    target.check(counts.bytes, arguments)?;
    target.empty()?;
    let mut content = BufReader::with_capacity(1 << 20, source.content()?);
    let imported = fill(target.store(), &mut content, length, interrupt).map_err(|refusal| {
        let left = target.state(Some(counts.keys()));
        match refusal {
            None => Failure::interrupted(left),
            Some(refusal) => Failure::new(format_args!("{path}: {refusal}; {left}")),
        }
    })?;
    let place = target.finish()?;
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

/// Verifies the entire file, showing the progress.
fn verify(content: &mut impl Read, length: u64) -> Result<Counts, Refusal<Infallible>> {
    let mut progress = Progress::new("verifying", length);
    archive::read(content, length, |_, at| {
        progress.at(at);
        Ok(())
    })
}

/// Imports all keys, and returns their number. Fails with no refusal if a signal ended the import.
fn fill(
    store: &Store,
    content: &mut impl Read,
    length: u64,
    interrupt: &Interrupt,
) -> Result<u64, Option<Refusal<Failure>>> {
    let mut progress = Progress::new("importing", length);
    let mut imported = 0;
    // Whether the current key was skipped because it had expired. Records that add to its
    // collection are then also skipped.
    let mut skipped = false;
    let filled = archive::read(content, length, |record, at| {
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
        Err(refusal) => Err((!interrupt.is_caught()).then_some(refusal)),
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
