//! Names of stores, which are `undercroft://name`, `undercroft:///path`, or a path.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use undercroft_memory::{self as memory};

use crate::error::Error;
use crate::structures::roots::DATABASES;

const SCHEME: &str = "undercroft://";
/// The parent directory of all named stores, which is a tmpfs on every Linux system.
const SHARED_MEMORY: &str = "/dev/shm";
/// The maximum length of a store's name in bytes.
const NAME_MAX: usize = 200;

/// The name of a store, resolved to the path of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreName {
    /// The path of the store file.
    pub path: PathBuf,
    /// Whether the file is in the user's directory for named stores under /dev/shm.
    pub named: bool,
    /// The database number at the end of a name such as `undercroft://name/1`, as in Redis URLs.
    pub database: Option<usize>,
}

impl StoreName {
    /// Parses the name of a store, in the same way for all bindings and the command line.
    /// `undercroft://name` is a store in shared memory, `undercroft://name/1` is its database 1,
    /// and `undercroft:///path` or a path that contains a `/` is a file. A plain word is ambiguous,
    /// so it is rejected with an error that shows how to write each form.
    ///
    /// ```
    /// use undercroft_engine::StoreName;
    /// let name = StoreName::parse("undercroft:///var/tmp/store").unwrap();
    /// assert_eq!(name.path.to_str(), Some("/var/tmp/store"));
    /// assert_eq!(StoreName::parse("undercroft://cache/1").unwrap().database, Some(1));
    /// assert!(StoreName::parse("cache").is_err());
    /// assert!(StoreName::parse("undercroft://../store").is_err());
    /// assert!(StoreName::parse("undercroft:///store?maxmemory=1mb").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<StoreName, Error> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            if text.is_empty() || text.contains("://") {
                return Err(Error::Name(
                    format!(
                        "expected a path, undercroft://name or undercroft:///path, got {text:?}"
                    )
                    .into(),
                ));
            }
            if !text.contains('/') {
                return Err(Error::Name(
                    format!(
                        "expected undercroft://{text} for a store in shared memory, or ./{text} for a file here, \
                         got {text:?}"
                    )
                    .into(),
                ));
            }
            return Ok(StoreName {
                path: PathBuf::from(text),
                named: false,
                database: None,
            });
        };
        if rest.starts_with('/') {
            if rest.contains('?') {
                return Err(Error::Name(
                    format!(
                        "expected undercroft:///path without options, got {text:?}; write a path \
                         that contains '?' without undercroft://"
                    )
                    .into(),
                ));
            }
            return Ok(StoreName {
                path: PathBuf::from(rest),
                named: false,
                database: None,
            });
        }
        let (rest, database) = match rest.split_once('/') {
            None => (rest, None),
            Some((name, "")) => (name, None),
            // The name is invalid, so report the name rather than the database number.
            Some((name, _)) if !is_name(name) => (rest, None),
            Some((name, digits)) => {
                let number = digits.parse().ok().filter(|&number| number < DATABASES);
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                match number.filter(|_| is_number) {
                    Some(number) => (name, Some(number)),
                    None => {
                        return Err(Error::Name(
                            format!(
                                "expected a database below {DATABASES} after the store's name, as \
                                 in undercroft://{name}/1, or undercroft:///path for a file, got \
                                 {text:?}"
                            )
                            .into(),
                        ));
                    }
                }
            }
        };
        if !is_name(rest) {
            return Err(Error::Name(format!(
                "expected a store name of up to {NAME_MAX} letters, digits, '.', '_' and '-' that \
                 does not start with '.', got {rest:?}"
            ).into()));
        }
        Ok(StoreName {
            path: directory().join(rest),
            named: true,
            database,
        })
    }

    /// Creates the user's directory for named stores with mode 0700 if it is missing. Fails if the
    /// directory belongs to another user or has wider permissions.
    pub fn prepare(&self) -> Result<(), Error> {
        if !self.named {
            return Ok(());
        }
        let directory = directory();
        let fail = |source| {
            Error::from(memory::Error::Io {
                doing: "creating the directory",
                path: directory.clone(),
                source,
            })
        };
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result.map_err(fail)?,
        }
        let status = directory.symlink_metadata().map_err(fail)?;
        let sound =
            status.is_dir() && status.uid() == user() && status.permissions().mode() & 0o077 == 0;
        if sound {
            Ok(())
        } else {
            Err(Error::Name(
                format!(
                    "expected {} to be a directory with mode 0700 that belongs to user {}, but \
                     another user created it; ask that user or an administrator to remove it",
                    directory.display(),
                    user()
                )
                .into(),
            ))
        }
    }
}

/// Returns whether `text` is a valid store name. The temporary name of a store that an import is
/// filling is not valid.
fn is_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.len())
        && !text.starts_with('.')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn user() -> u32 {
    memory::effective_user()
}

fn directory() -> PathBuf {
    Path::new(SHARED_MEMORY).join(format!("undercroft-{}", user()))
}

/// Returns the default folder of a store's journal, given the absolute path of the store's file.
/// Named stores have theirs in the user's state directory, because /dev/shm does not survive a
/// restart of the machine: `$XDG_STATE_HOME/undercroft/NAME.journal`, or `~/.local/state` instead of
/// the variable. Other stores have it next to their file, with `.journal` appended to its name.
/// Returns `None` for a named store if the environment names no home directory.
pub fn journal_folder(path: &Path) -> Option<PathBuf> {
    let mut name = path.file_name()?.to_owned();
    name.push(".journal");
    if path.parent() != Some(directory().as_path()) {
        return Some(path.with_file_name(name));
    }
    let absolute = |variable: &str| {
        let value = PathBuf::from(std::env::var_os(variable)?);
        value.is_absolute().then_some(value)
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("undercroft").join(name))
}

/// Returns the names and paths of the user's named stores, sorted by name.
pub fn list_stores() -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(directory()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result?,
    };
    let mut stores = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let (true, Ok(name)) = (
            entry.file_type()?.is_file(),
            entry.file_name().into_string(),
        ) && is_name(&name)
        {
            stores.push((name, entry.path()));
        }
    }
    stores.sort();
    Ok(stores)
}
