//! Parses command arguments strictly, using Redis' rules and error texts.
//!
//! An integer has exactly one valid spelling: `7` is accepted, but `+7`, `07` and ` 7` are
//! rejected. Times to live are checked for overflow before use. The error texts are those of Redis
//! 7.0, because clients match on them.

use std::borrow::Cow;
use std::fmt;

use undercroft_numbers::parse_integer;

use crate::algorithms::extended::Extended;
use crate::reply::Reply;

/// A complete error reply, including the error code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    text: Cow<'static, str>,
    /// The bytes to send instead of `text`, if the error quotes bytes that are not valid UTF-8.
    raw: Option<Box<[u8]>>,
}

impl CommandError {
    /// The value or argument is not a valid 64-bit integer.
    pub const NOT_AN_INTEGER: CommandError =
        CommandError::fixed("ERR value is not an integer or out of range");
    /// The value or argument is not a valid floating-point number.
    pub const NOT_A_FLOAT: CommandError = CommandError::fixed("ERR value is not a valid float");
    /// The options are unknown, incomplete or incompatible.
    pub const SYNTAX: CommandError = CommandError::fixed("ERR syntax error");
    /// The key holds a value of a different type than the command requires.
    pub const WRONG_TYPE: CommandError =
        CommandError::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// CLIENT UNBLOCK has ended a wait with an error.
    pub const UNBLOCKED: CommandError =
        CommandError::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");
    /// The key does not exist.
    pub const NO_SUCH_KEY: CommandError = CommandError::fixed("ERR no such key");
    /// The database number is greater than or equal to `databases`.
    pub const DATABASE_OUT_OF_RANGE: CommandError =
        CommandError::fixed("ERR DB index is out of range");
    /// The resulting string would exceed `proto-max-bulk-len`.
    pub const STRING_TOO_LONG: CommandError =
        CommandError::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    /// The increment would overflow a 64-bit counter.
    pub const OVERFLOW: CommandError =
        CommandError::fixed("ERR increment or decrement would overflow");
    /// The result of an increment would be NaN or infinite.
    pub const NAN_OR_INFINITY: CommandError =
        CommandError::fixed("ERR increment would produce NaN or Infinity");
    /// The memory limit has been reached, and no key can be evicted.
    pub const OUT_OF_MEMORY: CommandError =
        CommandError::fixed("OOM command not allowed when used memory > 'maxmemory'.");

    /// The store is a replica.
    pub const READ_ONLY: CommandError =
        CommandError::fixed("READONLY You can't write against a read only replica.");
    /// Fewer replicas are connected than writes require (`min-replicas-to-write`).
    pub const NO_REPLICAS: CommandError =
        CommandError::fixed("NOREPLICAS Not enough good replicas to write.");

    /// Returns whether the store had no memory for a change, or its journal no space.
    pub(crate) fn is_lack_of_space(&self) -> bool {
        self.text.starts_with("OOM ") || self.text.starts_with("MISCONF ")
    }

    /// Returns the reply to EXEC when this error prevents the transaction from running.
    pub(crate) fn aborts_exec(&self) -> CommandError {
        let reason = self.text.strip_prefix("ERR ").unwrap_or(&self.text);
        CommandError::new(format!(
            "EXECABORT Transaction discarded because of: {reason}"
        ))
    }

    /// Returns an error whose text is known at compile time.
    pub const fn fixed(text: &'static str) -> CommandError {
        CommandError {
            text: Cow::Borrowed(text),
            raw: None,
        }
    }

    /// Returns an error with a formatted text. As in Redis, line breaks are replaced with spaces,
    /// so that client input cannot terminate the reply early.
    pub fn new(text: String) -> CommandError {
        CommandError::from_parts(&[text.as_bytes()])
    }

    /// Returns an error that quotes bytes from the client, which may be invalid UTF-8.
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

    /// Returns the error text. Bytes that are not valid UTF-8 are replaced.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the error to a reply.
    pub fn write<R: Reply + ?Sized>(&self, reply: &mut R) {
        match &self.raw {
            None => reply.error(&self.text),
            Some(bytes) => reply.error_bytes(bytes),
        }
    }

