//! Stores the state of commands that wait for keys, and writes their replies.

use std::time::{Duration, Instant};

use undercroft_engine::streams::StreamEntries;
use undercroft_engine::waiting::{Answer, Taken, Ticket};

use crate::algorithms::extended::Extended;
use crate::arguments::CommandError;
use crate::reply::Reply;
use crate::reply::streams::write_streams;

/// The maximum number of stream entries that a waiting client receives if its command specifies no
/// count.
pub const MOST_WAITED_FOR: u64 = 1000;

/// The form of a waiting command's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The key and the item, for BLPOP and BRPOP.
    Pair,
    /// The item, for BLMOVE and BRPOPLPUSH.
    Item,
    /// The key and the items, for BLMPOP.
    Items,
    /// The key, the member and its score, for BZPOPMIN and BZPOPMAX.
    Member,
    /// The key and the members with their scores, for BZMPOP.
    Members,
    /// The key and the entries, as a map or an array, for XREAD and XREADGROUP.
    Entries {
        /// Whether the reply is a map instead of an array.
        is_map: bool,
    },
}

/// A command that is waiting and has not been answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The ticket that identifies the wait in the store.
    pub ticket: Ticket,
    /// The time at which the wait times out, or `None` if it never does.
    pub deadline: Option<Instant>,
    shape: Shape,
}

impl Wait {
    /// Returns the wait of a client that does not run a command, but only waits until something is
    /// ready.
    pub fn looking(ticket: Ticket, timeout: Option<Duration>) -> Wait {
        Wait::new(ticket, timeout, Shape::Item)
    }

    pub(crate) fn new(ticket: Ticket, timeout: Option<Duration>, shape: Shape) -> Wait {
        Wait {
            ticket,
            // If the deadline exceeds the range of the clock, the wait never times out.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            shape,
        }
    }

    /// Writes the reply to the waiting command. Returns whether the reply is an error.
    pub fn answer<R: Reply>(&self, answer: &Answer, reply: &mut R) -> bool {
        match write(self.shape, answer, reply) {
            Ok(()) => false,
            Err(error) => {
                error.write(reply);
                true
            }
        }
    }
}

/// Returns the error that ended a wait, or `None` if the wait ended normally.
pub fn error_of(answer: &Answer) -> Option<CommandError> {
    let text = match answer {
        Answer::Removed(_) => {
            let error = answer.error()?;
            return Some(CommandError::new(format!("ERR {error}")));
        }
        Answer::WrongType => return Some(CommandError::WRONG_TYPE),
        Answer::NoStream => "UNBLOCKED the stream key no longer exists",
        Answer::NoGroup => "NOGROUP the consumer group this client was blocked on no longer exists",
        Answer::Unblocked => return Some(CommandError::UNBLOCKED),
        Answer::Taken(_) | Answer::Ready | Answer::TimedOut => return None,
    };
    Some(CommandError::fixed(text))
}

/// Writes the reply to a command whose wait has ended.
pub(crate) fn write(
    shape: Shape,
    answer: &Answer,
    reply: &mut dyn Reply,
) -> Result<(), CommandError> {
    if let Some(error) = error_of(answer) {
        return Err(error);
    }
    match answer {
        Answer::Taken(taken) => write_taken(shape, taken, reply),
        Answer::Ready => reply.ok(),
        _ => reply.null_array(),
    }
    Ok(())
}

fn write_taken(shape: Shape, taken: &Taken, reply: &mut dyn Reply) {
    let scores = taken.scores.iter().copied();
    let mut members = taken.items.iter().zip(scores);
    match shape {
        Shape::Item => reply.bulk(taken.items.get(0)),
        Shape::Pair => {
            reply.array(2);
            reply.bulk(&taken.key);
            reply.bulk(taken.items.get(0));
        }
        Shape::Items => {
            reply.array(2);
            reply.bulk(&taken.key);
            reply.array(taken.items.len());
            reply.bulks(&taken.items);
        }
        Shape::Member => {
            reply.array(3);
            reply.bulk(&taken.key);
            let (member, score) = members.next().unwrap_or_default();
            reply.bulk(member);
            reply.double(score);
        }
        Shape::Entries { is_map } => {
            let entries = StreamEntries::of_texts(&taken.items);
            write_streams(&[(&taken.key, entries)], is_map, reply);
        }
        Shape::Members => {
            reply.array(2);
            reply.bulk(&taken.key);
            reply.array(taken.items.len());
            for (member, score) in members {
                reply.array(2);
                reply.bulk(member);
                reply.double(score);
            }
        }
    }
}

/// Parses a timeout in seconds, and rounds it up to milliseconds. Returns `None` for zero, which
/// means no timeout.
///
/// # Errors
/// Returns the same errors as Redis. As in Redis, a value that exceeds 64 bits in milliseconds
/// counts as negative.
pub(crate) fn timeout(argument: &[u8]) -> Result<Option<Duration>, CommandError> {
    let seconds = Extended::parse(argument).ok_or(CommandError::fixed(
        "ERR timeout is not a float or out of range",
    ))?;
    let milliseconds = seconds.thousandfold().unwrap_or(i64::MIN);
    let milliseconds =
        u64::try_from(milliseconds).map_err(|_| CommandError::fixed("ERR timeout is negative"))?;
    Ok((milliseconds > 0).then(|| Duration::from_millis(milliseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_round_up_to_milliseconds() {
        let milliseconds = |text: &str| {
            let timeout = timeout(text.as_bytes()).expect("a timeout");
            timeout.map(|timeout| timeout.as_millis())
        };
        for (text, expected) in [
            ("0", None),
            ("-0.0000001", None),
            ("1", Some(1000)),
            ("0.0000001", Some(1)),
            ("1e-4000", Some(1)),
            ("0.1234", Some(124)),
            ("2.5", Some(2500)),
            ("0x1p-1", Some(500)),
            ("0.001", Some(1)),
            // In Redis' precision, this value is slightly greater than -1 ms, so it is rounded up
            // to zero.
            ("-0.001", None),
            ("9223372036854775", Some(9_223_372_036_854_775_000)),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
        for text in ["", "x", "nan", " 1", "1 "] {
            let error = timeout(text.as_bytes()).expect_err(text);
            assert_eq!(error.text(), "ERR timeout is not a float or out of range");
        }
        for text in [
            "-1",
            "-0.01",
            "inf",
            "-inf",
            "1e400",
            "9223372036854775.808",
        ] {
            let error = timeout(text.as_bytes()).expect_err(text);
            assert_eq!(error.text(), "ERR timeout is negative");
        }
    }
}
