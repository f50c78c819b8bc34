//! The file to which SAVE and BGSAVE write snapshots in the format of Redis.

use std::path::PathBuf;
use std::time::Instant;

use undercroft_commands::context::SnapshotFile;
use undercroft_engine::Store;
use undercroft_engine::rdb::RdbVersion;
use undercroft_links::save::{SaveError, SaveOptions, save_to_file};

use crate::log::log;

/// The version of the files, which Redis 7.0 and newer and Valkey read.
const VERSION: RdbVersion = RdbVersion::V10;

/// The path of the file, which the operator chose at startup.
#[derive(Debug)]
pub(crate) struct DumpFile(PathBuf);

impl DumpFile {
    pub(crate) fn new(path: PathBuf) -> DumpFile {
        DumpFile(path)
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