    /// Returns the error for a wrong number of arguments. `name` is the command's name in
    /// lowercase, prefixed with `container|` for a subcommand.
    pub fn wrong_arity(name: &str) -> CommandError {
        CommandError::new(format!(
            "ERR wrong number of arguments for '{name}' command"
        ))
    }

    /// Returns the error for an unknown command. The first of the `arguments` is the command's
    /// name.
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

    /// Returns the error for an unknown subcommand of the `container` command.
    pub fn unknown_subcommand(container: &str, name: &[u8]) -> CommandError {
        CommandError::from_parts(&[
            b"ERR unknown subcommand '",
            c_string(name, 128),
            b"'. Try ",
            container.to_ascii_uppercase().as_bytes(),
            b" HELP.",
        ])
    }

    /// Returns the error for unknown or incomplete options of a subcommand.
    pub fn subcommand_syntax(container: &str, name: &[u8]) -> CommandError {
        CommandError::from_parts(&[
            b"ERR unknown subcommand or wrong number of arguments for '",
            c_string(name, 128),
            b"'. Try ",
            container.to_ascii_uppercase().as_bytes(),
            b" HELP.",
        ])
    }

    /// Returns an error that quotes an argument up to the argument's first zero byte.
    pub fn quoting(before: &str, argument: &[u8], after: &str) -> CommandError {
        let argument = c_string(argument, argument.len());
        CommandError::from_parts(&[before.as_bytes(), b"'", argument, b"'", after.as_bytes()])
    }

    /// Returns the error for a time to live that is zero, negative or too large. `name` is the
    /// command's name in lowercase.
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

/// Returns the bytes that C's `%.*s` would print: at most `longest` bytes, ending before the first
/// zero byte.
pub(crate) fn c_string(bytes: &[u8], longest: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(longest)];
    &bytes[..bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len())]
}

/// Parses an integer argument.
///
/// # Errors
/// Returns [`CommandError::NOT_AN_INTEGER`] if the argument is not an integer.
pub fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    parse_integer(argument).ok_or(CommandError::NOT_AN_INTEGER)
}

/// Parses a floating-point argument.
///
/// # Errors
/// Returns [`CommandError::NOT_A_FLOAT`] if the argument is not a number.
pub fn float(argument: &[u8]) -> Result<Extended, CommandError> {
    Extended::parse(argument).ok_or(CommandError::NOT_A_FLOAT)
}

/// Returns whether an argument equals a keyword, ignoring case.
pub fn is_keyword(argument: &[u8], keyword: &str) -> bool {
    argument.eq_ignore_ascii_case(keyword.as_bytes())
}

/// The unit of a time argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// The argument is in seconds.
    Seconds,
    /// The argument is in milliseconds.
    Milliseconds,
}

/// The point in time to which a time argument is relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBase {
    /// The argument is relative to the current time.
    Now,
    /// The argument is relative to the Unix epoch.
    Epoch,
}

/// Parses the positive time argument of SET, GETEX, SETEX or PSETEX, and returns the deadline in
/// Unix milliseconds. `now` is the current time in Unix milliseconds, and `name` is the command's
/// name for the error.
///
/// # Errors
/// Returns [`CommandError::NOT_AN_INTEGER`] if the argument is not an integer, or
/// [`CommandError::invalid_expire`] if the time is not positive or overflows.
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

/// Parses the time argument of EXPIRE, PEXPIRE, EXPIREAT or PEXPIREAT, and returns the deadline in
/// Unix milliseconds, which can be in the past.
///
/// # Errors
/// Returns [`CommandError::NOT_AN_INTEGER`] if the argument is not an integer, or
/// [`CommandError::invalid_expire`] if the time overflows.
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
    fn times_that_overflow_a_deadline_are_rejected() {
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
    fn line_breaks_in_client_input_become_spaces_in_errors() {
        let error = CommandError::unknown_command(&[b"a\r\n+OK", b"b\0c"]);
        assert_eq!(
            error.text(),
            "ERR unknown command 'a  +OK', with args beginning with: 'b' "
        );
    }
}
