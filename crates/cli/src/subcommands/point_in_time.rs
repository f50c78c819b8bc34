//! Recovers a store as it was at an earlier time, for `undercroft recover --until`.

use std::fs;
use std::path::{Path, PathBuf};

use undercroft_engine::{Store, Until, journal_folder};

use crate::arguments::journal::Recover;
use crate::failure::{Failure, Outcome, SUCCESS, at};
use crate::interrupt::Interrupt;
use crate::out::say;
use crate::subcommands::moment;
use crate::{store, watched};

/// Parses the last moment to recover.
pub(crate) fn parse_until(text: &str) -> Result<Until, Failure> {
    if text == "end" {
        return Ok(Until::End);
    }
    if let Ok(position) = text.parse() {
        return Ok(Until::Position(position));
    }
    moment::parse(text).map(Until::Time).ok_or_else(|| {
        Failure::usage(format_args!(
            "expected a position, 'end', or a time with its offset from UTC such as \
             2026-11-30T14:05:00Z or 2026-11-30T15:05:00+01:00, got {text:?}"
        ))
    })
}

pub(crate) fn run(arguments: &Recover, until: &str) -> Outcome {
    let until = parse_until(until)?;
    let name = arguments.store.name();
    let folder = store::folder_of(name, arguments.journal.as_deref())?;
    let target = arguments.to.as_deref().unwrap_or(name);
    let found = store::parse(target)?;
    if found.path.symlink_metadata().is_ok() {
        return Err(Failure::new(format_args!(
            "the store {} exists; name another one with --to, or move its file away first \
             (undercroft rm removes the journal as well)",
            store::full_name(target)
        )));
    }
    found.prepare()?;
    // Signals only set a flag, so that no unfinished file stays.
    Interrupt::catch()?;
    let recovered = watched::run("recovering", "no store was created", |watch| {
        Store::recover_until(&found.path, &folder, until, watch)
    })?;
    let Some(recovery) = recovered.recovery() else {
        return Err(Failure::new("the store was not recovered"));
    };
    say!(
        "recovered {} in {:.1} s, up to position {}{}",
        recovered.path().display(),
        recovery.took.as_secs_f64(),
        recovery.position,
        store::described_cut(recovery.cut)
    );
    match set_aside(&found.path, &folder, recovery.position)? {
        Some(kept) => say!(
            "renamed its old journal to {}, because a later recovery would repeat the changes that \
             were left out",
            kept.display()
        ),
        None => say!("kept the journal in {}", folder.display()),
    }
    say!("it has no journal: undercroft durability {target} everysec begins one");
    Ok(SUCCESS)
}

/// Renames the folder of a journal if the store at `path` would be recovered from it the next time.
/// Returns the folder's new name.
fn set_aside(path: &Path, folder: &Path, position: u64) -> Result<Option<PathBuf>, Failure> {
    let path = std::path::absolute(path).map_err(at("finding the store's folder"))?;
    let real = |folder: &Path| folder.canonicalize().ok();
    let is_own = journal_folder(&path).is_some_and(|own| real(&own) == real(folder));
    if !is_own {
        return Ok(None);
    }
    let mut number = 0;
    loop {
        let mut name = folder.as_os_str().to_owned();
        name.push(format!(".before-{position}"));
        if number > 0 {
            name.push(format!("-{number}"));
        }
        let kept = PathBuf::from(name);
        if kept.symlink_metadata().is_err() {
            fs::rename(folder, &kept).map_err(at(format_args!("renaming {}", folder.display())))?;
            return Ok(Some(kept));
        }
        number += 1;
    }
}
