//! Implements the commands that make changes durable: SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE and
//! WAITAOF. The durability mode itself is changed with CONFIG SET.
//!
//! A checkpoint takes the place of both an RDB snapshot and a rewritten append-only file. If the
//! operator chose a folder for snapshots, SAVE and BGSAVE also write one, after the checkpoint of a
//! store with a journal.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use undercroft_engine::{Durability, Error, Store, Terms, is_patience_limited};
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry, SnapshotFile};
use crate::failure::{Blocked, Failure, Outcome};
use crate::handlers::server::info;
use crate::reply::Reply;
use crate::statistics::checkpoints::Checkpoints;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("save", save),
    ("bgsave", bgsave),
    ("bgrewriteaof", bgrewriteaof),
    ("lastsave", lastsave),
    ("waitaof", waitaof),
];

/// The error for a checkpoint of a store without a journal.
const NO_JOURNAL: CommandError = CommandError::fixed(
    "ERR the store has no journal, so there is nothing to write a checkpoint to: begin one with \
     CONFIG SET appendonly yes, or start the server with a folder for dump.rdb (dir)",
);
/// Redis' error for a snapshot that begins while another one is being written.
const SAVING: CommandError = CommandError::fixed("ERR Background save already in progress");
/// Redis' error for an append-only file that is already being rewritten.
const REWRITING: CommandError =
    CommandError::fixed("ERR Background append only file rewriting already in progress");

/// Requests that a command that takes long runs on a thread of its own. Returns immediately if it
/// already does, if it runs in a program that embeds the store and outside of an event loop, or if
/// EXEC runs it, because EXEC cannot be retried after the commit.
pub(crate) fn take_own_thread(context: &Context<'_>) -> Result<(), Failure> {
    let session = &context.session;
    let may_take_long = (session.is_embedded() && !is_patience_limited())
        || session.scripts.has_own_thread
        || session.transaction.queue.is_some();
    match may_take_long {
        true => Ok(()),
        false => Err(Failure::Blocked(Blocked::Long)),
    }
}

/// Changes the durability mode of the store. Beginning a journal takes as long as a checkpoint.
pub(super) fn change_mode(context: &Context<'_>, mode: Durability) -> Result<(), Error> {
    let store = context.store.store();
    // The served store's handle is impatient, and a checkpoint is given up if it has to wait.
    let patient = Store::open(store.path(), true)?;
    let terms = Terms {
        journal: context.host.control.journal_folder(),
        ..Terms::default()
    };
    patient.set_durability(mode, &terms)
}

/// The reason why a checkpoint or a snapshot failed.
enum SaveFailure {
    Checkpoint(Error),
    /// The error reply.
    Snapshot(String),
}

impl From<SaveFailure> for Failure {
    fn from(failure: SaveFailure) -> Failure {
        match failure {
            SaveFailure::Checkpoint(error) => Failure::from(error).into_error().into(),
            SaveFailure::Snapshot(text) => CommandError::new(text).into(),
        }
    }
}

/// Begins a checkpoint on a thread of its own, which calls `ended` with whether it is complete.
/// Returns `in_progress` if a process is writing one already.
fn begin_checkpoint(
    context: &Context<'_>,
    in_progress: CommandError,
    ended: impl FnOnce(Result<(), Error>) + Send + 'static,
) -> Result<(), Failure> {
    let store = context.store.store();
    let is_writing = || {
        let journal = store.journal();
        journal.map(|journal| journal.is_checkpointing)
    };
    match is_writing() {
        None => return Err(NO_JOURNAL.into()),
        Some(true) => return Err(in_progress.into()),
        Some(false) => {}
    }
    match store.begin_checkpoint(ended) {
        Err(error) if error.is_busy() && is_writing() == Some(true) => Err(in_progress.into()),
        begun => Ok(begun?),
    }
}

/// A snapshot that is being written to a file.
struct Snapshot {
    file: Arc<dyn SnapshotFile>,
    store: PathBuf,
    checkpoints: Arc<Checkpoints>,
    clock: fn() -> i64,
}

impl Snapshot {
    fn write(&self) -> Result<(), SaveFailure> {
        // The served store's handle is impatient, and a snapshot waits for other copies to end.
        let store = Store::open(&self.store, true).map_err(SaveFailure::Checkpoint)?;
        self.file.write(&store).map_err(SaveFailure::Snapshot)
    }
}

