//! Strict parsing of arguments, with Redis' rules and error texts.
//!
//! Integers have exactly one spelling: `7`, never `+7`, `07` or ` 7`. Times to live are checked against overflow
//! before anything is done with them. Every error text is Redis 7.0's, because clients match on them.

use std::borrow::Cow;
use std::fmt;

use undercroft_numbers::parse_integer;

use crate::algorithms::extended::Extended;
use crate::reply::Reply;

/// An error reply, whole, with its code in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    text: Cow<'static, str>,
    /// What goes to the client instead, where it repeats bytes that are no UTF-8.
    raw: Option<Box<[u8]>>,
}

impl CommandError {
    /// The value or argument is no integer of 64 bits.
    pub const NOT_AN_INTEGER: CommandError =
        CommandError::fixed("ERR value is not an integer or out of range");
    /// The value or argument is no number.
    pub const NOT_A_FLOAT: CommandError = CommandError::fixed("ERR value is not a valid float");
    /// Options that are unknown, incomplete or exclude each other.
    pub const SYNTAX: CommandError = CommandError::fixed("ERR syntax error");
    /// The key holds another type than the command works on.
    pub const WRONG_TYPE: CommandError =
        CommandError::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The key is not there.
    pub const NO_SUCH_KEY: CommandError = CommandError::fixed("ERR no such key");
    /// The database's number is not below `databases`.
    pub const DATABASE_OUT_OF_RANGE: CommandError =
        CommandError::fixed("ERR DB index is out of range");
    /// A value would exceed proto-max-bulk-len.
    pub const STRING_TOO_LONG: CommandError =
        CommandError::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    /// A counter would leave the range of 64 bits.
    pub const OVERFLOW: CommandError =
        CommandError::fixed("ERR increment or decrement would overflow");
    /// INCRBYFLOAT would leave the range of numbers.
    pub const NAN_OR_INFINITY: CommandError =
        CommandError::fixed("ERR increment would produce NaN or Infinity");
    /// The memory limit is reached and nothing may be evicted.
    pub const OUT_OF_MEMORY: CommandError =
        CommandError::fixed("OOM command not allowed when used memory > 'maxmemory'.");

    /// Writes need more replicas (`min-replicas-to-write`) than there are.
    pub const NO_REPLICAS: CommandError =
        CommandError::fixed("NOREPLICAS Not enough good replicas to write.");

    /// EXEC's reply where this error keeps the transaction from being run.
    pub(crate) fn aborts_exec(&self) -> CommandError {
        let reason = self.text.strip_prefix("ERR ").unwrap_or(&self.text);
        CommandError::new(format!(
            "EXECABORT Transaction discarded because of: {reason}"
        ))
    }

    /// An error whose text is known at compile time.
    pub const fn fixed(text: &'static str) -> CommandError {
        CommandError {
            text: Cow::Borrowed(text),
            raw: None,
        }
    }

    /// An error with a text made for the occasion. Line ends become spaces, as in Redis, so that nothing a client
    /// sent can end the reply early.
    pub fn new(text: String) -> CommandError {
        CommandError::from_parts(&[text.as_bytes()])
    }

    /// An error that repeats bytes of the client's, which need not be text.
    pub fn from_parts(parts: &[&[u8]]) -> CommandError {
        let mut text = parts.concat();
        for byte in &mut text {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        match String::from_utf8(text) {
            Ok(text) => CommandError {
                text: Cow::Owned(text),
                raw: None,
            },
            Err(error) => CommandError {
                text: Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
                raw: Some(error.into_bytes().into()),
            },
        }
    }

    /// The text. What is no UTF-8 in it is replaced.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the reply.
    pub fn write<R: Reply + ?Sized>(&self, reply: &mut R) {
        match &self.raw {
            None => reply.error(&self.text),
            Some(bytes) => reply.error_bytes(bytes),
        }
    }

    /// Too few or too many arguments; `name` is lower-case, with `container|` in front for a subcommand.
    pub fn wrong_arity(name: &str) -> CommandError {
        CommandError::new(format!(
            "ERR wrong number of arguments for '{name}' command"
        ))
    }

    /// No command of this name; `arguments` has the name first.
    pub fn unknown_command(arguments: &[&[u8]]) -> CommandError {
        const SHOWN: usize = 128;
        let (name, rest) = arguments
            .split_first()
            .map_or((&b""[..], arguments), |(name, rest)| (*name, rest));
        let mut shown = Vec::new();
        for argument in rest {
            if shown.len() >= SHOWN {
                break;
            }
            shown.push(b'\'');
            shown.extend(c_string(argument, SHOWN + 1 - shown.len()));
            shown.extend(b"' ");
        }
        CommandError::from_parts(&[
            b"ERR unknown command '",
            c_string(name, SHOWN),
            b"', with args beginning with: ",
            &shown,
        ])
    }

    /// No subcommand of this name; `container` is the command's name.
    pub fn unknown_subcommand(container: &str, name: &[u8]) -> CommandError {
        CommandError::from_parts(&[
            b"ERR unknown subcommand '",
            c_string(name, 128),
            b"'. Try ",
            container.to_ascii_uppercase().as_bytes(),
            b" HELP.",
        ])
    }

    /// A subcommand's options are unknown or incomplete.
    pub fn subcommand_syntax(container: &str, name: &[u8]) -> CommandError {
        CommandError::from_parts(&[
            b"ERR unknown subcommand or wrong number of arguments for '",
            c_string(name, 128),
            b"'. Try ",
            container.to_ascii_uppercase().as_bytes(),
            b" HELP.",
        ])
    }

    /// An error about an argument, which is shown between quotes up to its first zero byte.
    pub fn quoting(before: &str, argument: &[u8], after: &str) -> CommandError {
        let argument = c_string(argument, argument.len());
        CommandError::from_parts(&[before.as_bytes(), b"'", argument, b"'", after.as_bytes()])
    }

    /// A time to live that is zero, negative or too far away; `name` is lower-case.
    pub fn invalid_expire(name: &str) -> CommandError {
        CommandError::new(format!("ERR invalid expire time in '{name}' command"))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for CommandError {}

/// What C's `%.*s` prints of it: at most `longest` bytes, and nothing from a zero byte on.
fn c_string(bytes: &[u8], longest: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(longest)];
    &bytes[..bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len())]
}

/// An integer argument.
///
/// # Errors
/// [`CommandError::NOT_AN_INTEGER`].
pub fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    parse_integer(argument).ok_or(CommandError::NOT_AN_INTEGER)
}

