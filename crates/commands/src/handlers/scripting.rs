//! EVAL and its like, for the three scripts of redis-py's locks, which are known by their SHA-1: redis-py 5.0 to the
//! newest send the same texts. They are written here in Rust, each as one transaction, and answer and fail as the
//! texts do in Redis 7.0. All other scripts are unknown commands.

use std::borrow::Cow;

use sha1_smol::Sha1;
use undercroft_engine::{Error, Key, KeyEvent, Writer};

use crate::arguments::{CommandError, TimeBase, TimeUnit, deadline, integer, is_keyword};
use crate::handler::{Context, Failure, Outcome};
use crate::number::Extended;
use crate::reply::Reply;
use crate::table::Command;

/// A script that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// Deletes the key where it holds the token.
    Release,
    /// Adds to the time to live of such a key, which has one, or sets it.
    Extend,
    /// Sets the time to live of such a key.
    Reacquire,
}

/// Each with its SHA-1 and the length of its text.
const SCRIPTS: [(Script, &str, usize); 3] = [
    (
        Script::Release,
        "c3f8721cbb97f72bc19e972846bd7aaf91901658",
        185,
    ),
    (
        Script::Extend,
        "a4e8783852e6b949f9ef3a97212805108459a890",
        503,
    ),
    (
        Script::Reacquire,
        "1cac51482acf5858da00f6d685d68f886cd6b6b2",
        198,
    ),
];

/// The line of each text that reads the token, and of the one that adds to the time to live.
const READS: u32 = 2;
const ADDS: u32 = 16;
/// From here on Lua writes a number with an exponent, which is no integer to PEXPIRE.
const EXPONENT_FROM: u64 = 100_000_000_000_000_000;

impl Script {
    fn by_sha(sha: &[u8]) -> Option<Script> {
        let mut known = SCRIPTS.iter();
        let found = known.find(|(_, known, _)| is_keyword(sha, known));
        found.map(|(script, ..)| *script)
    }

    fn by_text(text: &[u8]) -> Option<Script> {
        // Most texts need not be hashed.
        let mut known = SCRIPTS.iter();
        known.find(|(.., length)| *length == text.len())?;
        Script::by_sha(Sha1::from(text).digest().to_string().as_bytes())
    }

    fn sha(self) -> &'static str {
        SCRIPTS[self as usize].1
    }

    /// The line of the text that sets the time to live.
    fn expires(self) -> u32 {
        if self == Script::Extend { 18 } else { 6 }
    }

    /// What Redis makes of an error within a script.
    fn error(self, text: &str, line: u32) -> CommandError {
        let sha = self.sha();
        CommandError::new(format!("{text} script: {sha}, on @user_script:{line}."))
    }

    fn no_argument(self, line: u32) -> CommandError {
        self.error(
            "ERR Lua redis lib command arguments must be strings or integers",
            line,
        )
    }
}

/// Scripts that are not known are unknown commands, also where they would only be queued.
pub(crate) fn admit(command: &Command, arguments: &[&[u8]]) -> Result<(), CommandError> {
    let text = match (command.name, arguments) {
        ("eval", [_, text, ..]) | ("script|load", [_, _, text]) => text,
        _ => return Ok(()),
    };
    match Script::by_text(text) {
        Some(_) => Ok(()),
        None => Err(CommandError::unknown_command(arguments)),
    }
}

/// EVAL.
pub(crate) fn eval(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let call = Call::parse(arguments)?;
    match Script::by_text(arguments[1]) {
        Some(script) => call.run(script, context, reply),
        None => Err(CommandError::unknown_command(arguments).into()),
    }
}

/// EVALSHA.
pub(crate) fn evalsha(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    const NONE: CommandError = CommandError::fixed("NOSCRIPT No matching script. Please use EVAL.");
    if arguments[1].len() != 40 {
        return Err(NONE.into());
    }
    let call = Call::parse(arguments)?;
    let script = Script::by_sha(arguments[1]).ok_or(NONE)?;
    call.run(script, context, reply)
}

/// SCRIPT EXISTS.
pub(crate) fn exists(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.array(arguments.len() - 2);
    for sha in &arguments[2..] {
        reply.integer(Script::by_sha(sha).is_some().into());
    }
    Ok(())
}

/// SCRIPT LOAD.
pub(crate) fn load(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let script = Script::by_text(arguments[2]);
    let script = script.ok_or_else(|| CommandError::unknown_command(arguments))?;
    reply.bulk(script.sha().as_bytes());
    Ok(())
}

/// What a script is called with.
struct Call<'a> {
    key: Option<&'a [u8]>,
    token: Option<&'a [u8]>,
    time: Option<&'a [u8]>,
    replaces: bool,
}

