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
    match left {
        0 => say!("sound: no dead process has left anything behind"),
        left => say!(
            "recovered: {} that dead processes held",
            counted(left, "lock")
        ),
    }
    Ok(ExitCode::SUCCESS)
}
