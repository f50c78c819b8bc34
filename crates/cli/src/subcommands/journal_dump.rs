//! Implements `undercroft journal dump`.

use serde_json::json;
use undercroft_engine::{JournalRecord, JournalRecordKind, Until, read_journal};

use crate::failure::{Failure, Outcome, SUCCESS};
use crate::interrupt::Interrupt;
use crate::journal_arguments::JournalDump;
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
    let mut held = Vec::new();
    let print = |record: &JournalRecord| {
        if arguments.all || record.kind == JournalRecordKind::Transaction {
            print(record, of.json);
        }
    };
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
                held.drain(..).for_each(|record| print(&record));
                print(record);
            }
        }
        true
    };
    let read = watched::run("reading", "the list is incomplete", |watch| {
        Ok(read_journal(&folder, watch, &mut each)?)
    });
    held.iter().for_each(print);
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

fn print(record: &JournalRecord, is_json: bool) {
    let changes = matches!(
        record.kind,
        JournalRecordKind::Transaction | JournalRecordKind::Heap | JournalRecordKind::Restore
    );
    let slot = changes.then_some(record.slot);
    if is_json {
        let text = json!({
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
    say!(
        "{:<20}  {after:<24}  {}{what}",
        record.position,
        kind_of(record)
    );
}