/// A floating point argument.
///
/// # Errors
/// [`CommandError::NOT_A_FLOAT`].
pub fn float(argument: &[u8]) -> Result<Extended, CommandError> {
    Extended::parse(argument).ok_or(CommandError::NOT_A_FLOAT)
}

/// Whether an argument is this keyword, in any case.
pub fn is_keyword(argument: &[u8], keyword: &str) -> bool {
    argument.eq_ignore_ascii_case(keyword.as_bytes())
}

/// Whether a time is counted in seconds or milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

/// Where a time is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBase {
    /// From now.
    Now,
    /// From the Unix epoch.
    Epoch,
}

/// The deadline, in Unix milliseconds, of SET's EX, PX, EXAT and PXAT, of GETEX, SETEX and PSETEX: positive times
/// only. `now` is in Unix milliseconds, `name` the command's for the error.
///
/// # Errors
/// [`CommandError::NOT_AN_INTEGER`], or [`CommandError::invalid_expire`] for what is not positive or overflows.
pub fn positive_deadline(
    argument: &[u8],
    unit: TimeUnit,
    base: TimeBase,
    now: i64,
    name: &str,
) -> Result<i64, CommandError> {
    let time = integer(argument)?;
    let deadline = if time > 0 {
        to_deadline(time, unit, base, now)
    } else {
        None
    };
    deadline.ok_or_else(|| CommandError::invalid_expire(name))
}

/// The deadline of EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT: any time, past ones too.
///
/// # Errors
/// [`CommandError::NOT_AN_INTEGER`], or [`CommandError::invalid_expire`] for what overflows.
pub fn deadline(
    argument: &[u8],
    unit: TimeUnit,
    base: TimeBase,
    now: i64,
    name: &str,
) -> Result<i64, CommandError> {
    let time = integer(argument)?;
    to_deadline(time, unit, base, now).ok_or_else(|| CommandError::invalid_expire(name))
}

fn to_deadline(time: i64, unit: TimeUnit, base: TimeBase, now: i64) -> Option<i64> {
    let milliseconds = match unit {
        TimeUnit::Seconds => time.checked_mul(1000)?,
        TimeUnit::Milliseconds => time,
    };
    match base {
        TimeBase::Now => milliseconds.checked_add(now),
        TimeBase::Epoch => Some(milliseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_do_not_overflow() {
        let set = |text: &[u8], unit, base| {
            positive_deadline(text, unit, base, 1_000, "set").map_err(|e| e.to_string())
        };
        let invalid = Err("ERR invalid expire time in 'set' command".to_owned());
        assert_eq!(set(b"5", TimeUnit::Seconds, TimeBase::Now), Ok(6_000));
        assert_eq!(set(b"5", TimeUnit::Milliseconds, TimeBase::Epoch), Ok(5));
        assert_eq!(set(b"0", TimeUnit::Seconds, TimeBase::Now), invalid);
        assert_eq!(set(b"-1", TimeUnit::Seconds, TimeBase::Epoch), invalid);
        assert_eq!(
            set(
                b"9223372036854775807",
                TimeUnit::Milliseconds,
                TimeBase::Now
            ),
            invalid
        );
        assert_eq!(
            set(b"9223372036854776", TimeUnit::Seconds, TimeBase::Epoch),
            invalid
        );
        assert_eq!(
            deadline(b"-5", TimeUnit::Seconds, TimeBase::Now, 1_000, "expire"),
            Ok(-4_000)
        );
    }

    #[test]
    fn line_ends_never_reach_an_error() {
        let error = CommandError::unknown_command(&[b"a\r\n+OK", b"b\0c"]);
        assert_eq!(
            error.text(),
            "ERR unknown command 'a  +OK', with args beginning with: 'b' "
        );
    }
}
