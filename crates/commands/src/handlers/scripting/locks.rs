//! Implements the scripts that redis-py's locks use natively in Rust. Their texts have not changed
//! since redis-py 5.0.
//!
//! The scripts are recognized by their SHA-1. The replies and errors match those of the Lua scripts
//! in Redis 7.0, but the Rust code takes a fraction of the time (`make bench TABLE=scripts`).

use std::borrow::Cow;

use sha1_smol::Sha1;
use undercroft_engine::events::KeyEvent;
use undercroft_engine::{Error, Key, Writer};

use super::call::Call;
use crate::algorithms::extended::Extended;
use crate::arguments::{CommandError, TimeBase, TimeUnit, deadline, is_keyword};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// A script that redis-py's locks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockScript {
    /// Deletes the key if its value is the token.
    Release,
    /// Extends or replaces the time to live of a key whose value is the token. A key without a time
    /// to live is not changed.
    Extend,
    /// Sets the time to live of a key whose value is the token.
    Reacquire,
}

/// The lock scripts, each with the SHA-1 and the length in bytes of its text.
const SCRIPTS: [(LockScript, &str, usize); 3] = [
    (
        LockScript::Release,
        "c3f8721cbb97f72bc19e972846bd7aaf91901658",
        185,
    ),
    (
        LockScript::Extend,
        "a4e8783852e6b949f9ef3a97212805108459a890",
        503,
    ),
    (
        LockScript::Reacquire,
        "1cac51482acf5858da00f6d685d68f886cd6b6b2",
        198,
    ),
];

impl LockScript {
    pub(super) fn by_sha(sha: &[u8]) -> Option<LockScript> {
        // The SHA-1 of most other scripts differs in the first digit. Setting the case bit maps A-F
        // to a-f and does not change 0-9.
        let first = sha.first()? | 0x20;
        let mut known = SCRIPTS.iter();
        let found =
            known.find(|(_, known, _)| known.as_bytes()[0] == first && is_keyword(sha, known));
        found.map(|(script, ..)| *script)
    }

    pub(super) fn by_text(text: &[u8]) -> Option<LockScript> {
        // Compare lengths first to avoid hashing most scripts.
        let mut known = SCRIPTS.iter();
        known.find(|(.., length)| *length == text.len())?;
        LockScript::by_sha(Sha1::from(text).digest().to_string().as_bytes())
    }

    pub(super) fn sha(self) -> &'static str {
        SCRIPTS[self as usize].1
    }

    /// Formats a command's error the way Redis does when a script calls the command.
    pub(super) fn error(self, text: &str, line: u32) -> CommandError {
        let sha = self.sha();
        CommandError::new(format!("{text} script: {sha}, on @user_script:{line}."))
    }

    /// Formats an error that the script itself raises the way Redis does.
    pub(super) fn own_error(self, text: &str, line: u32) -> CommandError {
        self.error(&format!("ERR user_script:{line}: {text}"), line)
    }

    pub(super) fn no_argument(self, line: u32) -> CommandError {
        self.error(
            "ERR Lua redis lib command arguments must be strings or integers",
            line,
        )
    }
}

/// The line at which each script reads the token. `ADDS` is the line at which Extend adds to the
/// time to live.
const READS: u32 = 2;
const ADDS: u32 = 16;
/// The smallest number that Lua formats with an exponent, which PEXPIRE rejects.
const EXPONENT_FROM: u64 = 100_000_000_000_000_000;

/// Returns the line in a script's text that sets the time to live.
fn expires(script: LockScript) -> u32 {
    if script == LockScript::Extend { 18 } else { 6 }
}

/// Runs a lock script.
pub(super) fn run(
    script: LockScript,
    call: &Call<'_>,
    context: &mut Context<'_>,
    reply: &mut dyn Reply,
) -> Outcome {
    let lock = LockCall {
        script,
        key: call.key(1),
        token: call.argument(1),
        time: call.argument(2),
        replaces: call.argument(3).is_none_or(|replaces| replaces != b"0"),
    };
    lock.run(context, reply)
}

/// A lock script with its keys and arguments.
struct LockCall<'a> {
    script: LockScript,
    key: Option<&'a [u8]>,
    token: Option<&'a [u8]>,
    time: Option<&'a [u8]>,
    replaces: bool,
}

impl<'a> LockCall<'a> {
    fn run(&self, context: &mut Context<'_>, reply: &mut dyn Reply) -> Outcome {
        let script = self.script;
        let (store, database) = (context.store, context.database());
        let key = self.key.ok_or_else(|| script.no_argument(READS))?;
        let key = store.key(key);
        let found = store.write(store.shards_of([&key]), |writer| {
            // A missing token never equals the value of a key.
            let held = match writer.holds(database, &key, self.token.unwrap_or_default()) {
                Err(Error::WrongType) => {
                    let text = CommandError::WRONG_TYPE;
                    return Err(script.error(text.text(), READS).into());
                }
                held => held?.map(|held| held && self.token.is_some()),
            };
            match held {
                None => writer.tell(KeyEvent::KeyMiss, database, &key),
                Some(true) => return Ok(Some(self.change(writer, database, &key)?)),
                Some(false) => {}
            }
            Ok::<_, Failure>(held)
        })?;
        store.note_use(&key);
        context.count_lookup(found.is_some());
        reply.integer(found.unwrap_or_default().into());
        Ok(())
    }

    /// Runs the script on a key whose value is the token. Returns whether the script succeeded.
    fn change(
        &self,
        writer: &mut Writer<'_, '_>,
        database: usize,
        key: &Key<'_>,
    ) -> Result<bool, Failure> {
        let script = self.script;
        if script == LockScript::Release {
            return Ok(writer.remove(database, key)?);
        }
        let now = writer.now();
        let time = if script == LockScript::Extend {
            let Some(old) = writer.expiry(database, key)?.flatten() else {
                return Ok(false);
            };
            self.extended(old.saturating_sub(now))?
        } else {
            self.time.map(Cow::Borrowed)
        };
        let line = expires(script);
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

    /// Returns the time to live that the Extend script passes to PEXPIRE.
    fn extended(&self, left: u64) -> Result<Option<Cow<'a, [u8]>>, CommandError> {
        let (Some(time), false) = (self.time, self.replaces) else {
            return Ok(self.time.map(Cow::Borrowed));
        };
        let time = time.trim_ascii();
        if is_keyword(time, "nan") || is_keyword(time, "-nan") {
            return Ok(Some(Cow::Borrowed(b"nan")));
        }
        let Some(time) = Extended::parse(time) else {
            return Err(LockScript::Extend.own_error(
                "attempt to perform arithmetic on field '?' (a string value)",
                ADDS,
            ));
        };
        let left = Extended::from_integer(i64::try_from(left).unwrap_or(i64::MAX));
        let sum = time.checked_add(left).map(Extended::text);
        let sum = sum.filter(|sum| {
            let whole = sum.parse::<i64>();
            whole.is_ok_and(|whole| whole.unsigned_abs() < EXPONENT_FROM)
        });
        // PEXPIRE rejects any other value, regardless of how Lua formats it.
        Ok(Some(Cow::Owned(sum.unwrap_or_default().into_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_script_is_found_by_its_sha() {
        for (script, sha, _) in SCRIPTS {
            assert_eq!(script.sha(), sha);
            assert_eq!(
                LockScript::by_sha(sha.to_uppercase().as_bytes()),
                Some(script)
            );
        }
        assert_eq!(LockScript::by_text(&[b' '; 185]), None);
        assert_eq!(LockScript::by_text(b"return 1"), None);
    }
}
