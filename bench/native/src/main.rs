//! The native rows of the benchmark. Each subcommand prints one JSON object with its raw figures;
//! `bench/run.py` creates the table.
//!
//! - `copies`: the longest write while another process copies the store.
//! - `durable`: stores with a journal: writes, checkpoints and recovery.
//! - `hot`: `get` and `set`, compared with the standard library's HashMap in the same run.
//! - `lists`: the memory of a long list, reads of its ranges, and readers concurrent with a writer.
//! - `messages`: latency and throughput of messages to waiting subscribers, through a store or
//!   through Redis on a unix socket.
//! - `readers`: readers concurrent with a writer, and how much a second reader slows down the
//!   first.
//! - `replicated`: writes to a store that has a replica.
//! - `sizes`: memory per key, and the time to open a store.

mod copies;
mod durable;
mod hot;
mod lists;
mod messages;
mod readers;
mod replicated;
mod sizes;

use clap::{Parser, Subcommand};
use undercroft_embedded::{Place, StoreOf};
use undercroft_engine::Terms;

/// Measures the embedded engine from native code.
///
/// Example: undercroft-bench get --keys 100000 --rounds 21
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// `get` into the caller's buffer, compared with a HashMap lookup and copy.
    Get(hot::Work),
    /// `set` of existing keys, compared with a HashMap insertion.
    Set(hot::Work),
    /// The longest write while another process copies the store.
    Copies(copies::Work),
    /// Stores with a journal.
    #[command(subcommand)]
    Durable(durable::Work),
    /// A long list: memory, ranges, pushes and pops.
    Lists(lists::Work),
    /// One operation on a store without a peer, for counting instructions.
    Loop(hot::Loop),
    /// Messages to waiting subscribers, through a store or through Redis on a unix socket.
    Messages(messages::Work),
    /// One and two reading processes, concurrent with a writer.
    Readers(readers::Work),
    /// `set` in stores of servers, with and without a replica.
    Replicated(replicated::Work),
    /// Total memory per key.
    Memory(sizes::Memory),
    /// The time to open a store from a new process.
    Open(sizes::Open),
}

fn main() {
    match Arguments::parse().what {
        What::Get(work) => work.get(),
        What::Set(work) => work.set(),
        What::Copies(work) => work.run(),
        What::Durable(work) => work.run(),
        What::Lists(work) => work.run(),
        What::Loop(work) => work.run(),
        What::Messages(work) => work.run(),
        What::Readers(work) => work.run(),
        What::Replicated(work) => work.run(),
        What::Memory(work) => work.run(),
        What::Open(work) => work.run(),
    }
}

/// Creates a store in a temporary directory in shared memory.
fn fresh_store(capacity: u64) -> (tempfile::TempDir, StoreOf) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let terms = Terms {
        capacity: Some(capacity),
        max_memory: Some(0),
        ..Terms::default()
    };
    let path = directory.path().join("store");
    let name = path.to_str().expect("a path of letters");
    let place = Place::new(name, terms).expect("a path is a name");
    let store = place.open(|| None).expect("a new store");
    (directory, StoreOf(store))
}