impl<'a> Call<'a> {
    fn parse(arguments: &[&'a [u8]]) -> Result<Call<'a>, CommandError> {
        let (count, rest) = (integer(arguments[2])?, &arguments[3..]);
        if count > rest.len() as i64 {
            return Err(CommandError::fixed(
                "ERR Number of keys can't be greater than number of args",
            ));
        }
        let count = usize::try_from(count)
            .map_err(|_| CommandError::fixed("ERR Number of keys can't be negative"))?;
        let (keys, more) = rest.split_at(count);
        Ok(Call {
            key: keys.first().copied(),
            token: more.first().copied(),
            time: more.get(1).copied(),
            replaces: more.get(2).is_none_or(|replaces| *replaces != b"0"),
        })
    }

    fn run(&self, script: Script, context: &mut Context<'_>, reply: &mut dyn Reply) -> Outcome {
        let (store, database) = (context.store, context.database());
        let key = self.key.ok_or_else(|| script.no_argument(READS))?;
        let key = store.key(key);
        let found = store.write(store.shards_of([&key]), |writer| {
            // A token that was not given is like none that a key could hold.
            let held = match writer.holds(database, &key, self.token.unwrap_or_default()) {
                Err(Error::WrongType) => {
                    let text = CommandError::WRONG_TYPE;
                    return Err(script.error(text.text(), READS).into());
                }
                held => held?.map(|held| held && self.token.is_some()),
            };
            match held {
                None => writer.tell(KeyEvent::KeyMiss, database, &key),
                Some(true) => return Ok(Some(self.change(script, writer, database, &key)?)),
                Some(false) => {}
            }
            Ok::<_, Failure>(held)
        })?;
        store.note_use(&key);
        context.count_lookup(found.is_some());
        reply.integer(found.unwrap_or_default().into());
        Ok(())
    }

    /// What the script does where the key holds the token. Returns whether it did it.
    fn change(
        &self,
        script: Script,
        writer: &mut Writer<'_, '_>,
        database: usize,
        key: &Key<'_>,
    ) -> Result<bool, Failure> {
        if script == Script::Release {
            return Ok(writer.remove(database, key)?);
        }
        let now = writer.now();
        let time = if script == Script::Extend {
            let Some(old) = writer.expiry(database, key)?.flatten() else {
                return Ok(false);
            };
            self.extended(old.saturating_sub(now))?
        } else {
            self.time.map(Cow::Borrowed)
        };
        let line = script.expires();
        let time = time.ok_or_else(|| script.no_argument(line))?;
        let (unit, base) = (TimeUnit::Milliseconds, TimeBase::Now);
        let deadline = deadline(&time, unit, base, now as i64, "pexpire")
            .map_err(|error| script.error(error.text(), line))?;
        match u64::try_from(deadline) {
            Ok(deadline) if deadline > now => {
                writer.set_expiry(database, key, Some(deadline))?;
            }
            _ => {
                writer.remove(database, key)?;
            }
        }
        Ok(true)
    }

    /// The time to live that Extend sets, as it gives it to PEXPIRE.
    fn extended(&self, left: u64) -> Result<Option<Cow<'a, [u8]>>, CommandError> {
        let (Some(time), false) = (self.time, self.replaces) else {
            return Ok(self.time.map(Cow::Borrowed));
        };
        let time = time.trim_ascii();
        if is_keyword(time, "nan") || is_keyword(time, "-nan") {
            return Ok(Some(Cow::Borrowed(b"nan")));
        }
        let Some(time) = Extended::parse(time) else {
            return Err(Script::Extend.error(
                "ERR user_script:16: attempt to perform arithmetic on field '?' (a string value)",
                ADDS,
            ));
        };
        let left = Extended::from_integer(i64::try_from(left).unwrap_or(i64::MAX));
        let sum = time.checked_add(left).map(Extended::text);
        let sum = sum.filter(|sum| {
            let whole = sum.parse::<i64>();
            whole.is_ok_and(|whole| whole.unsigned_abs() < EXPONENT_FROM)
        });
        // Anything else is no integer to PEXPIRE, however Lua writes it.
        Ok(Some(Cow::Owned(sum.unwrap_or_default().into_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_in_the_order_of_their_table() {
        for (script, sha, _) in SCRIPTS {
            assert_eq!(script.sha(), sha);
            assert_eq!(Script::by_sha(sha.to_uppercase().as_bytes()), Some(script));
        }
        assert_eq!(Script::by_text(&[b' '; 185]), None);
        assert_eq!(Script::by_text(b"return 1"), None);
    }
}
