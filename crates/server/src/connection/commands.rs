//! Runs one turn of a connection: parses and executes the commands in its input.
//!
//! Several commands of a pipeline are parsed before the first of them runs, so that their keys can
//! be prefetched together. Otherwise, each command waits for memory separately. If the keys do not
//! fit into the CPU caches, these waits take most of a command's time.

use std::time::Instant;

use smallvec::SmallVec;
use undercroft_commands::protocol::Protocol;
use undercroft_commands::session::ReplyMode;
use undercroft_commands::table::find;
use undercroft_commands::{Blocked, Context, Failure, execute};
use undercroft_resp::{Parsed, ProtocolError, RequestParser, Span};

use crate::connection::incoming::{self, Incoming};
use crate::connection::writer::Writer;
use crate::shared::hub;
use crate::shared::limits::Limits;
use crate::shared::long_scripts::{self, is_of_scripts};
use crate::shared::state::Shared;
use crate::shared::tracking::Push;

/// The maximum number of batches in a turn, so that other connections get their turns.
const BATCHES_A_TURN: usize = 64;
/// The number of reply bytes after which a turn ends, so that the replies are sent before more are
/// produced.
const OUTPUT_A_TURN: usize = 256 * 1024;
/// The number of commands that are parsed before the first of them runs.
const BATCH: usize = 16;
/// The initial capacity for a command's arguments, which suffices for most commands.
const ARGUMENTS: usize = 16;
/// The maximum argument capacity that is kept for the next batch.
const KEPT_ARGUMENTS: usize = 4096;
/// The minimum number of commands for which prefetching is worthwhile.
const WORTH_WARMING: usize = 3;

/// The reason why a turn ended.
pub(crate) enum TurnEnd {
    /// All complete commands were executed. The next command needs at least `wanted` more bytes.
    Used { wanted: usize },
    /// The turn has reached a limit. The input may contain more commands.
    More,
    /// The connection must be closed.
    Closing,
    /// The next command cannot run yet: another process holds a lock, commands are paused, or the
    /// command is a long script.
    Blocked(Blocked),
    /// The last command is waiting for an item in its keys.
    Waiting,
    /// The connection becomes a replica.
    Replica,
}

/// The state of one turn of a connection.
pub(crate) struct Turn<'a> {
    pub(crate) writer: Writer,
    pub(crate) context: Context<'a>,
    pub(crate) parser: &'a mut RequestParser,
    /// The command whose value is being received, possibly over several turns.
    pub(crate) incoming: &'a mut Option<Incoming>,
    pub(crate) limits: &'a Limits,
    /// Whether to prefetch keys. False if a lock has been held for a long time, because prefetching
    /// would wait for that lock.
    pub(crate) warms: bool,
    /// Whether the connection is encrypted, so that its bytes cannot be received into the store.
    pub(crate) is_encrypted: bool,
    pub(crate) shared: &'a Shared,
}

/// Commands that have been parsed but not executed. The next batch reuses the memory.
#[derive(Default)]
pub(crate) struct Batch {
    /// The positions of the arguments, relative to the start of the batch's input.
    arguments: Vec<Span>,
    /// For each command, the offset at which its bytes end and the index at which its arguments
    /// end.
    commands: Vec<(usize, usize)>,
    /// The total length, in bytes, of the commands in the batch and the empty lines between them.
    length: usize,
}

impl Batch {
    fn clear(&mut self) {
        self.arguments.clear();
        self.arguments.shrink_to(KEPT_ARGUMENTS);
        self.commands.clear();
        self.length = 0;
    }
}

/// The content of the input after a batch.
enum InputRemainder {
    /// Possibly more complete commands.
    More,
    /// An inline command. Its arguments remain in the parser until it is executed.
    Inline,
    /// An incomplete command that needs at least `wanted` more bytes.
    Incomplete { wanted: usize },
    /// Bytes that are not a valid command.
    Broken(ProtocolError),
}

/// The result of running a command.
enum CommandEnd {
    /// The next command can run.
    On,
    /// The limits have changed, so commands that have already been parsed must be parsed again.
    Again,
    /// The command is waiting for an item in its keys. The next command runs after its reply.
    Waits,
    /// The connection must be closed.
    Closing,
    /// The connection becomes a replica.
    Replica,
}

