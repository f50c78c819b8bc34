//! Tests with malformed protocol input, many connections, and clients that do not read.
//!
//! Each test runs against any address. If the bytes alone determine Redis' answer, a real Redis
//! supplies the expected answer. Otherwise, memory must remain bounded and all other clients must
//! be served.
//!
//! - `crowd`: tests with many connections.
//! - `greedy`: clients that try to use up the server's memory.
//! - `inputs`: byte strings to send, and the server's answers to them.
//! - `malformed`: malformed input: known kinds of errors, and random damage.
//! - `pipelines`: very long pipelines.
//! - `slices`: the same bytes in different pieces, because read boundaries must not matter.
//! - `subscribers`: subscribers that do not read and exceed the limits on their output.

mod crowd;
mod greedy;
mod inputs;
mod malformed;
mod pipelines;
mod slices;
mod subscribers;

pub use crowd::{clients_beyond_the_limit, half_sent_commands, idle_connections};
pub use greedy::{announced_lengths, client_that_never_reads};
pub use malformed::{damaged_inputs, known_inputs, unauthenticated_inputs};
pub use pipelines::{many_commands_at_once, many_commands_unread};
pub use slices::{one_byte_at_a_time, split_everywhere};
pub use subscribers::{subscriber_beyond_the_hard_limit, subscriber_beyond_the_soft_limit};

use anyhow::{Result, ensure};

use crate::client::{Address, Client};
use crate::resp::Reply;
use crate::servers::Settings;

/// The server under test.
#[derive(Debug, Clone)]
pub struct Target {
    /// The address on which the server listens.
    pub address: Address,
    /// The server's process id, for measuring memory, or `None` if it runs on another machine.
    pub pid: Option<u32>,
}

/// The amount of work in a run.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The number of idle connections.
    pub idle: usize,
    /// The number of randomly damaged inputs.
    pub damaged: usize,
    /// The seed of the random damage.
    pub seed: u64,
}

/// A remark to print with the result of a passed test.
pub type Note = String;

/// Runs every test that needs no special server settings, prints a line for each, and returns the
/// number of failed tests.
///
/// # Errors
/// Returns an error only if output cannot be written, never for a failing test.
pub fn run_all(target: &Target, judge: &Address, load: &Load) -> Result<usize> {
    type Test<'a> = (&'a str, Box<dyn Fn() -> Result<Note> + 'a>);
    let tests: Vec<Test<'_>> = vec![
        ("known inputs", Box::new(|| known_inputs(target, judge))),
        (
            "damaged inputs",
            Box::new(|| damaged_inputs(target, judge, load.damaged, load.seed)),
        ),
        (
            "one byte at a time",
            Box::new(|| one_byte_at_a_time(target, judge)),
        ),
        (
            "split everywhere",
            Box::new(|| split_everywhere(target, judge)),
        ),
        (
            "100,000 commands at once",
            Box::new(|| many_commands_at_once(target, 100_000)),
        ),
        (
            "100,000 commands, then reading",
            Box::new(|| many_commands_unread(target, 100_000)),
        ),
        (
            "half-sent commands",
            Box::new(|| half_sent_commands(target, 200)),
        ),
        (
            "idle connections",
            Box::new(|| idle_connections(target, load.idle)),
        ),
        ("announced lengths", Box::new(|| announced_lengths(target))),
        (
            "a client that never reads",
            Box::new(|| client_that_never_reads(target)),
        ),
    ];
    let mut failed = 0;
    for (name, test) in tests {
        match test().and_then(|note| others_are_served(&target.address).map(|()| note)) {
            Ok(note) => println!("passed  {name}: {note}"),
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error:#}");
            }
        }
    }
    Ok(failed)
}

/// Returns the settings of a server under torture, which has no memory limit. Redis reserves memory
/// for the lengths that clients announce, half a gigabyte each, but touches little of it, and only
/// touched memory is measured.
pub fn settings() -> Settings {
    Settings {
        memory_max: None,
        ..Settings::default()
    }
}

/// Checks that commands on a new connection are answered.
///
/// # Errors
/// Returns an error that states the expected and the actual reply.
pub fn others_are_served(address: &Address) -> Result<()> {
    let mut other = Client::connect(address)?;
    for (command, expected) in [
        (
            &["SET", "torture:other", "v"][..],
            Reply::Simple(b"OK".to_vec()),
        ),
        (&["GET", "torture:other"], Reply::Bulk(b"v".to_vec())),
        (&["DEL", "torture:other"], Reply::Integer(1)),
    ] {
        let reply = other.call(command)?;
        ensure!(
            reply == expected,
            "another client, {command:?}: expected {expected}, got {reply}"
        );
    }
    Ok(())
}
