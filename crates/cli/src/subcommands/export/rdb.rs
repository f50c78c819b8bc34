//! Writes an RDB file.

use std::io::{self, BufWriter, Write};

use undercroft_engine::rdb::RdbVersion;
use undercroft_engine::{DATABASES, Store};
use undercroft_links::save::{SaveError, SaveOptions, Saved, save};

use super::place::Place;
use crate::arguments::RdbVersionArgument;
use crate::destination::Destination;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

impl From<RdbVersionArgument> for RdbVersion {
    fn from(version: RdbVersionArgument) -> RdbVersion {
        match version {
            RdbVersionArgument::V9 => RdbVersion::V9,
            RdbVersionArgument::V10 => RdbVersion::V10,
            RdbVersionArgument::V11 => RdbVersion::V11,
        }
    }
}

/// Writes all keys and function libraries to the destination, and publishes the file.
pub(super) fn write(
    store: &Store,
    destination: Destination,
    place: &Place<'_>,
    options: &SaveOptions,
    interrupt: &Interrupt,
) -> Result<Saved, Failure> {
    let is_stream = destination.is_stream();
    let keys = (0..DATABASES).map(|database| store.keys(database)).sum();
    let copying = Progress::spin("reading");
    let snapshot = store.take_snapshot();
    drop(copying);
    if interrupt.is_caught() {
        return Err(place.interrupted(is_stream));
    }
    let snapshot = snapshot?;
    let mut progress = Progress::of_keys("writing", keys);
    let mut watch = |keys| {
        progress.at(keys);
        !interrupt.is_caught()
    };
    let out = BufWriter::with_capacity(1 << 20, destination);
    let saved = save(store, &snapshot, out, options, &mut watch);
    let (mut out, saved) = saved.map_err(|error| match error {
        _ if interrupt.is_caught() => place.interrupted(is_stream),
        SaveError::Io(error) => place.failure()(error),
        SaveError::Own(own) => Failure::new(format_args!(
            "an RDB file cannot contain {own}; --skip-own leaves them out, and the format of \
             Undercroft contains everything"
        )),
        error => Failure::new(error),
    })?;
    let finish = || {
        out.flush()?;
        let destination = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        destination.publish()
    };
    finish().map_err(place.failure())?;
    Ok(saved)
}
