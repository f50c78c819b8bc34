//! Implements `undercroft durability` and `undercroft checkpoint`.

use std::path::PathBuf;

use undercroft_engine::{Durability, Store, Terms};

use crate::arguments::{OfStore, SetDurability};
use crate::failure::{Failure, Outcome, SUCCESS};
use crate::out::say;
use crate::progress::Progress;
use crate::size::human;
use crate::store::{self, Access};

/// The warning about a journal that a failure of the machine removes.
pub(crate) const IN_MEMORY: &str = "the journal is on tmpfs, in memory, and does not survive a power cut; end it, and begin one \
     with --journal in a folder on a disk";

pub(crate) fn set(arguments: &SetDurability) -> Outcome {
    let wanted = Durability::from_name(&arguments.mode).ok_or_else(|| {
        Failure::usage(format_args!(
            "expected none, everysec or always, got {:?}",
            arguments.mode
        ))
    })?;
    let store = store::open(&arguments.store, Access::Write)?;
    let terms = Terms {
        journal: arguments.journal.as_ref().map(absolute),
        ..Terms::default()
    };
    {
        let _progress = store
            .journal()
            .is_none()
            .then(|| Progress::spin("writing a checkpoint"));
        store.set_durability(wanted, &terms)?;
    }
    match store.journal() {
        None => say!("durability none: {} has no journal", store.path().display()),
        Some(journal) => say!(
            "durability {}: the journal of {} is in {}",
            wanted.name(),
            store.path().display(),
            journal.folder.display()
        ),
    }
    if store.journal_is_in_memory() {
        say!("{IN_MEMORY}");
    }
    Ok(SUCCESS)
}

fn absolute(path: &PathBuf) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.clone())
}

pub(crate) fn checkpoint(arguments: &OfStore) -> Outcome {
    let store = store::open(arguments.store.name(), Access::Write)?;
    {
        let _progress = Progress::spin("writing a checkpoint");
        store.checkpoint()?;
    }
    say!("{}", described(&store));
    Ok(SUCCESS)
}

fn described(store: &Store) -> String {
    let bytes = store
        .journal()
        .map_or(0, |journal| journal.checkpoint_bytes);
    format!(
        "wrote a checkpoint of {}, {}",
        store.path().display(),
        human(bytes)
    )
}
