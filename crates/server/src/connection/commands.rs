//! One turn of a connection: the commands in its input, parsed and run.
//!
//! Of a pipeline several commands are parsed before the first of them runs. Their keys are warmed together, so that
//! each does not wait for memory by itself: with more keys than the caches hold that is most of a command's time.

use std::time::Instant;

use smallvec::SmallVec;
use undercroft_commands::protocol::Protocol;
use undercroft_commands::session::ReplyMode;
use undercroft_commands::table::find;
use undercroft_commands::{Blocked, Context, execute};
use undercroft_resp::{Parsed, ProtocolError, RequestParser, Span};

use crate::connection::incoming::{self, Incoming};
use crate::connection::writer::Writer;
use crate::shared::hub;
use crate::shared::limits::Limits;
use crate::shared::long_scripts::{self, is_of_scripts};
use crate::shared::state::Shared;

/// Batches of commands run in one turn at most; then other connections have theirs.
const BATCHES_A_TURN: usize = 64;
/// A turn ends where its replies exceed this many bytes, so that they are sent before more are made.
const OUTPUT_A_TURN: usize = 256 * 1024;
/// Commands parsed before the first of them runs.
const BATCH: usize = 16;
/// Most commands have no more arguments.
const ARGUMENTS: usize = 16;
/// Room for the places of so many arguments is kept from one batch to the next.
const KEPT_ARGUMENTS: usize = 4096;
/// Below this many commands there is too little to gain from warming.
const WORTH_WARMING: usize = 3;

/// Why a turn ended.
pub(crate) enum TurnEnd {
    /// All that is complete has been run; at least so many bytes are missing of the next command.
    Used { wanted: usize },
    /// There may be more commands.
    More,
    /// The connection is to be closed.
    Closing,
    /// The next command needs a lock that another process holds, is paused, or takes long.
    Blocked(Blocked),
    /// The last command waits for keys.
    Waiting,
}

/// One turn, with what it needs at hand.
pub(crate) struct Turn<'a> {
    pub(crate) writer: Writer,
    pub(crate) context: Context<'a>,
    pub(crate) parser: &'a mut RequestParser,
    /// The command whose value is being received, from one turn to the next.
    pub(crate) incoming: &'a mut Option<Incoming>,
    pub(crate) limits: &'a Limits,
    /// Whether keys are warmed. Not while some lock is held for long: a look at its shard would wait for it.
    pub(crate) warms: bool,
    pub(crate) shared: &'a Shared,
}

