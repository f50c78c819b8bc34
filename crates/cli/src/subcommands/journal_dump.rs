//! Implements `undercroft journal dump`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use undercroft_engine::{
    ChangedKeys, JournalRecord, JournalRecordKind, StoreName, Until, read_journal,
    read_journal_keys,
};

use crate::arguments::journal::JournalDump;
use crate::arguments::store::DEFAULT_STORE;
use crate::failure::{Failure, Outcome, SUCCESS};
use crate::interrupt::Interrupt;
use crate::out::say;
use crate::size::counted;
use crate::subcommands::moment;
use crate::subcommands::point_in_time::parse_until;
use crate::{store, watched};

pub(crate) fn run(arguments: &JournalDump) -> Outcome {
    let of = &arguments.of;
    let since = match arguments.since.as_deref().map(parse_until).transpose()? {
        Some(Until::End) => return Err(Failure::usage("expected a position or a time as --since")),
        since => since,
    };
    let folder = store::folder_of(of.store.name(), of.journal.as_deref())?;
    Interrupt::catch()?;
    let print = |record: &JournalRecord, keys: Option<&ChangedKeys>| {
        if arguments.all || record.kind == JournalRecordKind::Transaction {
            print(record, keys, of.json);
        }
        true
    };
    if arguments.keys {
        let scratch = scratch()?;
        watched::run("reading", "the list is incomplete", |watch| {
            read_journal_keys(&folder, &scratch, since, watch, &mut |record, keys| {
                print(record, Some(keys))
            })
        })?;
        return Ok(SUCCESS);
    }
    let mut held = Vec::new();
    let mut each = |record: &JournalRecord| {
        match since {
            Some(Until::Position(position)) if record.end <= position => {}
            // Whether a record is later than the time is known after the next sync.
            Some(Until::Time(time)) if record.after.is_none_or(|after| after <= time) => {
                if record.kind == JournalRecordKind::Time {
                    held.clear();
                }
                held.push(record.clone());
            }
            _ => {
                for record in held.drain(..) {
                    print(&record, None);
                }
                print(record, None);
            }
        }
        true
    };
    let read = watched::run("reading", "the list is incomplete", |watch| {
        Ok(read_journal(&folder, watch, &mut each)?)
    });
    for record in &held {
        print(record, None);
    }
    read.map(|()| SUCCESS)
}

fn kind_of(record: &JournalRecord) -> &'static str {
    match record.kind {
        JournalRecordKind::Transaction => "transaction",
        JournalRecordKind::Heap => "heap",
        JournalRecordKind::Restore => "restore",
        JournalRecordKind::Time => "time",
        JournalRecordKind::Void => "void",
    }
}

fn shards(record: &JournalRecord) -> Vec<u32> {
    (0..64)
        .filter(|shard| record.shards >> shard & 1 == 1)
        .collect()
}

/// The start of the names of temporary stores, before the process id.
const SCRATCH: &str = ".journal-";

/// Returns the path of a temporary store for this process. Removes those of processes that were
/// killed.
fn scratch() -> Result<PathBuf, Failure> {
    let name = StoreName::parse(DEFAULT_STORE)?;
    name.prepare()?;
    let folder = name.path.parent().unwrap_or(Path::new("/"));
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(SCRATCH));
        // A recovery that was killed leaves a file with a suffix.
        let id = id.map(|id| id.split('.').next().unwrap_or(id));
        if id.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Another process may have removed it first.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(folder.join(format!("{SCRATCH}{}", std::process::id())))
}

/// Describes keys: their databases and names, in JSON.
fn names_in_json(names: &BTreeSet<(usize, Vec<u8>)>) -> Value {
    let names = names
        .iter()
        .map(|(database, key)| json!({"db": database, "key": key.escape_ascii().to_string()}));
    names.collect()
}

/// Describes keys on a line.
fn names(doing: &str, names: &BTreeSet<(usize, Vec<u8>)>) -> String {
    /// The number of keys that are named.
    const MOST: usize = 8;
    if names.is_empty() {
        return String::new();
    }
    let shown = names.iter().take(MOST).map(|(database, key)| {
        let key = key.escape_ascii();
        match database {
            0 => format!(" \"{key}\""),
            _ => format!(" {database}:\"{key}\""),
        }
    });
    let shown: String = shown.collect();
    let rest = match names.len().saturating_sub(MOST) {
        0 => String::new(),
        rest => format!(" and {}", counted(rest as u64, "other")),
    };
    format!(", {doing}{shown}{rest}")
}

fn print(record: &JournalRecord, keys: Option<&ChangedKeys>, is_json: bool) {
    let changes = matches!(
        record.kind,
        JournalRecordKind::Transaction | JournalRecordKind::Heap | JournalRecordKind::Restore
    );
    let slot = changes.then_some(record.slot);
    if is_json {
        let mut text = json!({
            "position": record.position,
            "end": record.end,
            "after": record.after,
            "kind": kind_of(record),
            "slot": slot,
            "generation": slot.map(|_| record.generation),
            "number": record.number,
            "shards": shards(record),
            "ranges": record.ranges.len(),
            "bytes": record.bytes,
        });
        if let (Some(keys), Some(object)) = (keys, text.as_object_mut()) {
            for (name, keys) in [
                ("added", &keys.added),
                ("changed", &keys.changed),
                ("removed", &keys.removed),
            ] {
                object.insert(name.into(), names_in_json(keys));
            }
        }
        return say!("{text}");
    }
    let after = record.after.map_or_else(|| "-".into(), moment::text);
    let what = match slot {
        None => String::new(),
        Some(slot) => {
            let shards: Vec<String> = shards(record).iter().map(u32::to_string).collect();
            let shards = match shards.is_empty() {
                true => String::new(),
                false => format!(", shards {}", shards.join(",")),
            };
            format!(" by slot {slot}{shards}, {}", counted(record.bytes, "byte"))
        }
    };
    let keys = keys.map_or_else(String::new, |keys| {
        names("added", &keys.added)
            + &names("changed", &keys.changed)
            + &names("removed", &keys.removed)
    });
    say!(
        "{:<20}  {after:<24}  {}{what}{keys}",
        record.position,
        kind_of(record)
    );
}
