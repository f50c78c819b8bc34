//! Writes an RDB file that replaces an older one only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use undercroft_engine::Store;

use super::store::{SaveError, SaveOptions, Saved, save};

/// The temporary name of a file, which is removed on drop unless the file was renamed.
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The save has already failed and reported the reason.
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes a snapshot of `store` to the file at `path`. The file appears under its name when it is
/// complete and on the disk; until then, an older file remains. Only its owner can read it.
///
/// # Errors
/// Returns the same errors as [`save`].
pub fn save_to_file(store: &Store, path: &Path, options: &SaveOptions) -> Result<Saved, SaveError> {
    let snapshot = store.take_snapshot()?;
    // Redis uses the same name, so that tools which clean up after a killed server know it.
    let name = format!("temp-{}.rdb", std::process::id());
    let mut temporary = Temporary(Some(path.with_file_name(name)));
    let file = match &temporary.0 {
        Some(name) => create(name)?,
        None => unreachable!("the name was just set"),
    };
    let out = BufWriter::with_capacity(1 << 20, file);
    let (mut out, saved) = save(store, &snapshot, out, options, &mut |_| true)?;
    out.flush()?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    if let Some(name) = temporary.0.take() {
        let renamed = fs::rename(&name, path);
        if renamed.is_err() {
            temporary.0 = Some(name);
        }
        renamed?;
    }
    // The rename survives a power cut only after the folder is synced.
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(saved)
}

/// Creates a file that only its owner can read, instead of one that an earlier process with the same
/// id left.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}
