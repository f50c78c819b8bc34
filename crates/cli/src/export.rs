//! `undercroft export`.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_engine::{DATABASES, Store};

use crate::archive::{Counts, Writer};
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
    let temporary = beside(file);
    let written = write(&store, file, &temporary).and_then(|done| {
        fs::rename(&temporary, file)
            .map(|()| done)
            .map_err(writing(file))
    });
    let (counts, length) = written.inspect_err(|_| {
        // It may not even have been created.
        let _ = fs::remove_file(&temporary);
    })?;
    say!(
        "exported {} ({} of keys and values) to {}, {}",
        counted(counts.keys(), "key"),
        human(counts.bytes),
        file.display(),
        human(length)
    );
    Ok(SUCCESS)
}

fn writing(file: &Path) -> impl FnOnce(io::Error) -> Failure {
    at(format_args!("writing {}", file.display()).to_string())
}

/// Writes what is to become a file beside its place, all of it to the disk.
fn write(store: &Store, file: &Path, temporary: &Path) -> Result<(Counts, u64), Failure> {
    let keys = (0..DATABASES).map(|database| store.keys(database)).sum();
    // A user who may not read the store may not read its copy.
    let out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(temporary)
        .map_err(writing(file))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |elapsed| elapsed.as_millis() as u64);
    let mut writer = Writer::new(BufWriter::new(out), now).map_err(writing(file))?;
    let mut copying = Some(Progress::spin("reading"));
    let mut progress = None;
    // The store was copied when the first key comes: nobody waits for the disk.
    store.snapshot(|item| {
        copying = None;
        writer.add(&item).map_err(writing(file))?;
        let progress = progress.get_or_insert_with(|| Progress::of_keys("writing", keys));
        progress.at(writer.keys());
        Ok::<_, Failure>(())
    })?;
    drop(copying);
    let finish = || {
        let (mut out, counts, length) = writer.finish()?;
        out.flush()?;
        out.get_ref().sync_all()?;
        Ok((counts, length))
    };
    finish().map_err(writing(file))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
