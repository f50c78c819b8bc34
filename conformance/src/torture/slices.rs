//! Sends the same bytes in different pieces, because read boundaries must not matter.

use anyhow::{Result, ensure};

use super::inputs::{exchange, malformed, well_formed};
use super::{Note, Target};
use crate::client::Address;

/// Checks that valid and invalid input, sent one byte per write, gets the answer that Redis gives
/// to the complete input.
///
/// # Errors
/// Returns an error that states the expected and the actual answer.
pub fn one_byte_at_a_time(target: &Target, judge: &Address) -> Result<Note> {
    let mut inputs = vec![("well-formed input", well_formed())];
    // Skip long inputs, because they test a limit rather than splitting.
    inputs.extend(
        malformed()
            .into_iter()
            .filter(|(_, bytes)| bytes.len() < 1000),
    );
    let count = inputs.len();
    for (name, bytes) in inputs {
        let expected = exchange(judge, &[&bytes])?;
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        let answer = exchange(&target.address, &pieces)?;
        ensure!(
            answer.bytes == expected.bytes || answer.reset,
            "{name}: Redis answers {} to the whole, got {} to single bytes",
            expected.show(),
            answer.show()
        );
    }
    Ok(format!("{count} inputs"))
}

/// Checks the answers to valid input sent in two writes, split at every position.
///
/// # Errors
/// Returns an error that states the expected and the actual answer.
pub fn split_everywhere(target: &Target, judge: &Address) -> Result<Note> {
    let bytes = well_formed();
    let expected = exchange(judge, &[&bytes])?;
    ensure!(
        expected.bytes.len() > 100,
        "the judge's answer is too short to mean anything"
    );
    for place in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(place);
        let answer = exchange(&target.address, &[head, tail])?;
        ensure!(
            answer == expected,
            "split at byte {place}: expected {}, got {}",
            expected.show(),
            answer.show()
        );
    }
    Ok(format!("{} places", bytes.len() + 1))
}
