//! Bad protocol input, many connections, and clients that do not read.
//!
//! Each test runs against any address. Where Redis' answer is determined by the
//! bytes alone, a real Redis gives the expected one; elsewhere the demand is
//! that memory stays bounded and everyone else is served.
//!
//! - `crowd`: many connections.
//! - `greedy`: clients that want the server's memory.
//! - `inputs`: byte strings to send, and what a server answers to them.
//! - `malformed`: malformed input: the known ways to be wrong, and damage at random.
//! - `pipelines`: very long pipelines.
//! - `slices`: the same bytes in other pieces: where a read ends must not matter.
//! - `subscribers`: subscribers that do not read, against the limits of their output.

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
    /// Where it listens.
    pub address: Address,
    /// Its process, for measuring memory; `None` when it runs elsewhere.
    pub pid: Option<u32>,
}

/// How much to do.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Idle connections.
    pub idle: usize,
    /// Inputs damaged at random.
    pub damaged: usize,
    /// Seed of the damage.
    pub seed: u64,
}

/// What a test found worth saying beside "passed".
pub type Note = String;

/// Runs everything that needs no special settings of the server, prints a line
/// for each test and returns how many failed.
///
/// # Errors
/// Never for a failing test; when the output cannot be produced.
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

/// Settings of a server that is tortured: a Redis reserves what clients announce, half a gigabyte each, and touches
/// little of it; what it touches is measured.
pub fn settings() -> Settings {
    Settings {
        memory_max: None,
        ..Settings::default()
    }
}

/// A new connection gets its commands done.
///
/// # Errors
/// What was expected and what came.
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
