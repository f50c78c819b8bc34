//! What the longer scripts are written in: commands run one after another within one transaction, as `redis.call`
//! does it, and Lua's numbers.
//!
//! As in Redis a script that fails keeps what it changed before: its error is a reply like any other, and the
//! transaction is committed. A command that fails changes nothing.

use super::super::transaction::Scene;
use super::{Call, Script};
use crate::arguments::CommandError;
use crate::double::parse_bound;
use crate::handler::{Context, Failure, Outcome};
use crate::number::double_text;
use crate::reply::{Recorder, Reply, Tree};
use crate::statistics::Lap;
use crate::table::{Flag, resolve};

/// A script: returns its reply.
pub(super) type Body = fn(&mut Calls<'_, '_>, &Call<'_>) -> Result<Tree, Failure>;

/// A script that runs.
pub(super) struct Calls<'c, 'a> {
    script: Script,
    context: &'c mut Context<'a>,
    /// There was no room for more when the script began.
    is_full: bool,
    has_written: bool,
}

/// Runs a script and writes its reply.
pub(super) fn run(
    script: Script,
    body: Body,
    call: &Call<'_>,
    context: &mut Context<'_>,
    reply: &mut dyn Reply,
) -> Outcome {
    let store = context.store;
    let ended = if store.is_running() {
        // Within MULTI and EXEC, where queueing it asked for room.
        Calls::end(script, body, call, context, false)?
    } else {
        let is_full = match store.check_memory().map_err(Failure::from) {
            Err(Failure::Reply(_)) => true,
            room => {
                room?;
                false
            }
        };
        let shards = call.keys.iter().map(|key| store.key(key).shard());
        let mut scene = Scene::<()>::new(context);
        store.transact_into(shards.collect(), &mut scene, |running, scene| {
            let mut inner = Context {
                session: &mut *scene.context.session,
                host: scene.context.host,
                store: running.access(),
                timed: scene.context.timed,
                shows: scene.context.shows,
                direct: false,
                lap: Lap::default(),
            };
            let ended = Calls::end(script, body, call, &mut inner, is_full)?;
            if running.starts_again() {
                return Err(CommandError::OUT_OF_MEMORY.into());
            }
            Ok::<_, Failure>(ended)
        })?
    };
    match ended {
        Ok(tree) => tree.write(reply),
        Err(error) => {
            if store.is_running() {
                // EXEC may run it again, and then takes this back.
                context.session.counters.errors += 1;
            } else {
                context.count_error(error.text());
            }
            error.write(reply);
        }
    }
    Ok(())
}

impl Calls<'_, '_> {
    /// Runs a script to its end: what it returns, or the error that stopped it.
    fn end(
        script: Script,
        body: Body,
        call: &Call<'_>,
        context: &mut Context<'_>,
        is_full: bool,
    ) -> Result<Result<Tree, CommandError>, Failure> {
        let mut calls = Calls {
            script,
            context,
            is_full,
            has_written: false,
        };
        match body(&mut calls, call) {
            Ok(tree) => Ok(Ok(tree)),
            Err(Failure::Reply(error)) => Ok(Err(error)),
            Err(failure) => Err(failure),
        }
    }

    /// Unix time in milliseconds, which stands still while the script runs.
    pub(super) fn now(&self) -> u64 {
        self.context.store.now()
    }

    /// An error of the script itself.
    pub(super) fn own_error(&self, text: &str, line: u32) -> Failure {
        self.script.own_error(text, line).into()
    }

    /// `redis.call` in a line of the text. An argument that is none is nil.
    pub(super) fn call(&mut self, line: u32, arguments: &[Option<&[u8]>]) -> Result<Tree, Failure> {
        let script = self.script;
        let arguments: Option<Vec<&[u8]>> = arguments.iter().copied().collect();
        let arguments = arguments.ok_or_else(|| script.no_argument(line))?;
        match self.execute(&arguments) {
            Err(Failure::Reply(error)) => Err(script.error(error.text(), line).into()),
            result => result,
        }
    }

    fn execute(&mut self, arguments: &[&[u8]]) -> Result<Tree, Failure> {
        let command = resolve(arguments)?;
        let Some(handler) = command.handler else {
            return Err(CommandError::unknown_command(arguments).into());
        };
        // A script that has written may go on, as in Redis: there is no way back.
        if self.is_full && !self.has_written && command.flags.has(Flag::DenyOom) {
            return Err(CommandError::OUT_OF_MEMORY.into());
        }
        self.has_written |= command.flags.has(Flag::Write);
        let mut recorder = Recorder::new();
        let store = self.context.store;
        // A change that cannot be undone spoils the transaction, whatever the script makes of the error.
        let outcome = store.attempt(|| handler(self.context, arguments, &mut recorder))?;
        store.remove_met()?;
        outcome?;
        let reply = recorder.finish().ok().and_then(|mut trees| trees.pop());
        Ok(reply.unwrap_or(Tree::Null))
    }

    /// The text that a command answers; none for false, which is what Lua has for no value.
    pub(super) fn text(
        &mut self,
        line: u32,
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>, Failure> {
        Ok(match self.call(line, arguments)? {
            Tree::Bulk(text) => Some(text),
            _ => None,
        })
    }

    /// The integer that a command answers.
    pub(super) fn integer(
        &mut self,
        line: u32,
        arguments: &[Option<&[u8]>],
    ) -> Result<i64, Failure> {
        Ok(match self.call(line, arguments)? {
            Tree::Integer(value) => value,
            _ => 0,
        })
    }
}

/// Lua's `tonumber`.
pub(super) fn number(text: Option<&[u8]>) -> Option<f64> {
    // As C reads it.
    let text = text?.split(|byte| *byte == 0).next()?;
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let end = text.iter().rposition(|byte| !is_space(byte))?;
    let text = &text[start..=end];
    let unsigned = text
        .strip_prefix(b"-")
        .or_else(|| text.strip_prefix(b"+"))
        .unwrap_or(text);
    match unsigned.get(..3) {
        Some(name) if name.eq_ignore_ascii_case(b"nan") => {
            is_nan(&unsigned[3..]).then_some(f64::NAN)
        }
        _ => parse_bound(text),
    }
}

/// Whether this may follow `nan`: nothing, or letters and digits in parentheses.
fn is_nan(rest: &[u8]) -> bool {
    let inside = rest
        .strip_prefix(b"(")
        .and_then(|rest| rest.strip_suffix(b")"));
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    rest.is_empty() || inside.is_some_and(|inside| inside.iter().all(is_letter))
}

/// A number as `redis.call` hands it to a command.
pub(super) fn number_text(number: f64) -> Vec<u8> {
    double_text(number).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_lua() {
        for (text, value) in [
            ("5", 5.0),
            ("-0x10", -16.0),
            (" 0x10\t", 16.0),
            ("1.5", 1.5),
            ("1e3", 1000.0),
            ("5\0abc", 5.0),
            ("1e400", f64::INFINITY),
            ("-infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(number(Some(text.as_bytes())), Some(value), "{text:?}");
        }
        for text in [
            "", " ", "\0", "abc", "1e", "0x", "1 2", "- 1", "nan(", "nano",
        ] {
            assert_eq!(number(Some(text.as_bytes())), None, "{text:?}");
        }
        for text in ["nan", "-NaN", " nan(1)"] {
            let value = number(Some(text.as_bytes()));
            assert!(value.is_some_and(f64::is_nan), "{text:?}");
        }
        assert_eq!(number(None), None);
    }

    #[test]
    fn commands_get_numbers_with_17_digits() {
        assert_eq!(number_text(1_795_374_332_056.0), b"1795374332056");
        assert_eq!(number_text(1.5), b"1.5");
        assert_eq!(number_text(1e17), b"1e+17");
    }
}
