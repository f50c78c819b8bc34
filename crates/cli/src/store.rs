//! Finds, opens and creates stores.

use std::borrow::Cow;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use undercroft_engine::{Cut, Options, Store, StoreName, Terms, journal_folder};

use crate::failure::Failure;
use crate::out::tell;
use crate::size::counted;
use crate::watched;

/// The state after an interrupted recovery.
const NOT_RECOVERED: &str = "the store was not recovered; the next command begins again";

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Read-only access to a store that was not synced before a power cut. The file is not changed.
    Unclean,
}

/// Returns a store's name in the form that clients use. A single word always names a store and
/// never a file, so that no store in the working directory is created or removed by accident.
pub(crate) fn full_name(name: &str) -> Cow<'_, str> {
    match name.contains('/') || name.is_empty() {
        true => name.into(),
        false => format!("undercroft://{name}").into(),
    }
}

/// Parses the name of a store from the command line.
pub(crate) fn parse(name: &str) -> Result<StoreName, Failure> {
    StoreName::parse(&full_name(name)).map_err(Failure::usage)
}

/// Returns the folder of the journal from which a store can be recovered, if there is one.
pub(crate) fn journal_of(found: &StoreName) -> Option<PathBuf> {
    let path = std::path::absolute(&found.path).ok()?;
    journal_folder(&path).filter(|folder| folder.is_dir())
}

/// Returns the folder of a store's journal: the one that the user named, or else the one that the
/// store names, or else the default one.
pub(crate) fn folder_of(name: &str, given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(folder) = given {
        return match folder.is_dir() {
            true => Ok(folder.into()),
            false => Err(Failure::new(format_args!(
                "expected the folder of a journal, {} is none",
                folder.display()
            ))),
        };
    }
    let found = parse(name)?;
    let named = Store::open(&found.path, false)
        .ok()
        .and_then(|store| store.journal());
    named
        .map(|journal| journal.folder)
        .or_else(|| journal_of(&found))
        .ok_or_else(|| {
            Failure::new(format_args!(
                "{} has no journal; name its folder with --journal, or begin one with undercroft \
                 durability",
                full_name(name)
            ))
        })
}

/// Describes the end of a journal that recovery left out.
pub(crate) fn described_cut(cut: Option<Cut>) -> String {
    match cut {
        None => String::new(),
        Some(cut) => format!(
            "; the last {} after position {} were not written completely and are left out",
            counted(cut.bytes, "byte"),
            cut.at
        ),
    }
}

/// Tells the user that a store was recovered from its journal.
fn tell_recovery(store: &Store) {
    let Some(recovery) = store.recovery() else {
        return;
    };
    let cut = described_cut(recovery.cut);
    tell(format_args!(
        "recovered {} from its journal in {:.1} s, up to position {}{cut}\n",
        store.path().display(),
        recovery.took.as_secs_f64(),
        recovery.position,
    ));
}

/// Opens an existing store. Recovers it from its journal if its file is gone or was not synced
/// before the machine stopped.
pub(crate) fn open(name: &str, access: Access) -> Result<Store, Failure> {
    let found = parse(name)?;
    if access != Access::Unclean
        && let Some(folder) = journal_of(&found)
    {
        let is_usable = match Store::open(&found.path, false) {
            Ok(_) => true,
            Err(error) => !error.is_unclean() && found.path.symlink_metadata().is_ok(),
        };
        if !is_usable {
            found.prepare()?;
            let store = watched::run("recovering", NOT_RECOVERED, |watch| {
                Store::open_or_recover_watched(&found.path, &folder, watch)
            })?;
            tell_recovery(&store);
            store.tell_when_lost();
            return Ok(store);
        }
    }
    must_be_there(name, &found)?;
    let store = match access {
        Access::Read => Store::open(&found.path, false)?,
        Access::Write => Store::open(&found.path, true)?,
        Access::Unclean => Store::open_unclean(&found.path)?,
    };
    store.tell_when_lost();
    Ok(store)
}

/// Opens a store, or creates it if it does not exist. An existing store must have the requested
/// capacity.
pub(crate) fn open_or_create(name: &str, capacity: Option<u64>) -> Result<Store, Failure> {
    open_or_create_on(
        name,
        &Terms {
            capacity,
            ..Terms::default()
        },
    )
}

/// Opens a store, or creates it on the given terms if it does not exist. A store without a journal
/// begins one if the terms name a durability mode. An existing store must have the requested
/// capacity.
pub(crate) fn open_or_create_on(name: &str, terms: &Terms) -> Result<Store, Failure> {
    let found = parse(name)?;
    found.prepare()?;
    let options = Options {
        capacity: terms.capacity,
        ..Options::default()
    };
    let store = watched::run("recovering", NOT_RECOVERED, |watch| {
        Store::open_or_create_watched(&found.path, &options, terms, watch)
    })?;
    tell_recovery(&store);
    store.agrees_with(&Terms {
        capacity: terms.capacity,
        ..Terms::default()
    })?;
    store.tell_when_lost();
    Ok(store)
}

/// Returns the metadata of a store's file.
///
/// # Errors
/// Returns an error if the file cannot be accessed. If the file does not exist, the error includes
/// a hint on how to create the store.
pub(crate) fn must_be_there(name: &str, found: &StoreName) -> Result<Metadata, Failure> {
    let path = found.path.display();
    found.path.symlink_metadata().map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return Failure::new(format_args!("looking up the store {path}: {error}"));
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

/// Returns the store with the most similar name in the directory of a missing store, if any is
/// similar enough.
fn resembling(missing: &Path) -> Option<String> {
    /// The minimum similarity of two names. clap uses the same value for its suggestions for
    /// mistyped options.
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
    // Only the header shows that a file is a store, so open the files with the most similar names
    // first.
    let is_store = |name: &String| Store::open(&missing.with_file_name(name), false).is_ok();
    names.into_iter().map(|(_, name)| name).find(is_store)
}
