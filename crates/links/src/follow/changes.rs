//! Applies the changes of a source, which arrive as commands.
//!
//! Commands that have arrived together are applied as one transaction, which also records the place
//! in the stream after them. A transaction of the source is never divided.

use std::thread;
use std::time::{Duration, Instant};

use undercroft_commands::context::Host;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::{Login, Session};
use undercroft_commands::{Context, execute};
use undercroft_engine::{AppliedPosition, DATABASES, Store};
use undercroft_resp::{Limits, Parsed, RequestParser};

use crate::follow::error::{FollowError, is_lack_of_space};
use crate::follow::filter::Effect;
use crate::follow::newer::{self, Known};
use crate::follow::part::Part;
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
    part: &'a dyn Part,
    /// Whether fields of hashes lose their expiries.
    drops_expiry: bool,
    host: Host<'a>,
    state: &'a FollowState,
    stops: &'a dyn Fn() -> bool,
    session: Session,
    parser: RequestParser,
    /// The place after the last command that has arrived.
    position: AppliedPosition,
    /// The place that the store has recorded.
    recorded: AppliedPosition,
    /// The number of commands in the current transaction.
    queued: usize,
    /// The commands of the current transaction as they arrived, also those that do not apply. They are
    /// queued again if there was no space to apply them, or if their keys have moved.
    pending: Vec<u8>,
    /// The database that was selected before the current transaction.
    begun_in: usize,
    /// Whether the commands of the current transaction must be queued again.
    must_requeue: bool,
    /// Whether the transaction is one of the source.
    is_source_transaction: bool,
    /// Whether the source has asked for the position.
    pub(super) wants_position: bool,
}

