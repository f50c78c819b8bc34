//! LOLWUT: a picture and the version.

use crate::arguments::{integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::table::REDIS_VERSION;

/// The commands of this file.
pub(crate) const HANDLERS: &[HandlerEntry] = &[("lolwut", lolwut)];

/// Bays of the vault that is drawn, and the most that may be asked for.
const BAYS: usize = 5;
const BAYS_MAX: usize = 40;
/// One bay of an undercroft, and the pillar that ends the row.
const BAY: [(&str, &str); 6] = [
    ("____________", "_"),
    ("|  .-\"\"\"\"-. ", "|"),
    ("| /        \\", "|"),
    ("|/          ", "|"),
    ("||          ", "|"),
    ("##__________", "#"),
];

/// `LOLWUT [VERSION version] [bays]`.
fn lolwut(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (version, sizes) = match &arguments[1..] {
        [word, version, rest @ ..] if is_keyword(word, "VERSION") => (integer(version)?, rest),
        rest => (7, rest),
    };
    // Only these of Redis' versions look at what is behind, and take numbers only.
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

/// The picture, and below it the version.
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
    fn the_lines_of_the_picture_are_equally_long() {
        for bays in [1, BAYS, BAYS_MAX] {
            let text = picture(bays);
            let lengths: Vec<usize> = text.lines().take(BAY.len()).map(str::len).collect();
            assert_eq!(lengths, [bays * 12 + 1; BAY.len()]);
        }
    }
}
