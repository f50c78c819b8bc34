//! Applies the changes of a source, which arrive as commands.
//!
//! Commands that have arrived together are applied as one transaction, which also records the place
//! in the stream after them. A transaction of the source is never divided.

use std::thread;
use std::time::{Duration, Instant};

use undercroft_commands::context::Host;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_commands::{Context, execute};
use undercroft_engine::{AppliedPosition, DATABASES, Store};
use undercroft_resp::{Limits, Parsed, RequestParser};

use crate::follow::error::FollowError;
use crate::follow::state::FollowState;

/// The maximum number of commands that are applied as one transaction.
const COMMANDS_MAX: usize = 32;
/// The level of warnings in the process's log.
const WARNING: u8 = 3;
/// The pause before a transaction is tried again that found a lock held.
const AGAIN: Duration = Duration::from_millis(1);

/// The session in which a source's changes are applied.
pub(super) struct Changes<'a> {
    store: &'a Store,
    host: Host<'a>,
    state: &'a FollowState,
    stops: &'a dyn Fn() -> bool,
    session: Session,
    parser: RequestParser,
    /// The place after the last command that has arrived.
    pub(super) position: AppliedPosition,
    /// The place that the store has recorded.
    recorded: AppliedPosition,
    /// The number of commands in the current transaction.
    queued: usize,
    /// Whether the transaction is one of the source.
    is_source_transaction: bool,
    /// Whether the source has asked for the position.
    pub(super) wants_position: bool,
}

