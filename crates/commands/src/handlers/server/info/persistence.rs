//! Writes the persistence section of INFO, which describes the store's journal in Redis' terms.
//!
//! Unless the operator chose a folder for snapshots, a checkpoint takes the place of an RDB snapshot and of the base of an append-only file, and the
//! journal's records after the checkpoint take the place of its increments.

use undercroft_engine::{Durability, JournalState};

use super::fields::{line, title, zeros};
use crate::context::Context;

/// Writes the section.
pub(super) fn section(context: &Context<'_>, out: &mut String) {
    let journal = context.store.store().journal();
    let is_writing = u8::from(journal.as_ref().is_some_and(|it| it.is_checkpointing));
    let checkpoints = &context.host.process.checkpoints;
    title("Persistence", out);
    zeros(
        &[
            "loading",
            "async_loading",
            "current_cow_peak",
            "current_cow_size",
            "current_cow_size_age",
        ],
        out,
    );
    line("current_fork_perc", "0.00", out);
    zeros(
        &[
            "current_save_keys_processed",
            "current_save_keys_total",
            "rdb_changes_since_last_save",
        ],
        out,
    );
    let is_saving = is_writing | u8::from(checkpoints.is_saving());
    line("rdb_bgsave_in_progress", is_saving, out);
    line("rdb_last_save_time", last_save(context), out);
    line("rdb_last_bgsave_status", checkpoints.status(), out);
    line("rdb_last_bgsave_time_sec", checkpoints.seconds(), out);
    line("rdb_current_bgsave_time_sec", -1, out);
    line("rdb_saves", checkpoints.completed(), out);
    zeros(
        &[
            "rdb_last_cow_size",
            "rdb_last_load_keys_expired",
            "rdb_last_load_keys_loaded",
        ],
        out,
    );
    line("aof_enabled", u8::from(journal.is_some()), out);
    line("aof_rewrite_in_progress", is_writing, out);
    line("aof_rewrite_scheduled", 0, out);
    line("aof_last_rewrite_time_sec", checkpoints.seconds(), out);
    line("aof_current_rewrite_time_sec", -1, out);
    line("aof_last_bgrewrite_status", checkpoints.status(), out);
    line("aof_rewrites", checkpoints.completed(), out);
    line(
        "aof_rewrites_consecutive_failures",
        checkpoints.failed_in_a_row(),
        out,
    );
    let has_failed = journal.as_ref().is_some_and(|it| it.error.is_some());
    line(
        "aof_last_write_status",
        if has_failed { "err" } else { "ok" },
        out,
    );
    zeros(
        &[
            "aof_last_cow_size",
            "module_fork_in_progress",
            "module_fork_last_cow_size",
        ],
        out,
    );
    match journal {
        Some(journal) => {
            figures(&journal, out);
            let is_in_memory = context.store.store().journal_is_in_memory();
            line("journal_in_memory", u8::from(is_in_memory), out);
        }
        None => line("journal_durability", Durability::None.name(), out),
    }
}

/// Writes the fields that Redis has only with an append-only file, and those about the journal.
fn figures(journal: &JournalState, out: &mut String) {
    let lag = journal.head.saturating_sub(journal.durable);
    let records = journal.head.saturating_sub(journal.checkpoint);
    line("aof_current_size", journal.checkpoint_bytes + records, out);
    line("aof_base_size", journal.checkpoint_bytes, out);
    line("aof_pending_rewrite", 0, out);
    line("aof_buffer_length", lag, out);
    zeros(&["aof_pending_bio_fsync", "aof_delayed_fsync"], out);
    line("journal_durability", journal.durability.name(), out);
    line("journal_folder", journal.folder.display(), out);
    line("journal_position", journal.head, out);
    line("journal_durable_position", journal.durable, out);
    line("journal_lag_bytes", lag, out);
    let age = journal.lag_age as f64 / 1000.0;
    line("journal_lag_sec", format_args!("{age:.3}"), out);
    line("journal_checkpoint_position", journal.checkpoint, out);
    line("journal_checkpoint_bytes", journal.checkpoint_bytes, out);
    let age = journal.checkpoint_age.map(|age| (age / 1000) as i64);
    line("journal_checkpoint_age_sec", age.unwrap_or(-1), out);
    let error = journal.error.as_deref().unwrap_or_default();
    line("journal_error", error.replace(['\r', '\n'], " "), out);
}

/// Returns the time of the last checkpoint or snapshot in Unix seconds. For a store without one,
/// this is the start time of the process, because monitoring tools would interpret 0 as an overdue
/// save.
pub(crate) fn last_save(context: &Context<'_>) -> i64 {
    let journal = context.store.store().journal();
    let checkpoint = journal.and_then(|journal| journal.checkpoint_age);
    let checkpoint =
        checkpoint.map(|age| (context.host.now_microseconds() / 1000 - age as i64) / 1000);
    let last = checkpoint.max(context.host.process.checkpoints.last_file());
    last.unwrap_or(context.host.process.started / 1000)
}
