//! Implements `undercroft journal`.

use std::path::Path;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use undercroft_engine::{
    Error, JournalFile, JournalFileKind, back_up_journal, journal_files, verify_journal,
};

use crate::arguments::journal::{Journal, JournalAction, JournalBackup, JournalOf};
use crate::failure::{FAILURE, Failure, Outcome, SUCCESS};
use crate::interrupt::Interrupt;
use crate::out::say;
use crate::size::{counted, human};
use crate::subcommands::{journal_dump, moment};
use crate::{store, watched};

pub(crate) fn run(arguments: &Journal) -> Outcome {
    match &arguments.action {
        JournalAction::List(of) => list(of),
        JournalAction::Verify(of) => verify(of),
        JournalAction::Dump(dump) => journal_dump::run(dump),
        JournalAction::Backup(backup) => back_up(backup),
    }
}

fn kind_of(file: &JournalFile) -> &'static str {
    match file.kind {
        JournalFileKind::Checkpoint => "checkpoint",
        JournalFileKind::Segment => "segment",
        JournalFileKind::Unfinished => "unfinished",
    }
}

fn list(of: &JournalOf) -> Outcome {
    let folder = store::folder_of(of.store.name(), of.journal.as_deref())?;
    let files = journal_files(&folder).map_err(Error::from)?;
    if of.json {
        let files: Vec<Value> = files
            .iter()
            .map(|file| {
                json!({
                    "name": file.name,
                    "kind": kind_of(file),
                    "epoch": file.epoch,
                    "start": file.start,
                    "end": file.end,
                    "bytes": file.bytes,
                    "written": file.written,
                    "problem": file.problem,
                })
            })
            .collect();
        let text = json!({"folder": folder.display().to_string(), "files": files});
        say!("{text:#}");
        return Ok(SUCCESS);
    }
    say!("{}", folder.display());
    say!(
        "{:<10}  {:>5}  {:>20}  {:>20}  {:>10}  {:<24}  NAME",
        "KIND",
        "EPOCH",
        "START",
        "END",
        "SIZE",
        "WRITTEN"
    );
    for file in files {
        say!(
            "{:<10}  {:>5}  {:>20}  {:>20}  {:>10}  {:<24}  {}",
            kind_of(&file),
            file.epoch,
            file.start,
            file.end,
            human(file.bytes),
            moment::text(file.written),
            file.name
        );
        if let Some(problem) = file.problem {
            say!("  {problem}");
        }
    }
    Ok(SUCCESS)
}

fn verify(of: &JournalOf) -> Outcome {
    let folder = store::folder_of(of.store.name(), of.journal.as_deref())?;
    Interrupt::catch()?;
    let verdict = watched::run("verifying", "the journal was not verified", |watch| {
        Ok(verify_journal(&folder, watch)?)
    })?;
    let status = match verdict.damage.is_empty() {
        true => SUCCESS,
        false => FAILURE,
    };
    if of.json {
        let cut = verdict
            .cut
            .map(|cut| json!({"position": cut.at, "bytes": cut.bytes}));
        let text = json!({
            "folder": folder.display().to_string(),
            "checkpoints": verdict.checkpoints,
            "records": verdict.records,
            "bytes": verdict.bytes,
            "end": verdict.end,
            "incomplete": cut,
            "damage": verdict.damage,
        });
        say!("{text:#}");
        return Ok(status);
    }
    for damage in &verdict.damage {
        say!("{damage}");
    }
    let read = format!(
        "{} and {}, {}, up to position {}",
        counted(verdict.checkpoints, "checkpoint"),
        counted(verdict.records, "record"),
        human(verdict.bytes),
        verdict.end
    );
    match verdict.damage.len() as u64 {
        0 => say!("intact: {read}{}", store::described_cut(verdict.cut)),
        count => say!(
            "damaged: {} in {}; intact are {read}",
            counted(count, "problem"),
            folder.display()
        ),
    }
    Ok(status)
}

/// Allows this process to open as many files as the system permits, because a backup opens all files
/// of a journal at once.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A journal of fewer files can be copied anyway.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn back_up(arguments: &JournalBackup) -> Outcome {
    let words: Vec<&Path> = arguments.words.iter().map(|word| word.as_path()).collect();
    let (folder, target) = match (&words[..], &arguments.journal) {
        ([target], Some(folder)) => (store::folder_of("", Some(folder))?, *target),
        ([name, target], None) => (store::folder_of(&name.to_string_lossy(), None)?, *target),
        _ => {
            return Err(Failure::usage(
                "expected a store and the folder to create, or --journal and the folder to create",
            ));
        }
    };
    Interrupt::catch()?;
    raise_file_limit();
    let copied = watched::run("copying", "no copy was made", |watch| {
        Ok(back_up_journal(&folder, target, watch)?)
    })?;
    say!(
        "copied the journal to {}, {}, up to position {}",
        target.display(),
        human(copied.bytes),
        copied.position
    );
    Ok(SUCCESS)
}
