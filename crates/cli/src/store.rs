//! Finding, opening and creating stores.

use std::borrow::Cow;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::Path;

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
        let remedy = match resembling(&found.path) {
            Some(other) if found.named => format!("did you mean undercroft://{other}?"),
            Some(other) => format!(
                "did you mean {}?",
                found.path.with_file_name(other).display()
            ),
            None => "undercroft serve, import, exec --create and clients create one".to_owned(),
        };
        Failure::new(format_args!(
            "there is no store {}{place}; {remedy}",
            full_name(name)
        ))
    })
}

/// The store in the directory of a missing one whose name resembles its name most.
fn resembling(missing: &Path) -> Option<String> {
    /// Below it two names have nothing to do with each other; the limit that the command line's own suggestions use.
    const ALIKE: f64 = 0.7;
    let wanted = missing.file_name()?.to_str()?;
    let directory = missing.parent().filter(|parent| *parent != Path::new(""));
    let entries = fs::read_dir(directory.unwrap_or(Path::new("."))).ok()?;
    let mut names: Vec<(f64, String)> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .map(|name| (strsim::jaro(wanted, &name), name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .collect();
    names.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    // A store is only known by its header, so ask for the likeliest names first.
    let is_store = |name: &String| Store::open(&missing.with_file_name(name), false).is_ok();
    names.into_iter().map(|(_, name)| name).find(is_store)
}