impl<'a> Changes<'a> {
    pub(super) fn new(
        store: &'a Store,
        host: Host<'a>,
        state: &'a FollowState,
        stops: &'a dyn Fn() -> bool,
        position: AppliedPosition,
    ) -> Result<Changes<'a>, FollowError> {
        let mut changes = Changes {
            store,
            host,
            state,
            stops,
            session: Session::new(0, Some("default".into()), 0),
            parser: RequestParser::new(Limits::default()),
            position,
            recorded: position,
            queued: 0,
            is_source_transaction: false,
            wants_position: false,
        };
        changes.select(position.database)?;
        Ok(changes)
    }

    /// Applies all complete commands at the beginning of the input. Returns the number of bytes that
    /// were consumed.
    pub(super) fn apply(&mut self, input: &[u8]) -> Result<usize, FollowError> {
        let mut at = 0;
        loop {
            let mut parser = std::mem::take(&mut self.parser);
            let parsed = parser.parse(&input[at..]);
            let parsed = parsed.map_err(|error| FollowError::Protocol(format!("{error:?}")))?;
            let outcome = match parsed {
                Parsed::Command(length) => {
                    let words: Vec<&[u8]> = parser.args(&input[at..]).iter().collect();
                    at += length;
                    self.command(&words, length as u64)
                }
                Parsed::Ignored(length) => {
                    at += length;
                    self.position.offset += length as u64;
                    Ok(())
                }
                Parsed::Incomplete { .. } => {
                    self.parser = parser;
                    break;
                }
            };
            self.parser = parser;
            outcome?;
        }
        if !self.is_source_transaction {
            self.commit()?;
        }
        Ok(at)
    }

    /// Records the place in the stream if no change has recorded it, because only commands without
    /// a change have arrived since.
    pub(super) fn record_position(&mut self) -> Result<(), FollowError> {
        if self.queued == 0 && !self.is_source_transaction && self.recorded != self.position {
            self.store.access().note_applied(self.position)?;
            self.recorded = self.position;
        }
        Ok(())
    }

    /// Replaces all function libraries.
    pub(super) fn replace_libraries(&mut self, texts: &[Vec<u8>]) -> Result<(), FollowError> {
        let reply = self.run(&[b"FUNCTION", b"FLUSH"])?;
        // A build without scripts has no libraries, and can follow a source that has none either.
        if !texts.is_empty() {
            self.check(b"FUNCTION FLUSH", &reply)?;
        }
        for text in texts {
            let reply = self.run(&[b"FUNCTION", b"LOAD", text])?;
            self.check(b"FUNCTION LOAD", &reply)?;
        }
        Ok(())
    }

    /// Applies or queues a command, which has this many bytes in the stream.
    fn command(&mut self, words: &[&[u8]], length: u64) -> Result<(), FollowError> {
        let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
        // These commands run outside of transactions. Running them twice has no further effect.
        let is_alone = !self.is_source_transaction && (is("FUNCTION") || is("SCRIPT"));
        if is("MULTI") || is_alone {
            // The transaction before must not record a place after the command.
            self.commit()?;
        }
        if is_alone {
            let reply = self.run(words)?;
            self.check(words[0], &reply)?;
            self.position.offset += length;
            self.count(1);
            return self.record_position();
        }
        self.position.offset += length;
        if is("PING") {
            return Ok(());
        }
        if is("REPLCONF") {
            self.wants_position |= words
                .get(1)
                .is_some_and(|what| what.eq_ignore_ascii_case(b"GETACK"));
            return Ok(());
        }
        if is("MULTI") {
            self.is_source_transaction = true;
            return Ok(());
        }
        if is("EXEC") {
            self.is_source_transaction = false;
            return self.commit();
        }
        if is("SELECT") {
            let number = words.get(1).and_then(|word| std::str::from_utf8(word).ok());
            let number = number.and_then(|text| text.parse::<usize>().ok());
            let database = number.filter(|&number| number < DATABASES).ok_or_else(|| {
                FollowError::Unsupported(format!(
                    "SELECT of a database that does not exist; a store has {DATABASES}"
                ))
            })?;
            self.position.database = database;
            if !self.is_source_transaction {
                self.commit()?;
                return self.select(database);
            }
        }
        if self.queued == 0 {
            self.run(&[b"MULTI"])?;
        }
        let reply = self.run(words)?;
        self.queued += 1;
        if let Tree::Error(text) = &reply {
            // The command was not queued, so the transaction would be incomplete.
            self.run(&[b"DISCARD"])?;
            self.queued = 0;
            return Err(FollowError::Unsupported(format!(
                "{}: {text}",
                words[0].escape_ascii()
            )));
        }
        if self.queued >= COMMANDS_MAX && !self.is_source_transaction {
            return self.commit();
        }
        Ok(())
    }

    /// Commits the current transaction.
    fn commit(&mut self) -> Result<(), FollowError> {
        if self.queued == 0 {
            return Ok(());
        }
        self.session.set_applied(self.position);
        let reply = self.run(&[b"EXEC"])?;
        let count = std::mem::take(&mut self.queued);
        match &reply {
            Tree::Array(replies) => {
                for reply in replies {
                    self.check(b"", reply)?;
                }
            }
            // Nothing was applied, such as for lack of memory.
            Tree::Error(text) => return Err(FollowError::Unsupported(text.to_string())),
            _ => {}
        }
        self.recorded = self.position;
        self.count(count as u64);
        Ok(())
    }

    fn count(&self, changes: u64) {
        let offset = self.position.offset;
        self.state.update(|progress| {
            progress.changes += changes;
            progress.offset = offset;
        });
    }

    /// Counts a change that failed. The source made it, so the store now differs.
    fn check(&self, name: &[u8], reply: &Tree) -> Result<(), FollowError> {
        if let Tree::Error(text) = reply {
            let text = match name {
                b"" => text.to_string(),
                name => format!("{}: {text}", name.escape_ascii()),
            };
            let text = format!("a change of the source failed: {text}");
            self.host.control.log(WARNING, text.as_bytes());
            self.state.update(|progress| {
                progress.failed_changes += 1;
                progress.error = Some(text);
            });
        }
        Ok(())
    }

    fn select(&mut self, database: usize) -> Result<(), FollowError> {
        let number = database.to_string();
        self.run(&[b"SELECT", number.as_bytes()]).map(drop)
    }

    /// Runs a command. While another process holds a lock, tries again.
    fn run(&mut self, words: &[&[u8]]) -> Result<Tree, FollowError> {
        let start = Instant::now();
        loop {
            let mut reply = Recorder::new();
            let outcome = {
                let mut context = Context::new(&mut self.session, self.host, self.store);
                execute(&mut context, words, &mut reply)
            };
            let Err(blocked) = outcome else {
                self.session.finish_command();
                let replies = reply.finish().unwrap_or_default();
                return Ok(replies.into_iter().next().unwrap_or(Tree::Null));
            };
            if (self.stops)() {
                return Err(FollowError::Stopped);
            }
            self.state.update(|progress| {
                let seconds = start.elapsed().as_secs();
                progress.error = Some(format!("waiting for {seconds} s: {blocked}"));
            });
            thread::sleep(AGAIN);
        }
    }
}