/// Commands that were parsed and not yet run. Its memory is used again.
#[derive(Default)]
pub(crate) struct Batch {
    /// The places of their arguments, from the start of the batch's input on.
    arguments: Vec<Span>,
    /// For each command the end of its bytes, and of its arguments.
    commands: Vec<(usize, usize)>,
    /// Bytes of all of them, and of what asks for nothing.
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

/// What follows a batch.
enum Behind {
    /// Perhaps more commands.
    More,
    /// An inline command, whose arguments the parser holds until it is run.
    Inline,
    /// The start of a command.
    Incomplete { wanted: usize },
    /// What is no command.
    Broken(ProtocolError),
}

/// How a command ended.
enum CommandEnd {
    /// The next one may run.
    On,
    /// Commands that were parsed ahead are void: the limits are others now.
    Again,
    /// It waits for keys: the next one may run once it is answered.
    Waits,
    /// The connection is to be closed.
    Closing,
}

/// Whether a command may be one on a field or a member: those on hashes, sets, sorted sets and places. Of most others
/// the first letter tells, and the length of GET and SET.
fn may_have_element(name: &[u8]) -> bool {
    name.len() > 3 && matches!(name[0] | 0x20, b'g' | b'h' | b's' | b'z')
}

/// Whether a command runs a script: EVAL, EVALSHA, FCALL, whose first key stands behind their number. Of ECHO and the like
/// nothing stands there.
fn is_script(name: &[u8]) -> bool {
    matches!(name, [b'e' | b'E' | b'f' | b'F', rest @ ..] if matches!(rest.len(), 3 | 4 | 6))
}

impl Turn<'_> {
    /// Runs commands from the start of `input`. Returns how many bytes are done with.
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
                Behind::More => {}
                Behind::Incomplete { wanted } => {
                    if wanted >= incoming::REST && self.receives(&input[used..]) {
                        used = input.len();
                    }
                    return (used, TurnEnd::Used { wanted });
                }
                Behind::Broken(error) => {
                    self.refuse(&error);
                    return (used, TurnEnd::Closing);
                }
                Behind::Inline => match self.inline(&input[used..]) {
                    (length, None) => used += length,
                    (length, Some(end)) => return (used + length, end),
                },
            }
        }
        (used, TurnEnd::More)
    }

    /// Runs the command whose value has been received, if it is all there. Returns how the turn ends, where it does.
    #[cold]
    fn run_received(&mut self) -> Option<TurnEnd> {
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
            Err(blocked) => {
                *self.incoming = Some(whole);
                Some(TurnEnd::Blocked(blocked))
            }
        }
    }

    /// Whether the value of the command at the start of `input`, all of which is its, is received into the store from
    /// now on.
    fn receives(&mut self, input: &[u8]) -> bool {
        if !self.warms || self.shared.pause.is_set() {
            return false;
        }
        let store = self.shared.store();
        *self.incoming = Incoming::begin(&store, &self.context, self.parser, input, self.limits);
        if self.incoming.is_some() {
            self.parse_again();
        }
        self.incoming.is_some()
    }

    /// Runs the commands of a batch. Where the turn ends with one of them: how many bytes are done with, and why.
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

    /// Whether the turn goes on behind a command: not where there is much to be sent, not where the server ends, as a
    /// pipeline can take very long, and not behind a script that had a thread of its own.
    fn goes_on(&self) -> bool {
        self.writer.out.len() <= OUTPUT_A_TURN
            && !self.shared.stopping()
            && !self.context.session.scripts.has_own_thread
    }

    /// Where the command that ends at `end` starts.
    fn before(&self, batch: &Batch, end: usize) -> usize {
        let ends = batch.commands.iter().map(|(end, _)| *end);
        ends.take_while(|other| *other < end).last().unwrap_or(0)
    }

    /// Commands that were parsed ahead are forgotten; they are parsed again from where the commands have been run.
    fn parse_again(&mut self) {
        *self.parser = RequestParser::new(self.limits.of_parser(self.context.session));
    }

    /// Parses commands in the multibulk form until there are enough. Before a login only one: it may be the login,
    /// which changes what is allowed.
    #[inline]
    fn parse(&mut self, input: &[u8], batch: &mut Batch) -> Behind {
        let most = if self.context.session.user.is_some() {
            BATCH
        } else {
            1
        };
        while batch.commands.len() < most {
            let rest = &input[batch.length..];
            if rest.first().is_some_and(|first| *first != b'*') {
                return Behind::Inline;
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
                Ok(Parsed::Incomplete { wanted }) => return Behind::Incomplete { wanted },
                Err(error) => return Behind::Broken(error),
            }
        }
        Behind::More
    }

    /// Warms the first argument of each command, which is a key where the command has any, or the first key of a script;
    /// then the field or member that it looks for there.
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
                // Neighbours are often of one key. Keys that differ mostly do so at their ends.
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

    /// Parses and runs one inline command, or skips an empty line. Returns its length, and the end of the turn where
    /// it is one.
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
            Ok(CommandEnd::Waits) => (length, Some(TurnEnd::Waiting)),
            Err(blocked) => (0, Some(TurnEnd::Blocked(blocked))),
        }
    }

    /// Answers what is no command.
    #[cold]
    fn refuse(&mut self, error: &ProtocolError) {
        let before = self.writer.out.len();
        error.reply(&mut self.writer.out);
        let text = String::from_utf8_lossy(&self.writer.out[before + 1..]);
        self.shared.count_error(self.context.session, &text);
    }

    /// Puts messages that came before a command's reply in front of it: those published before the client took its
    /// subscription back, and what it sent to itself.
    #[cold]
    fn put_messages(&mut self, before: usize, thread: usize, token: u64, resp3: bool) {
        let mut hub = self.shared.hub(thread);
        hub.collect(false);
        let messages = hub.take_for(token);
        if messages.is_empty() {
            return;
        }
        let out = &mut self.writer.out;
        let reply = out.split_off(before);
        messages
            .iter()
            .for_each(|message| hub::append(out, message, resp3));
        out.extend_from_slice(&reply);
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

    /// A command that runs a script or reads the text of one: on a thread of its own where it is long.
    fn script(&mut self, arguments: &[&[u8]]) -> Result<CommandEnd, Blocked> {
        let long = &self.shared.long;
        let session = &mut *self.context.session;
        let is_apart = session.scripts.has_own_thread;
        if !is_apart && session.user.is_some() {
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

    /// One command, which `run` runs; the arguments say which it is.
    #[inline]
    fn step(
        &mut self,
        arguments: &[&[u8]],
        run: impl FnOnce(&mut Context<'_>, &mut Writer) -> Result<(), Blocked>,
    ) -> Result<CommandEnd, Blocked> {
        if self.shared.pause.is_set() && !self.context.session.monitors {
            let now = self.context.host.now_microseconds() / 1000;
            let pause = &self.shared.pause;
            if pause.holds(self.context.session, arguments, now) {
                return Err(Blocked::Paused);
            }
        }
        let before = self.writer.out.len();
        let was_logged_in = self.context.session.user.is_some();
        let was_subscribed = !self.context.session.subscriptions.is_empty();
        run(&mut self.context, &mut self.writer)?;
        let session = &mut *self.context.session;
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
        let session = &*self.context.session;
        if session.monitors && session.replies.mode != ReplyMode::Off {
            let monitors = &self.shared.monitors;
            monitors.take_for(session.peer.route, &mut self.writer.out);
        }
        let session = &*self.context.session;
        Ok(if session.replies.close_after {
            CommandEnd::Closing
        } else if was_logged_in != session.user.is_some() {
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
    fn no_command_on_an_element_is_passed_over() {
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