impl<'a> Changes<'a> {
    pub(super) fn new(
        (store, part, drops_expiry): (&'a Store, &'a dyn Part, bool),
        host: Host<'a>,
        state: &'a FollowState,
        stops: &'a dyn Fn() -> bool,
        position: AppliedPosition,
    ) -> Result<Changes<'a>, FollowError> {
        let mut changes = Changes {
            store,
            part,
            drops_expiry,
            host,
            state,
            stops,
            session: Session::new(0, Login::trusted(), 0),
            parser: RequestParser::new(Limits::default()),
            position,
            recorded: position,
            queued: 0,
            pending: Vec::new(),
            begun_in: 0,
            must_requeue: false,
            is_source_transaction: false,
            wants_position: false,
        };
        changes.select(position.database)?;
        Ok(changes)
    }

    /// Applies all complete commands at the beginning of the input. Returns the number of bytes that
    /// were consumed, even if it fails. After [`FollowError::NoSpace`], the next call continues with
    /// the commands that could not be applied.
    pub(super) fn apply(&mut self, input: &[u8]) -> (usize, Result<(), FollowError>) {
        let mut at = 0;
        let applied = self.apply_from(input, &mut at);
        (at, applied)
    }

    fn apply_from(&mut self, input: &[u8], at: &mut usize) -> Result<(), FollowError> {
        if self.must_requeue {
            self.commit()?;
        }
        loop {
            // After an error, parsing begins at a command again.
            let mut parser = std::mem::take(&mut self.parser);
            let parsed = parser.parse(&input[*at..]);
            let parsed = parsed.map_err(|error| FollowError::Protocol(format!("{error:?}")))?;
            match parsed {
                Parsed::Command(length) => {
                    let bytes = &input[*at..*at + length];
                    let words: Vec<&[u8]> = parser.args(bytes).iter().collect();
                    if self.is_apart(&words) {
                        self.commit()?;
                    }
                    if self.is_alone(&words) {
                        self.run_alone(&words, length as u64)?;
                        *at += length;
                    } else {
                        *at += length;
                        self.command(&words, bytes)?;
                    }
                }
                Parsed::Ignored(length) => {
                    *at += length;
                    self.position.offset += length as u64;
                }
                Parsed::Incomplete { .. } => {
                    self.parser = parser;
                    break;
                }
            }
            self.parser = parser;
        }
        if !self.is_source_transaction {
            self.commit()?;
        }
        Ok(())
    }

    /// Returns the place up to which all changes are applied.
    pub(super) fn applied(&self) -> AppliedPosition {
        match self.queued == 0 && !self.is_source_transaction {
            true => self.position,
            false => self.recorded,
        }
    }

    /// Records the place in the stream if no change has recorded it, because only commands without
    /// a change have arrived since.
    pub(super) fn record_position(&mut self) -> Result<(), FollowError> {
        if self.queued == 0 && !self.is_source_transaction && self.recorded != self.position {
            let access = self.store.access();
            let noted = match self.part.lane() {
                None => access.note_applied(self.position),
                Some(lane) => access.note_applied_in(lane, self.position),
            };
            match noted {
                // The next change records it.
                Err(error) if is_lack_of_space(&error) => return Ok(()),
                noted => noted?,
            }
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

    /// Returns whether the transaction before a command must be committed first, because it must not
    /// record a place after the command.
    fn is_apart(&self, words: &[&[u8]]) -> bool {
        is(words, "MULTI") || self.is_alone(words) || self.selects(words)
    }

    /// Returns whether a command runs outside of transactions. Running it twice has no further effect.
    fn is_alone(&self, words: &[&[u8]]) -> bool {
        !self.is_source_transaction && (is(words, "FUNCTION") || is(words, "SCRIPT"))
    }

    /// Returns whether a command selects a database outside of a source's transaction.
    fn selects(&self, words: &[&[u8]]) -> bool {
        !self.is_source_transaction && is(words, "SELECT")
    }

    /// Runs a command that is not part of a transaction.
    fn run_alone(&mut self, words: &[&[u8]], length: u64) -> Result<(), FollowError> {
        if !self.part.has_libraries() {
            self.position.offset += length;
            return Ok(());
        }
        let reply = self.run(words)?;
        if let Tree::Error(text) = &reply
            && is_no_space(text)
        {
            return Err(FollowError::NoSpace(text.to_string()));
        }
        self.check(words[0], &reply)?;
        self.position.offset += length;
        self.count(1);
        self.record_position()
    }

    /// Applies or queues a command, which has these bytes in the stream.
    fn command(&mut self, words: &[&[u8]], bytes: &[u8]) -> Result<(), FollowError> {
        let is = |name| is(words, name);
        self.position.offset += bytes.len() as u64;
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
            let database = selected(words)?;
            if database != 0 && self.part.lane().is_some() {
                return Err(FollowError::Unsupported(format!(
                    "SELECT {database}, although only database 0 of a cluster can be followed"
                )));
            }
            self.position.database = database;
            if !self.is_source_transaction {
                return self.select(database);
            }
        }
        if self.pending.is_empty() {
            self.begun_in = self.session.database as usize;
            self.part.begin();
        }
        self.queue_known(self.position, words)?;
        self.pending.extend_from_slice(bytes);
        if self.queued >= COMMANDS_MAX && !self.is_source_transaction {
            return self.commit();
        }
        Ok(())
    }

    /// Adds the part of a command that applies to the current transaction. The command ends at a
    /// place in the stream.
    fn queue_known(&mut self, place: AppliedPosition, words: &[&[u8]]) -> Result<(), FollowError> {
        match newer::known(words, self.drops_expiry) {
            Known::Same if self.part.is_all() => self.queue(words),
            Known::Same => self.queue_part(place, words),
            Known::As(words) => self.queue_part(place, &words),
            Known::Dropped => Ok(()),
        }
    }

    fn queue_part(&mut self, place: AppliedPosition, words: &[&[u8]]) -> Result<(), FollowError> {
        let effect = self.part.effect(place, words)?;
        self.queue_effect(words, effect)
    }

    fn queue_effect(&mut self, words: &[&[u8]], effect: Effect) -> Result<(), FollowError> {
        match effect {
            Effect::Nothing => Ok(()),
            Effect::Whole => self.queue(words),
            Effect::Part(part) => {
                let part: Vec<&[u8]> = part.iter().map(Vec::as_slice).collect();
                self.queue(&part)
            }
            Effect::Anew(keys, effect) => {
                let keys = keys.iter().map(Vec::as_slice);
                let removal: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(keys).collect();
                self.queue(&removal)?;
                self.queue_effect(words, *effect)
            }
            Effect::Unknown => {
                let name = words[0].escape_ascii().to_string();
                Err(FollowError::Unfiltered(name))
            }
        }
    }

    /// Adds a command to the current transaction.
    fn queue(&mut self, words: &[&[u8]]) -> Result<(), FollowError> {
        if self.queued == 0 {
            self.run(&[b"MULTI"])?;
        }
        let reply = self.run(words)?;
        self.queued += 1;
        if let Tree::Error(text) = &reply {
            // The command was not queued, so the transaction would be incomplete.
            self.run(&[b"DISCARD"])?;
            self.forget_queued();
            return Err(FollowError::Unsupported(format!(
                "{}: {text}",
                words[0].escape_ascii()
            )));
        }
        Ok(())
    }

    fn forget_queued(&mut self) {
        self.queued = 0;
        self.pending.clear();
        self.must_requeue = false;
    }

    /// Queues the commands of a transaction again that could not be applied.
    fn requeue(&mut self) -> Result<(), FollowError> {
        let pending = std::mem::take(&mut self.pending);
        let begun_in = self.begun_in;
        self.forget_queued();
        self.begun_in = begun_in;
        self.select(begun_in)?;
        self.part.begin();
        let mut place = AppliedPosition {
            database: begun_in,
            ..self.position
        };
        let (mut parser, mut at) = (RequestParser::new(Limits::default()), 0);
        while let Ok(Parsed::Command(length)) = parser.parse(&pending[at..]) {
            let words: Vec<&[u8]> = parser.args(&pending[at..]).iter().collect();
            if is(&words, "SELECT") {
                place.database = selected(&words)?;
            }
            self.queue_known(place, &words)?;
            at += length;
        }
        self.pending = pending;
        Ok(())
    }

    /// Commits the current transaction.
    fn commit(&mut self) -> Result<(), FollowError> {
        if self.must_requeue {
            self.requeue()?;
        }
        let reply = loop {
            if self.queued == 0 {
                self.forget_queued();
                return Ok(());
            }
            self.session.set_applied(self.part.lane(), self.position);
            let (part, mut reply) = (self.part, Tree::Null);
            let is_valid = part.commit(&mut || {
                reply = self.run(&[b"EXEC"])?;
                Ok(())
            })?;
            if is_valid {
                break reply;
            }
            self.run(&[b"DISCARD"])?;
            self.requeue()?;
        };
        match &reply {
            Tree::Array(replies) => {
                for reply in replies {
                    self.check(b"", reply)?;
                }
            }
            Tree::Error(text) if is_no_space(text) => {
                self.must_requeue = true;
                return Err(FollowError::NoSpace(text.to_string()));
            }
            Tree::Error(text) => return Err(FollowError::Unsupported(text.to_string())),
            _ => {}
        }
        let count = self.queued as u64;
        self.forget_queued();
        self.recorded = self.position;
        self.count(count);
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

/// Returns the database that SELECT names.
fn selected(words: &[&[u8]]) -> Result<usize, FollowError> {
    let number = words.get(1).and_then(|word| std::str::from_utf8(word).ok());
    let number = number.and_then(|text| text.parse::<usize>().ok());
    number.filter(|&number| number < DATABASES).ok_or_else(|| {
        FollowError::Unsupported(format!(
            "SELECT of a database that does not exist; a store has {DATABASES}"
        ))
    })
}

/// Returns whether a command has this name.
fn is(words: &[&[u8]], name: &str) -> bool {
    words[0].eq_ignore_ascii_case(name.as_bytes())
}

/// Returns whether an error says that the store has no memory, or its journal no space.
fn is_no_space(text: &str) -> bool {
    text.contains("OOM ") || text.contains("MISCONF ")
}
