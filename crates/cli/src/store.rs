//! Finding, opening and creating stores.

use undercroft_engine::{Options, Store, StoreName};

use crate::failure::Failure;

/// Whether a store is opened to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Opens a store that must be there.
pub(crate) fn open(name: &str, access: Access) -> Result<Store, Failure> {
    let found = StoreName::parse(name).map_err(Failure::usage)?;
    if found.path.symlink_metadata().is_err() {
        return Err(missing(name, &found));
    }
    Ok(Store::open(&found.path, access == Access::Write)?)
}

/// Opens a store, or creates it.
pub(crate) fn open_or_create(name: &str, capacity: Option<u64>) -> Result<Store, Failure> {
    let found = StoreName::parse(name).map_err(Failure::usage)?;
    found.prepare()?;
    let options = Options {
        capacity,
        ..Options::default()
    };
    Ok(Store::open_or_create(&found.path, &options)?)
}

/// That there is no such store, and what makes one.
pub(crate) fn missing(name: &str, found: &StoreName) -> Failure {
    let place = if found.named {
        format!(" ({})", found.path.display())
    } else {
        String::new()
    };
    Failure::new(format_args!(
        "there is no store {name}{place}; undercroft serve, undercroft import and clients create one"
    ))
}