/// Returns whether a command may access a field or a member, as hash, set, sorted set and geo
/// commands do. Checking the first letter rules out most other commands, and checking the length
/// rules out GET and SET.
fn may_have_element(name: &[u8]) -> bool {
    name.len() > 3 && matches!(name[0] | 0x20, b'g' | b'h' | b's' | b'z')
}

/// Returns whether a command is EVAL, EVALSHA or FCALL. In these commands, the first key follows
/// the number of keys. Other commands that pass this check, such as ECHO, have no argument at that
/// position.
fn is_script(name: &[u8]) -> bool {
    matches!(name, [b'e' | b'E' | b'f' | b'F', rest @ ..] if matches!(rest.len(), 3 | 4 | 6))
}

impl Turn<'_> {
    /// Runs commands from the start of `input`. Returns the number of consumed bytes and the reason
    /// why the turn ended.
    pub(crate) fn commands(&mut self, input: &[u8], batch: &mut Batch) -> (usize, TurnEnd) {
        if self.incoming.is_some()
            && let Some(end) = self.run_received()
        {
            return (0, end);
        }
        let mut used = 0;
        for _ in 0..BATCHES_A_TURN {
            if self.shared.stopping() {
                break;
            }
            if let Some(end) = self.look_up_user() {
                return (used, end);
            }
            let rest = &input[used..];
            batch.clear();
            let behind = self.parse(rest, batch);
            self.context.begin_batch();
            self.warm(rest, batch);
            let ended = self.run(rest, batch);
            self.context.end_batch();
            if let Some((length, end)) = ended {
                return (used + length, end);
            }
            used += batch.length;
            match behind {
                InputRemainder::More => {}
                InputRemainder::Incomplete { wanted } => {
                    if wanted >= incoming::REST && self.receives(&input[used..]) {
                        used = input.len();
                    }
                    return (used, TurnEnd::Used { wanted });
                }
                InputRemainder::Broken(error) => {
                    self.refuse(&error);
                    return (used, TurnEnd::Closing);
                }
                InputRemainder::Inline => match self.inline(&input[used..]) {
                    (length, None) => used += length,
                    (length, Some(end)) => return (used + length, end),
                },
            }
        }
        (used, TurnEnd::More)
    }

    /// Looks up the user of the connection again, if the users have changed. If no command may run
    /// now, returns the reason.
    #[inline]
    fn look_up_user(&mut self) -> Option<TurnEnd> {
        let was_admitted = self.context.session.login.is_admitted();
        match self.context.look_up_user() {
            Ok(()) if self.context.session.login.has_ended() => return Some(TurnEnd::Closing),
            Ok(()) => {}
            Err(Failure::Blocked(blocked)) => return Some(TurnEnd::Blocked(blocked)),
            Err(Failure::Reply(error)) => {
                error.write(&mut self.writer);
                return Some(TurnEnd::Closing);
            }
        }
        if was_admitted != self.context.session.login.is_admitted() {
            // The limits of the parser depend on whether the client is authenticated.
            self.parse_again();
        }
        None
    }

    /// Runs the command whose value has been received, if the value is complete. If the turn ends,
    /// returns the reason.
    #[cold]
    fn run_received(&mut self) -> Option<TurnEnd> {
        if let Some(end) = self.look_up_user() {
            return Some(end);
        }
        let Some(mut whole) = self.incoming.take_if(|incoming| incoming.is_whole()) else {
            return Some(TurnEnd::Used { wanted: 1 });
        };
        self.context.begin_batch();
        let key = whole.key().to_vec();
        let ran = self.step(&[b"SET", &key, b""], |context, reply| {
            whole.run(context, reply)
        });
        self.context.end_batch();
        match ran {
            Ok(CommandEnd::On | CommandEnd::Again) => None,
            Ok(CommandEnd::Closing) => Some(TurnEnd::Closing),
            Ok(CommandEnd::Waits) => Some(TurnEnd::Waiting),
            Ok(CommandEnd::Replica) => Some(TurnEnd::Replica),
            Err(blocked) => {
                *self.incoming = Some(whole);
                Some(TurnEnd::Blocked(blocked))
            }
        }
    }

    /// Starts receiving the value of the incomplete command in `input` directly into the store, if
    /// the command qualifies. Returns whether it does.
    fn receives(&mut self, input: &[u8]) -> bool {
        if !self.warms || self.is_encrypted || self.shared.pause.is_set() {
            return false;
        }
        let store = self.shared.store();
        *self.incoming = Incoming::begin(&store, &self.context, self.parser, input, self.limits);
        if self.incoming.is_some() {
            self.parse_again();
        }
        self.incoming.is_some()
    }

    /// Runs the commands of a batch. If a command ends the turn, returns the number of consumed
    /// bytes and the reason.
    #[inline]
    fn run(&mut self, input: &[u8], batch: &Batch) -> Option<(usize, TurnEnd)> {
        let mut start = 0;
        let mut arguments: Vec<&[u8]> = Vec::with_capacity(ARGUMENTS);
        for &(end, arguments_end) in &batch.commands {
            let places = &batch.arguments[start..arguments_end];
            start = arguments_end;
            arguments.clear();
            arguments.extend(places.iter().map(|place| &input[place.range()]));
            match self.command(&arguments) {
                Ok(CommandEnd::On) if self.goes_on() => {}
                Ok(CommandEnd::On | CommandEnd::Again) => {
                    self.parse_again();
                    return Some((end, TurnEnd::More));
                }
                Ok(CommandEnd::Closing) => return Some((end, TurnEnd::Closing)),
                Ok(CommandEnd::Replica) => return Some((end, TurnEnd::Replica)),
                Ok(CommandEnd::Waits) => {
                    self.parse_again();
                    return Some((end, TurnEnd::Waiting));
                }
                Err(blocked) => {
                    self.parse_again();
                    return Some((self.before(batch, end), TurnEnd::Blocked(blocked)));
                }
            }
        }
        None
    }

    /// Returns whether the turn continues after a command. A pipeline can run for a very long time,
    /// so the turn ends once too many reply bytes are unsent, after a script on a separate thread,
    /// and when the server is stopping.
    fn goes_on(&self) -> bool {
        self.writer.out.len() <= OUTPUT_A_TURN
            && !self.shared.stopping()
            && !self.context.session.scripts.has_own_thread
    }

    /// Returns the start of the command that ends at offset `end`.
    fn before(&self, batch: &Batch, end: usize) -> usize {
        let ends = batch.commands.iter().map(|(end, _)| *end);
        ends.take_while(|other| *other < end).last().unwrap_or(0)
    }

    /// Discards the commands that have been parsed but not executed. They are parsed again after
    /// the last executed command.
    fn parse_again(&mut self) {
        *self.parser = RequestParser::new(self.limits.of_parser(self.context.session));
    }

    /// Parses multibulk commands until the batch is full. Before login, a batch has only one
    /// command, because that command could be the login, which changes the limits.
    #[inline]
    fn parse(&mut self, input: &[u8], batch: &mut Batch) -> InputRemainder {
        let most = if self.context.session.login.is_admitted() {
            BATCH
        } else {
            1
        };
        while batch.commands.len() < most {
            let rest = &input[batch.length..];
            if rest.first().is_some_and(|first| *first != b'*') {
                return InputRemainder::Inline;
            }
            match self.parser.parse(rest) {
                Ok(Parsed::Command(length)) => {
                    let start = batch.length;
                    let places = self.parser.args(rest).spans().iter();
                    batch.arguments.extend(places.map(|place| Span {
                        start: start + place.start,
                        len: place.len,
                    }));
                    batch.length += length;
                    batch.commands.push((batch.length, batch.arguments.len()));
                }
                Ok(Parsed::Ignored(length)) => batch.length += length,
                Ok(Parsed::Incomplete { wanted }) => return InputRemainder::Incomplete { wanted },
                Err(error) => return InputRemainder::Broken(error),
            }
        }
        InputRemainder::More
    }

    /// Prefetches the first key of each command or script, and then the field or member that the
    /// command accesses.
    #[inline]
    fn warm(&self, input: &[u8], batch: &Batch) {
        if batch.commands.len() < WORTH_WARMING || !self.warms {
            return;
        }
        let mut keys: SmallVec<[&[u8]; BATCH]> = SmallVec::new();
        let mut elements: SmallVec<[(&[u8], &[u8]); BATCH]> = SmallVec::new();
        let mut start = 0;
        for &(_, end) in &batch.commands {
            let argument =
                |index: usize| Some(&input[batch.arguments[start..end].get(index)?.range()]);
            let place = if argument(0).is_some_and(is_script) {
                3
            } else {
                1
            };
            if let Some(key) = argument(place) {
                // Adjacent commands often use the same key. Different keys usually differ in the
                // last byte, so compare that byte first.
                let is_it = |other: &&[u8]| other.last() == key.last() && *other == key;
                if !keys.iter().rev().take(2).any(is_it) {
                    keys.push(key);
                }
                if let Some(name) = argument(0)
                    && may_have_element(name)
                    && let Some(command) = find(name)
                    && command.element > 0
                    && let Some(element) = argument(command.element)
                {
                    elements.push((key, element));
                }
            }
            start = end;
        }
        let (store, database) = (&self.context.store, self.context.database());
        store.warm(database, &keys);
        if !elements.is_empty() {
            store.warm_elements(database, &elements);
        }
    }

    /// Parses and runs one inline command, or skips an empty line. Returns the length of the line
    /// and, if the turn ends, the reason.
    #[cold]
    fn inline(&mut self, input: &[u8]) -> (usize, Option<TurnEnd>) {
        let length = match self.parser.parse(input) {
            Ok(Parsed::Command(length)) => length,
            Ok(Parsed::Ignored(length)) => return (length, None),
            Ok(Parsed::Incomplete { wanted }) => return (0, Some(TurnEnd::Used { wanted })),
            Err(error) => {
                self.refuse(&error);
                return (0, Some(TurnEnd::Closing));
            }
        };
        let texts: Vec<Vec<u8>> = self.parser.args(input).iter().map(<[u8]>::to_vec).collect();
        let arguments: SmallVec<[&[u8]; 8]> = texts.iter().map(Vec::as_slice).collect();
        match self.command(&arguments) {
            Ok(CommandEnd::On) if self.goes_on() => (length, None),
            Ok(CommandEnd::On) => (length, Some(TurnEnd::More)),
            Ok(CommandEnd::Again) => {
                self.parse_again();
                (length, None)
            }
            Ok(CommandEnd::Closing) => (length, Some(TurnEnd::Closing)),
            Ok(CommandEnd::Replica) => (length, Some(TurnEnd::Replica)),
            Ok(CommandEnd::Waits) => (length, Some(TurnEnd::Waiting)),
            Err(blocked) => (0, Some(TurnEnd::Blocked(blocked))),
        }
    }

    /// Replies with an error to bytes that are not a valid command.
    #[cold]
    fn refuse(&mut self, error: &ProtocolError) {
        let before = self.writer.out.len();
        error.reply(&mut self.writer.out);
        let text = String::from_utf8_lossy(&self.writer.out[before + 1..]);
        self.shared.count_error(self.context.session, &text);
    }

    /// Inserts pending messages before a command's reply: messages published before the client
    /// unsubscribed, and messages that the client published to its own channels.
    #[cold]
    fn put_messages(&mut self, before: usize, thread: usize, token: u64, resp3: bool) {
        let mut hub = self.shared.hub(thread);
        hub.collect(false);
        let messages = hub.take_for(token);
        drop(hub);
        // The connection may have lost the right to receive messages that were published since.
        let may_read = self.context.look_up_user().is_ok() && !self.context.session.loses_rights();
        if messages.is_empty() || !may_read {
            return;
        }
        let out = &mut self.writer.out;
        let reply = out.split_off(before);
        messages
            .iter()
            .for_each(|message| hub::append(out, message, resp3));
        out.extend_from_slice(&reply);
    }

    /// Appends the invalidations of all changes that were committed before this call. As in Redis, a
    /// client receives those of its own changes after the reply, and those of earlier changes before
    /// the replies to later commands. The reply to the last command starts at `before`. The
    /// invalidations of keys that were removed to free memory precede it, unless the command read keys:
    /// the reply may contain a value that was removed after the command had read it.
    #[cold]
    fn put_invalidations(&mut self, before: usize) {
        // If a lock is held, the invalidations are sent later.
        let _ = self.shared.collect_changes();
        let session = &*self.context.session;
        self.shared.tell_doubts(session.id);
        let last = session.activity.last_command;
        let may_read = last.is_none_or(|command| command.may_read());
        let pushes = self.shared.tracking.take_for(session.peer.route);
        let out = &mut self.writer.out;
        let (early, late): (Vec<Push>, Vec<Push>) = pushes
            .into_iter()
            .partition(|push| push.precedes_reply() && !may_read);
        if !early.is_empty() {
            let reply = out.split_off(before);
            early.iter().for_each(|push| push.append(session, out));
            out.extend_from_slice(&reply);
        }
        late.iter().for_each(|push| push.append(session, out));
    }

    #[inline]
    fn command(&mut self, arguments: &[&[u8]]) -> Result<CommandEnd, Blocked> {
        if is_of_scripts(arguments) {
            return self.script(arguments);
        }
        self.step(arguments, |context, reply| {
            execute(context, arguments, reply)
        })
    }

    /// Runs a command that executes or loads a script. A long script runs on a separate thread.
    fn script(&mut self, arguments: &[&[u8]]) -> Result<CommandEnd, Blocked> {
        let long = &self.shared.long;
        let session = &mut *self.context.session;
        let is_apart = session.scripts.has_own_thread;
        if !is_apart && session.login.is_admitted() {
            let was_long = session.scripts.long_scripts > 0;
            session.scripts.long_scripts = session.scripts.long_scripts.saturating_sub(1);
            if was_long || long.holds(arguments) {
                return Err(Blocked::Long);
            }
        }
        let began = Instant::now();
        let ran = self.step(arguments, |context, reply| {
            execute(context, arguments, reply)
        });
        if let Err(Blocked::Long) = &ran {
            self.shared.long.note(self.shared.long.mark(arguments));
            self.context.session.scripts.long_scripts = long_scripts::NEXT;
        } else if is_apart && began.elapsed() < long_scripts::SHORT {
            self.shared.long.forget(self.shared.long.mark(arguments));
            self.context.session.scripts.long_scripts = 0;
        }
        ran
    }

    /// Runs one command by calling `run`. The arguments identify the command.
    #[inline]
    fn step(
        &mut self,
        arguments: &[&[u8]],
        run: impl FnOnce(&mut Context<'_>, &mut Writer) -> Result<(), Blocked>,
    ) -> Result<CommandEnd, Blocked> {
        if self.shared.pause.is_set() && !self.context.session.monitors {
            let now = self.context.host.now_microseconds() / 1000;
            let pause = &self.shared.pause;
            let words = self.context.true_words(arguments);
            if pause.holds(self.context.session, &words, now) {
                return Err(Blocked::Paused);
            }
        }
        let before = self.writer.out.len();
        if self.context.session.tracking.is_some() {
            self.put_invalidations(before);
        }
        let before = self.writer.out.len();
        let was_admitted = self.context.session.login.is_admitted();
        let was_subscribed = !self.context.session.subscriptions.is_empty();
        run(&mut self.context, &mut self.writer)?;
        let session = &mut *self.context.session;
        session.end_retries();
        if session.waiting.is_some() {
            return Ok(CommandEnd::Waits);
        }
        if !session.finish_command() {
            self.writer.out.truncate(before);
        }
        if was_subscribed {
            let (thread, token) = session.peer.route;
            let version = session.protocol;
            self.put_messages(before, thread, token, version == Protocol::Resp3);
        }
        if self.context.session.tracking.is_some() {
            self.put_invalidations(before);
        }
        let session = &*self.context.session;
        if session.monitors && session.replies.mode != ReplyMode::Off {
            let monitors = &self.shared.monitors;
            monitors.take_for(session.peer.route, &mut self.writer.out);
        }
        let session = &*self.context.session;
        Ok(if session.becomes_replica() {
            CommandEnd::Replica
        } else if session.replies.close_after {
            CommandEnd::Closing
        } else if was_admitted != session.login.is_admitted() {
            CommandEnd::Again
        } else {
            CommandEnd::On
        })
    }
}

#[cfg(test)]
mod tests {
    use undercroft_commands::table::all;

    use super::*;

    #[test]
    fn may_have_element_accepts_every_element_command() {
        let elements = all().iter().filter(|command| command.element > 0);
        for command in elements {
            assert!(
                may_have_element(command.name.as_bytes()),
                "{}",
                command.name
            );
            assert!(may_have_element(
                command.name.to_ascii_uppercase().as_bytes()
            ));
        }
        assert!(!may_have_element(b"GET") && !may_have_element(b"set"));
    }
}
