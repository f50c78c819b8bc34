//! Finding, opening and creating stores.

use std::borrow::Cow;
use std::fs::Metadata;
use std::io::ErrorKind;

use undercroft_engine::{Options, Store, StoreName, Terms};

use crate::failure::Failure;

/// Whether a store is opened to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// To look at what a power cut left; the file stays as it is.
    Unclean,
}

/// A store's name as clients write it. A bare word is a name here, so that nobody makes or removes a store in the
/// working directory by accident.
pub(crate) fn full_name(name: &str) -> Cow<'_, str> {
    match name.contains('/') || name.is_empty() {
        true => name.into(),
        false => format!("undercroft://{name}").into(),
    }
}

/// What a store's name on the command line stands for.
pub(crate) fn parse(name: &str) -> Result<StoreName, Failure> {
    StoreName::parse(&full_name(name)).map_err(Failure::usage)
}

/// Opens a store that must be there.
pub(crate) fn open(name: &str, access: Access) -> Result<Store, Failure> {
    let found = parse(name)?;
    must_be_there(name, &found)?;
    let store = match access {
        Access::Read => Store::open(&found.path, false)?,
        Access::Write => Store::open(&found.path, true)?,
        Access::Unclean => Store::open_unclean(&found.path)?,
    };
    store.tell_when_lost();
    Ok(store)
}

/// Opens a store, or creates it; one that is there must have the capacity that is asked for.
pub(crate) fn open_or_create(name: &str, capacity: Option<u64>) -> Result<Store, Failure> {
    let found = parse(name)?;
    found.prepare()?;
    let options = Options {
        capacity,
        ..Options::default()
    };
    let store = Store::open_or_create(&found.path, &options)?;
    store.agrees_with(&Terms {
        capacity,
        ..Terms::default()
    })?;
    store.tell_when_lost();
    Ok(store)
}

/// What the system says of a store's file.
///
/// # Errors
/// There is none, and what makes one; or that it cannot be seen, and why.
pub(crate) fn must_be_there(name: &str, found: &StoreName) -> Result<Metadata, Failure> {
    let path = found.path.display();
    found.path.symlink_metadata().map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return Failure::new(format_args!("looking for the store {path}: {error}"));
        }
        let place = match found.named {
            true => format!(" ({path})"),
            false => String::new(),
        };
        Failure::new(format_args!(
            "there is no store {}{place}; undercroft serve, exec, import and clients create one",
            full_name(name)
        ))
    })
}
