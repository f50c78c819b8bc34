//! The file to which SAVE and BGSAVE write snapshots in the format of Redis.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};

use rustix::io::Errno;
use undercroft_commands::context::SnapshotFile;
use undercroft_engine::Store;
use undercroft_engine::rdb::RdbVersion;
use undercroft_links::save::{SaveError, SaveOptions, save_to_file};

use crate::log::log;

/// The version of the files, which Redis 7.0 and newer and Valkey read.
const VERSION: RdbVersion = RdbVersion::V10;

/// The path of the file, which the operator chose.
#[derive(Debug)]
pub(crate) struct DumpFile(PathBuf);

impl DumpFile {
    pub(crate) fn new(path: PathBuf) -> DumpFile {
        DumpFile(path)
    }

    /// Returns the file with the values of `dir` and `dbfilename`.
    ///
    /// # Errors
    /// If `dir` is not an existing folder, returns the system's description, as Redis does.
    pub(crate) fn in_folder(folder: &[u8], name: &[u8]) -> Result<DumpFile, String> {
        let folder = Path::new(OsStr::from_bytes(folder));
        let found = match fs::metadata(folder) {
            Ok(status) if !status.is_dir() => Err(io::Error::from(Errno::NOTDIR)),
            found => found.map(drop),
        };
        found.map_err(|error| {
            let text = error.to_string();
            let end = text.find(" (os error").unwrap_or(text.len());
            text[..end].to_owned()
        })?;
        let folder = std::path::absolute(folder).map_err(|error| error.to_string())?;
        Ok(DumpFile(folder.join(OsStr::from_bytes(name))))
    }
}

impl SnapshotFile for DumpFile {
    fn write(&self, store: &Store) -> Result<(), String> {
        let (path, start) = (self.0.display(), Instant::now());
        match save_to_file(store, &self.0, &SaveOptions::new(VERSION)) {
            Ok(saved) => {
                log(format_args!(
                    "wrote {path}: {} keys and {} bytes in {:.1} s",
                    saved.keys,
                    saved.length,
                    start.elapsed().as_secs_f64()
                ));
                Ok(())
            }
            Err(error) => {
                log(format_args!("writing {path}: {error}"));
                Err(match error {
                    SaveError::Own(own) => format!(
                        "ERR an RDB file cannot contain {own}; copy the store with undercroft export"
                    ),
                    error => format!("ERR writing {path}: {error}"),
                })
            }
        }
    }
}
