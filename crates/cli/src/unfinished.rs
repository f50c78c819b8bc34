//! Fills a store before publishing it under its name, so that no process sees a partly filled
//! store.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use undercroft_engine::{Options, Store, StoreName};

use crate::failure::{Failure, at};

/// The suffix of the temporary name of a store that is being filled.
const ENDING: &str = ".importing";

/// A store with a temporary name in the target's directory. It is removed on drop unless it has
/// been published.
#[derive(Debug)]
pub(crate) struct Unfinished {
    target: PathBuf,
    temporary: PathBuf,
}

impl Unfinished {
    /// Creates the temporary store that will be published as `name`.
    pub(crate) fn create(
        name: &StoreName,
        options: &Options,
    ) -> Result<(Store, Unfinished), Failure> {
        name.prepare()?;
        remove_abandoned(&name.path);
        let target = name.path.clone();
        let mut file = beginning(&target);
        file.push_str(&format!("{}{ENDING}", std::process::id()));
        let temporary = target.with_file_name(file);
        let store = Store::create(&temporary, options)?;
        Ok((store, Unfinished { target, temporary }))
    }

    /// Returns the path under which the store will be published.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Publishes the store under its name.
    ///
    /// # Errors
    /// Returns an error if another store with this name has been created in the meantime. The
    /// temporary store is then removed.
    pub(crate) fn publish(self) -> Result<(), Failure> {
        // Unlike a rename, a hard link never replaces an existing file.
        let linked = fs::hard_link(&self.temporary, &self.target);
        linked.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Failure::new(format_args!(
                "another process created {} during the import; nothing was imported",
                self.target.display()
            )),
            _ => at(format_args!("creating {}", self.target.display()))(error),
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If the removal fails, the next import into the same name removes the file.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Returns the prefix of the temporary names of unfinished stores for this target.
fn beginning(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.")
}

/// Removes unfinished stores that killed imports left and that no process has open.
fn remove_abandoned(target: &Path) {
    let beginning = beginning(target);
    let directory = target.parent().filter(|parent| *parent != Path::new(""));
    let entries = fs::read_dir(directory.unwrap_or(Path::new(".")));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with(&beginning) || !name.ends_with(ENDING) {
            continue;
        }
        let users = Store::open(&entry.path(), false).and_then(|store| store.users());
        if users.is_ok_and(|users| users.is_empty()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
