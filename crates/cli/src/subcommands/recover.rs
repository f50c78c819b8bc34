//! Implements `undercroft recover`.

use std::time::{Duration, Instant};

use undercroft_engine::{Error, Holder, Pace, Store};

use crate::arguments::journal::Recover;
use crate::failure::{Outcome, SUCCESS};
use crate::out::say;
use crate::size::counted;
use crate::store::{self, Access};
use crate::subcommands::point_in_time;

/// The maximum time that upkeep waits for events that it cannot hasten: the end of the grace period
/// before memory returns to the system, and the release of locks that other processes hold.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pause between upkeep steps while waiting.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) fn run(arguments: &Recover) -> Outcome {
    if let Some(until) = &arguments.until {
        return point_in_time::run(arguments, until);
    }
    let store = store::open(arguments.store.name(), Access::Write)?;
    // Disable automatic upkeep, so that all expired keys are removed and counted below.
    store.leave_upkeep_to_a_timer();
    let left = store
        .held_locks()
        .into_iter()
        .filter(|lock| lock.holder == Holder::Dead);
    let left = left.count() as u64;
    store.recover()?;
    let waits = store.free_all_of_the_dead()? as u64;
    match (left, waits) {
        (0, 0) => say!("sound: no dead process left anything to recover"),
        (left, 0) => say!(
            "recovered: {} that dead processes held",
            counted(left, "lock")
        ),
        (left, waits) => say!(
            "recovered: {} that dead processes held, and {} for which they waited",
            counted(left, "lock"),
            counted(waits, "place")
        ),
    }
    match keep(&store)? {
        0 => {}
        expired => say!("removed: {} that had expired", counted(expired, "key")),
    }
    Ok(SUCCESS)
}

/// Runs all pending upkeep. Returns the number of expired keys that were removed.
fn keep(store: &Store) -> Result<u64, Error> {
    let (mut expired, mut last) = (0, Instant::now());
    loop {
        let kept = store.upkeep_step()?;
        expired += kept.expired;
        match kept.pace {
            Pace::Idle => return Ok(expired),
            Pace::Steady if last.elapsed() > PATIENCE => return Ok(expired),
            Pace::Steady => std::thread::sleep(PAUSE),
            Pace::Hurry => last = Instant::now(),
        }
    }
}
