//! Parses rank ranges, score ranges and lexicographic ranges.

use undercroft_engine::sorted_sets::{Bounds, ScoreBound, TextBound};

use crate::algorithms::double::parse_bound;
use crate::arguments::{CommandError, integer};

fn score_bound(argument: &[u8]) -> Option<ScoreBound> {
    let (exclusive, number) = match argument {
        [b'(', number @ ..] => (true, number),
        _ => (false, argument),
    };
    let score = parse_bound(number)?;
    Some(ScoreBound { score, exclusive })
}

fn text_bound(argument: &[u8]) -> Option<TextBound<'_>> {
    match argument {
        [b'-'] | [b'-', 0, ..] => Some(TextBound::Least),
        [b'+'] | [b'+', 0, ..] => Some(TextBound::Greatest),
        [b'[', text @ ..] => Some(TextBound::Text {
            text,
            exclusive: false,
        }),
        [b'(', text @ ..] => Some(TextBound::Text {
            text,
            exclusive: true,
        }),
        _ => None,
    }
}

/// Parses a range of ranks.
pub(super) fn ranks<'a>(start: &[u8], stop: &[u8]) -> Result<Bounds<'a>, CommandError> {
    Ok(Bounds::Ranks(integer(start)?, integer(stop)?))
}

/// Parses a range of scores. The lower bound comes first.
pub(super) fn scores<'a>(low: &[u8], high: &[u8]) -> Result<Bounds<'a>, CommandError> {
    match (score_bound(low), score_bound(high)) {
        (Some(low), Some(high)) => Ok(Bounds::Scores(low, high)),
        _ => Err(CommandError::fixed("ERR min or max is not a float")),
    }
}

/// Parses a lexicographic range. The lower bound comes first.
pub(super) fn texts<'a>(low: &'a [u8], high: &'a [u8]) -> Result<Bounds<'a>, CommandError> {
    match (text_bound(low), text_bound(high)) {
        (Some(low), Some(high)) => Ok(Bounds::Texts(low, high)),
        _ => Err(CommandError::fixed(
            "ERR min or max not valid string range item",
        )),
    }
}
