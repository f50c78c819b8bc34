//! `undercroft export`.

use std::fs::{self, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::archive::{Builder, Counts};
use crate::arguments::Export;
use crate::failure::{Failure, Outcome, SUCCESS, at};
use crate::out::say;
use crate::progress::Progress;
use crate::size::{counted, human};
use crate::store::{self, Access};

pub(crate) fn run(arguments: &Export) -> Outcome {
    let (name, file) = arguments.names();
    let access = match arguments.unclean {
        true => Access::Unclean,
        false => Access::Write,
    };
    let store = store::open(&name, access)?;
    let mut builder = Builder::default();
    {
        let _progress = Progress::spin("reading");
        // No file is written here: every writer waits.
        store.snapshot(|item| {
            builder.add(&item);
            Ok::<_, Failure>(())
        })?;
    }
    let length = builder.length();
    let counts = write_file(file, builder, length)?;
    say!(
        "exported {} ({} of keys and values) to {}, {}",
        counted(counts.keys(), "key"),
        human(counts.bytes),
        file.display(),
        human(length)
    );
    Ok(SUCCESS)
}

/// Writes a file beside its place, and moves it there when all of it is on disk.
fn write_file(path: &Path, builder: Builder, length: u64) -> Result<Counts, Failure> {
    let temporary = beside(path);
    let written = write_temporary(&temporary, builder, length).and_then(|counts| {
        fs::rename(&temporary, path)?;
        Ok(counts)
    });
    if written.is_err() {
        // It may not even have been created.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(at(format_args!("writing {}", path.display())))
}

fn write_temporary(path: &Path, builder: Builder, length: u64) -> std::io::Result<Counts> {
    // A user who may not read the store may not read its copy.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut out = BufWriter::new(file);
    let mut progress = Progress::new("writing", length);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |elapsed| elapsed.as_millis() as u64);
    let counts = builder.write(&mut out, now, |written| progress.at(written))?;
    out.flush()?;
    out.get_ref().sync_all()?;
    Ok(counts)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
