//! The benchmark's rows that are native code: each subcommand prints one JSON
//! object with its raw figures, and `bench/run.py` makes the table.
//!
//! - `copies`: writers while somebody copies the store.
//! - `hot`: get and set, against the standard library's HashMap in the same run.
//! - `lists`: a long list: its memory, ranges of it, and readers of ranges beside a writer.
//! - `messages`: messages to waiting subscribers: how long one takes, and how many pass in a second; through a store,
//!   or through Redis on a unix socket.
//! - `readers`: readers beside a writer: what one more reader costs the others.
//! - `sizes`: memory per key, and the time to open a store.

mod copies;
mod hot;
mod lists;
mod messages;
mod readers;
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
    /// get into the caller's buffer, against HashMap get and copy.
    Get(hot::Work),
    /// set that overwrites, against HashMap insert.
    Set(hot::Work),
    /// Writers while the store is copied.
    Copies(copies::Work),
    /// A long list: memory, ranges, pushes and pops.
    Lists(lists::Work),
    /// Only the store's side of one operation, for counting instructions.
    Loop(hot::Loop),
    /// Messages to waiting subscribers, beside Redis on a unix socket.
    Messages(messages::Work),
    /// One and two reading processes beside a writer.
    Readers(readers::Work),
    /// Memory per key, all in.
    Memory(sizes::Memory),
    /// Time to open a store from a new process.
    Open(sizes::Open),
}

fn main() {
    match Arguments::parse().what {
        What::Get(work) => work.get(),
        What::Set(work) => work.set(),
        What::Copies(work) => work.run(),
        What::Lists(work) => work.run(),
        What::Loop(work) => work.run(),
        What::Messages(work) => work.run(),
        What::Readers(work) => work.run(),
        What::Memory(work) => work.run(),
        What::Open(work) => work.run(),
    }
}

/// A fresh store in shared memory, removed with its directory.
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