/// Begins a checkpoint, a snapshot, or both, on a thread of its own, which calls `ended` with the
/// result.
fn begin_save(
    context: &Context<'_>,
    ended: impl FnOnce(Result<(), SaveFailure>) + Send + 'static,
) -> Result<(), Failure> {
    let (checkpoints, start) = (context.host.process.checkpoints.clone(), Instant::now());
    let Some(file) = context.host.control.snapshot_file() else {
        return begin_checkpoint(context, SAVING, move |result| {
            checkpoints.note(start, result.is_ok());
            ended(result.map_err(SaveFailure::Checkpoint));
        });
    };
    let store = context.store.store();
    let snapshot = Snapshot {
        file,
        store: store.path().to_owned(),
        checkpoints,
        clock: context.host.process.clock(),
    };
    if !snapshot.checkpoints.begin_file() {
        return Err(SAVING.into());
    }
    let checkpoints = Arc::clone(&snapshot.checkpoints);
    let after = move |checkpoint: Result<(), Error>| {
        let written = checkpoint.map_err(SaveFailure::Checkpoint);
        let written = written.and_then(|()| snapshot.write());
        let saved = written.is_ok().then(|| (snapshot.clock)() / 1_000_000);
        snapshot.checkpoints.end_file(saved);
        snapshot.checkpoints.note(start, written.is_ok());
        ended(written);
    };
    let begun = match store.journal() {
        Some(_) => begin_checkpoint(context, SAVING, after),
        None => thread::Builder::new()
            .name("save".to_owned())
            .spawn(move || after(Ok(())))
            .map(drop)
            .map_err(|error| CommandError::new(format!("ERR starting a thread: {error}")).into()),
    };
    if begun.is_err() {
        checkpoints.end_file(None);
    }
    begun
}

/// Handles SAVE, which replies once the checkpoint or the snapshot is complete.
fn save(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    take_own_thread(context)?;
    let (sender, receiver) = sync_channel(1);
    begin_save(context, move |result| {
        // If the caller is gone, the result is in the statistics.
        let _ = sender.send(result);
    })?;
    let mut result = None;
    // Programs that embed the store may run other threads in the meantime.
    context
        .store
        .store()
        .run_script(&mut || result = receiver.recv().ok());
    match result {
        Some(Ok(())) => {
            reply.ok();
            Ok(())
        }
        Some(Err(failure)) => Err(failure.into()),
        None => Err(CommandError::fixed("ERR the thread that was saving the store ended").into()),
    }
}

/// Handles BGSAVE.
fn bgsave(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if !matches!(&arguments[1..], [] | [_])
        || arguments
            .get(1)
            .is_some_and(|word| !is_keyword(word, "SCHEDULE"))
    {
        return Err(CommandError::SYNTAX.into());
    }
    // Only INFO and the log show the result.
    begin_save(context, |_| {})?;
    reply.simple(match context.session.transaction.queue {
        None => "Background saving started",
        Some(_) => "Background saving scheduled",
    });
    Ok(())
}

/// Handles BGREWRITEAOF.
fn bgrewriteaof(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (checkpoints, start) = (context.host.process.checkpoints.clone(), Instant::now());
    begin_checkpoint(context, REWRITING, move |result| {
        checkpoints.note(start, result.is_ok());
    })?;
    reply.simple(match context.session.transaction.queue {
        None => "Background append only file rewriting started",
        Some(_) => "Background append only file rewriting scheduled",
    });
    Ok(())
}

/// Handles LASTSAVE. For a store without a checkpoint, the reply matches that of a Redis server that
/// has not saved since it started.
fn lastsave(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.integer(info::persistence::last_save(context));
    Ok(())
}

/// Handles WAITAOF, which makes all earlier changes durable. There are no replicas to wait for.
fn waitaof(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    const TIMEOUT: &str = "ERR timeout is not an integer or out of range";
    let number = |argument: &[u8]| parse_integer(argument).ok_or(CommandError::NOT_AN_INTEGER);
    let local = number(arguments[1])?;
    if !(0..=1).contains(&local) {
        return Err(
            CommandError::fixed("ERR value is out of range, value must between 0 and 1").into(),
        );
    }
    if number(arguments[2])? < 0 {
        return Err(CommandError::fixed("ERR value is out of range, must be positive").into());
    }
    let timeout = parse_integer(arguments[3]).ok_or(CommandError::fixed(TIMEOUT))?;
    let timeout =
        u64::try_from(timeout).map_err(|_| CommandError::fixed("ERR timeout is negative"))?;
    let store = context.store.store();
    let position = store.journal_head();
    if local == 1 && position == 0 {
        return Err(CommandError::fixed(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        )
        .into());
    }
    let is_durable = match local == 1 && !context.store.is_running() {
        true => wait(store, position, timeout)?,
        // As in Redis, a call within EXEC does not wait.
        false => position != 0 && store.is_durable(position),
    };
    reply.array(2);
    reply.integer(is_durable.into());
    reply.integer(0);
    Ok(())
}

/// Waits until a position is durable, at most for `timeout` milliseconds. 0 stands for the timeout
/// of locks, which a wait exceeds only if another process is stopped. Returns whether the position
/// is durable.
///
/// On a server and in a group, the reply waits instead, so that no other connection is delayed. If
/// the wait fails, the reply is never sent.
fn wait(store: &Store, position: u64, timeout: u64) -> Result<bool, Failure> {
    if store.defer_until(position) {
        return Ok(true);
    }
    let patience = match timeout {
        0 => store.patience(),
        timeout => Duration::from_millis(timeout),
    };
    match store.wait_until_durable(position, patience) {
        Ok(()) => Ok(true),
        Err(error) if error.is_busy() && timeout != 0 => Ok(false),
        Err(error) => Err(error.into()),
    }
}
