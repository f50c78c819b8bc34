//! `undercroft recover`.

use std::process::ExitCode;

use undercroft_engine::Holder;

use crate::arguments::OfStore;
use crate::failure::Outcome;
use crate::out::say;
use crate::size::counted;
use crate::store::{self, Access};

pub(crate) fn run(arguments: &OfStore) -> Outcome {
    let store = store::open(arguments.store.name(), Access::Write)?;
    let left = store
        .held_locks()
        .into_iter()
        .filter(|lock| lock.holder == Holder::Dead);
    let left = left.count() as u64;
    store.recover()?;
    let waits = store.free_all_of_the_dead()? as u64;
    match (left, waits) {
        (0, 0) => say!("sound: no dead process has left anything behind"),
        (left, 0) => say!(
            "recovered: {} that dead processes held",
            counted(left, "lock")
        ),
        (left, waits) => say!(
            "recovered: {} that dead processes held, and {} at which they waited",
            counted(left, "lock"),
            counted(waits, "place")
        ),
    }
    Ok(ExitCode::SUCCESS)
}
