//! Implements LOLWUT, which draws a picture and reports the version.

use crate::arguments::{integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::table::REDIS_VERSION;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[("lolwut", lolwut)];

/// The default number of bays in the picture of a vault. `BAYS_MAX` is the maximum number.
const BAYS: usize = 5;
const BAYS_MAX: usize = 40;
/// The lines of one bay of an undercroft. Each line is paired with its part of the pillar that ends
/// the row of bays.
const BAY: [(&str, &str); 6] = [
    ("____________", "_"),
    ("|  .-\"\"\"\"-. ", "|"),
    ("| /        \\", "|"),
    ("|/          ", "|"),
    ("||          ", "|"),
    ("##__________", "#"),
];

/// Handles `LOLWUT [VERSION version] [bays]`.
fn lolwut(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (version, sizes) = match &arguments[1..] {
        [word, version, rest @ ..] if is_keyword(word, "VERSION") => (integer(version)?, rest),
        rest => (7, rest),
    };
    // As in Redis, only versions 5 and 6 of LOLWUT accept further arguments, which must be
    // integers.
    let mut bays = BAYS;
    if matches!(version, 5 | 6) {
        let mut numbers = Vec::new();
        for size in sizes.iter().take(3) {
            numbers.push(integer(size)?);
        }
        let wanted = numbers
            .first()
            .map(|first| first.clamp(&1, &(BAYS_MAX as i64)));
        bays = wanted.map_or(BAYS, |wanted| *wanted as usize);
    }
    reply.verbatim("txt", picture(bays).as_bytes());
    Ok(())
}

/// Returns the picture, followed by the version.
fn picture(bays: usize) -> String {
    let mut text = String::new();
    for (bay, end) in BAY {
        text.push_str(&bay.repeat(bays));
        text.push_str(end);
        text.push('\n');
    }
    let own = env!("CARGO_PKG_VERSION");
    text.push_str(&format!("\nUndercroft {own}. Redis ver. {REDIS_VERSION}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_of_the_picture_have_the_same_length() {
        for bays in [1, BAYS, BAYS_MAX] {
            let text = picture(bays);
            let lengths: Vec<usize> = text.lines().take(BAY.len()).map(str::len).collect();
            assert_eq!(lengths, [bays * 12 + 1; BAY.len()]);
        }
    }
}
