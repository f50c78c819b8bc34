//! Implements `undercroft export`.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_engine::{DATABASES, Store};

use crate::archive::{Counts, Writer};
use crate::arguments::Export;
use crate::destination::Destination;
use crate::failure::{Failure, Outcome, SUCCESS, at};
use crate::interrupt::Interrupt;
use crate::out::{say, tell};
use crate::progress::Progress;
use crate::size::{counted, human};
use crate::store::{self, Access};

pub(crate) fn run(arguments: &Export) -> Outcome {
    let (name, file) = arguments.names();
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
    let (counts, length) = write(&store, destination, &place, &interrupt)?;
    let done = format!(
        "exported {} ({} of keys and values) to {}, {}",
        counted(counts.keys(), "key"),
        human(counts.bytes),
        place.0,
        human(length)
    );
    // The stream may be standard output, so print the message on standard error.
    match is_stream {
        true => tell(format_args!("{done}\n")),
        false => say!("{done}"),
    }
    Ok(SUCCESS)
}

/// The destination: its name as specified by the user, and its path.
struct Place<'a>(String, Option<&'a Path>);

impl Place<'_> {
    fn of(file: &Path) -> Place<'_> {
        match file == "-" {
            true => Place("standard output".to_owned(), None),
            false => Place(file.display().to_string(), Some(file)),
        }
    }

    fn open(&self) -> io::Result<Destination> {
        match self.1 {
            None => Destination::standard_output(),
            Some(path) => Destination::open(path),
        }
    }

    fn failure(&self) -> impl FnOnce(io::Error) -> Failure {
        at(format!("writing {}", self.0))
    }

    /// Creates the failure of an export that was interrupted by a signal.
    fn interrupted(&self, is_stream: bool) -> Failure {
        match is_stream {
            true => Failure::interrupted(format_args!("{} received a part of the export", self.0)),
            false => Failure::interrupted(format_args!("{} was not written", self.0)),
        }
    }
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
