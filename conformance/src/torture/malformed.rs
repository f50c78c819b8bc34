//! Tests malformed input: known kinds of errors, and random damage.

use anyhow::{Result, ensure};

use super::inputs::{Answer, exchange, malformed, well_formed};
use super::{Note, Target, others_are_served};
use crate::client::{Address, Client};
use crate::command::quote;

/// Returns whether the subject's answer is acceptable although it differs from the judge's. This is
/// the case if a reset truncated it, or if the subject is stricter and reports a protocol error
/// after a common beginning.
fn acceptable(judge: &Answer, subject: &Answer) -> bool {
    if judge.reset || subject.reset {
        return judge.bytes.starts_with(&subject.bytes) || subject.bytes.starts_with(&judge.bytes);
    }
    let common = judge
        .bytes
        .iter()
        .zip(&subject.bytes)
        .take_while(|(a, b)| a == b)
        .count();
    subject.tells_protocol_error() && subject.bytes[common..].len() < 200
}

/// Checks that the answer to every known input equals Redis' answer byte for byte.
///
/// # Errors
/// Returns an error that lists all inputs with a different answer.
pub fn known_inputs(target: &Target, judge: &Address) -> Result<Note> {
    compare_all(target, judge, malformed())
}

/// Checks inputs on servers that require a password, because the limits before AUTH are small. Both
/// servers must have been started with a password.
///
/// # Errors
/// Returns an error that lists all inputs with a different answer.
pub fn unauthenticated_inputs(target: &Target, judge: &Address) -> Result<Note> {
    let inputs: [(&'static str, &[u8]); 9] = [
        ("a command", b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
        ("an inline command", b"GET k\r\nPING\r\n"),
        ("an unknown command", b"NOSUCH a b\r\n"),
        ("HELLO", b"HELLO 3\r\nHELLO 2 SETNAME x\r\n"),
        (
            "wrong passwords",
            b"AUTH wrong\r\nAUTH default wrong\r\nAUTH nobody wrong\r\n",
        ),
        ("ten words", b"*10\r\n$4\r\nPING\r\n"),
        ("eleven words", b"*11\r\n$4\r\nPING\r\n"),
        ("the longest allowed word", b"*1\r\n$16384\r\n"),
        ("a longer word", b"*1\r\n$16385\r\n"),
    ];
    let inputs = inputs
        .into_iter()
        .map(|(name, bytes)| (name, bytes.to_vec()))
        .collect();
    compare_all(target, judge, inputs)
}

fn compare_all(
    target: &Target,
    judge: &Address,
    inputs: Vec<(&'static str, Vec<u8>)>,
) -> Result<Note> {
    let count = inputs.len();
    let mut wrong = Vec::new();
    for (name, bytes) in inputs {
        let expected = exchange(judge, &[&bytes])?;
        let answer = exchange(&target.address, &[&bytes])?;
        let cut_short = (expected.reset || answer.reset) && acceptable(&expected, &answer);
        if expected != answer && !cut_short {
            wrong.push(format!(
                "{name}: Redis answers {}, got {}",
                expected.show(),
                answer.show()
            ));
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} of {count} inputs:\n  {}",
        wrong.len(),
        wrong.join("\n  ")
    );
    Ok(format!("{count} inputs, all replies equal to Redis"))
}

/// Sends well-formed input with a few bytes changed, dropped, doubled or cut off. The answer must
/// equal Redis' answer, except that it can be a protocol error at another position, and the server
/// must survive.
///
/// # Errors
/// Returns an error with the first input whose answer is unacceptable, and the seed.
pub fn damaged_inputs(target: &Target, judge: &Address, count: usize, seed: u64) -> Result<Note> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut stricter = 0;
    // Remove the keys of earlier runs from both servers, because damaged input can create keys.
    Client::connect(judge)?.call(["FLUSHALL"])?;
    Client::connect(&target.address)?.call(["FLUSHALL"])?;
    for number in 0..count {
        let bytes = damage(&mut rng);
        let expected = exchange(judge, &[&bytes])?;
        let answer = exchange(&target.address, &[&bytes])?;
        if expected != answer {
            stricter += 1;
            ensure!(
                acceptable(&expected, &answer),
                "input {number} of seed {seed}, {}: Redis answers {}, got {}",
                quote(&bytes, true),
                expected.show(),
                answer.show()
            );
        }
    }
    others_are_served(&target.address)?;
    Ok(format!(
        "{count} inputs of seed {seed}, {stricter} replies differ from Redis"
    ))
}

fn damage(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = well_formed();
    for _ in 0..rng.usize(1..=3) {
        if bytes.is_empty() {
            break;
        }
        let place = rng.usize(0..bytes.len());
        match rng.u32(0..5) {
            0 => bytes[place] = rng.u8(..),
            1 => bytes[place] = b"*$\r\n0-9+ \"'"[rng.usize(0..11)],
            2 => drop(bytes.remove(place)),
            3 => bytes.insert(place, bytes[place]),
            _ => bytes.truncate(place),
        }
    }
    bytes
}
