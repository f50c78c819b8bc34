//! Implements `undercroft export`.
//!
//! - `place`: the destination as the user names it.
//! - `rdb`: writes an RDB file.

mod place;
mod rdb;

use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_engine::{DATABASES, Store};
use undercroft_links::save::SaveOptions;

use self::place::Place;

use crate::archive::{Counts, Writer};
use crate::arguments::{Export, ExportFormat};
use crate::destination::Destination;
use crate::failure::{Failure, Outcome, SUCCESS};
use crate::interrupt::Interrupt;
use crate::out::{say, tell};
use crate::progress::Progress;
use crate::size::{counted, human};
use crate::store::{self, Access};

pub(crate) fn run(arguments: &Export) -> Outcome {
    let (name, file) = arguments.names();
    if arguments.format == ExportFormat::Undercroft && arguments.skip_own {
        return Err(Failure::usage(
            "--skip-own is for --format rdb; the format of Undercroft contains everything",
        ));
    }
    let access = match arguments.unclean {
        true => Access::Unclean,
        false => Access::Write,
    };
    let interrupt = Interrupt::catch()?;
    let mut store = store::open(&name, access)?;
    store.set_wait_hook(Box::new(interrupt.clone()));
    let place = Place::of(file);
    let destination = place.open().map_err(place.failure())?;
    if destination.replaces(store.path()) {
        return Err(Failure::new(format_args!(
            "{} is the store itself; name another file",
            file.display()
        )));
    }
    let is_stream = destination.is_stream();
    let done = match arguments.format {
        ExportFormat::Undercroft => {
            let (counts, length) = write(&store, destination, &place, &interrupt)?;
            format!(
                "exported {} ({} of keys and values) to {}, {}",
                counted(counts.keys(), "key"),
                human(counts.bytes),
                place.0,
                human(length)
            )
        }
        ExportFormat::Rdb => {
            let options = SaveOptions {
                skip_own: arguments.skip_own,
                ..SaveOptions::new(arguments.rdb_version.into())
            };
            let saved = rdb::write(&store, destination, &place, &options, &interrupt)?;
            let libraries = match saved.libraries {
                0 => String::new(),
                libraries => format!(" and {}", counted(libraries, "function library")),
            };
            let left_out = match saved.left_out.is_empty() {
                true => String::new(),
                false => format!("; left out {}", saved.left_out),
            };
            format!(
                "exported {}{libraries} to {}, {}{left_out}",
                counted(saved.keys, "key"),
                place.0,
                human(saved.length)
            )
        }
    };
    // The stream may be standard output, so print the message on standard error.
    match is_stream {
        true => tell(format_args!("{done}\n")),
        false => say!("{done}"),
    }
    Ok(SUCCESS)
}

/// Writes all keys to the destination, and publishes the file.
fn write(
    store: &Store,
    destination: Destination,
    place: &Place<'_>,
    interrupt: &Interrupt,
) -> Result<(Counts, u64), Failure> {
    let is_stream = destination.is_stream();
    let keys = (0..DATABASES).map(|database| store.keys(database)).sum();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |elapsed| elapsed.as_millis() as u64);
    let out = BufWriter::new(destination);
    let mut writer = Writer::new(out, now).map_err(place.failure())?;
    let mut copying = Some(Progress::spin("reading"));
    let mut progress = None;
    // The snapshot is complete when the first key arrives, so no other process waits while this
    // export writes to disk.
    let copied = store.snapshot(|item| {
        copying = None;
        if interrupt.is_caught() {
            return Err(place.interrupted(is_stream));
        }
        writer.add(&item).map_err(place.failure())?;
        let progress = progress.get_or_insert_with(|| Progress::of_keys("writing", keys));
        progress.at(writer.keys());
        Ok::<_, Failure>(())
    });
    drop(copying);
    if interrupt.is_caught() {
        return Err(place.interrupted(is_stream));
    }
    copied?;
    let finish = || {
        let (mut out, counts, length) = writer.finish()?;
        out.flush()?;
        let destination = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        destination.publish()?;
        Ok((counts, length))
    };
    finish().map_err(place.failure())
}
