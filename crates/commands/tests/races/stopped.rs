//! Runs every read command while a writer is stopped in the middle of a change to its keys (R9).
//! Until the writer commits, the reply must be the one from before the change. From the commit on,
//! it must be the one from after the change. The command never waits.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use undercroft_commands::table::Flag;
use undercroft_memory::fault::{on_step, steps_taken};
use undercroft_testkit::fresh;
use undercroft_testkit::race::{Answers, CASES, Case, Stage, World, words};

use crate::is_full;
use crate::matrix::{command, family, pairs};
use crate::runner::{Outcome, Runner, stage};

/// The number of steps of each change at which the writer is stopped.
const STOPS: usize = 6;

fn reader(stage: &Stage, write: bool) -> Rc<RefCell<Runner>> {
    let runner = Runner::new(stage, write);
    // With a patience (the time that a call may wait) of zero, a call fails instead of waiting for
    // a lock.
    runner.store.set_patience(Duration::ZERO);
    Rc::new(RefCell::new(runner))
}

/// Returns the reply to a call in a state in which no writer is stopped, and all items from which a
/// random reply is chosen.
fn answers(
    runner: &RefCell<Runner>,
    stage: &Stage,
    world: World,
    case: &Case,
    line: &str,
) -> [Outcome; 2] {
    stage.enter(world);
    let mut runner = runner.borrow_mut();
    let all = match case.answers {
        Answers::Random(all) => all,
        _ => line,
    };
    [line, all].map(|line| runner.read(&words(line)))
}

#[test]
fn reply_during_a_stopped_change_is_the_old_or_the_new_one() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = stage(4);
    let readers = [reader(&stage, false), reader(&stage, true)];
    let filter = std::env::var("UNDERCROFT_SCENARIO").unwrap_or_default();
    let (mut calls, mut old, mut new) = (0_u64, 0_u64, 0_u64);
    let cases = CASES.iter().filter(|case| case.command.contains(&filter));
    for case in cases.filter(|case| command(case).flags.has(Flag::ReadOnly)) {
        for line in case.lines {
            let mut pairs = pairs(&stage, line, family(command(case)));
            random.shuffle(&mut pairs);
            pairs.truncate(if is_full() { 60 } else { 4 });
            for (from, to) in pairs {
                let after = answers(&readers[0], &stage, to, case, line);
                let before = answers(&readers[0], &stage, from, case, line);
                // Count the steps that this change takes.
                let taken = steps_taken();
                stage.enter(to);
                let steps = steps_taken() - taken;
                stage.enter(from);
                let last = steps.saturating_sub(12)..steps;
                let some = (0..STOPS / 2).map(|_| random.u64(0..steps));
                let some: Vec<u64> = some.collect();
                let late = (0..STOPS / 2).map(|_| random.u64(last.clone()));
                let stops: BTreeSet<u64> = late.chain(some).collect();
                let seen: Rc<RefCell<Vec<(u64, Outcome)>>> = Rc::default();
                let (found, ours) = (seen.clone(), readers.clone());
                let (mut step, called) = (0, words(line));
                on_step(Some(Box::new(move || {
                    if stops.contains(&step) {
                        for reader in &ours {
                            let outcome = reader.borrow_mut().read(&called);
                            found.borrow_mut().push((step, outcome));
                        }
                    }
                    step += 1;
                })));
                stage.enter(to);
                on_step(None);
                let mut is_new = false;
                for (step, outcome) in &*seen.borrow() {
                    calls += 1;
                    let is = |state: &[Outcome; 2]| {
                        outcome.is_as(&state[0], case.answers, Some(&state[1]))
                    };
                    // If a reply matches both states, it counts as old until the first reply that
                    // matches only the new state.
                    let was_new = is_new;
                    is_new |= !is(&before);
                    old += u64::from(!is_new);
                    new += u64::from(is_new);
                    assert!(
                        if is_new { is(&after) } else { !was_new },
                        "{line}, {} to {}, stopped at step {step} of {steps} (seed {seed}): {}, \
                         before {}, after {}",
                        stage.name(from),
                        stage.name(to),
                        outcome.summary(),
                        before[0].summary(),
                        after[0].summary()
                    );
                }
            }
        }
    }
    println!("stopped: {calls} calls, {old} answered as before, {new} as after; seed {seed}");
    assert!(
        !filter.is_empty() || calls > 2000 && new > 100,
        "{calls}, {new}"
    );
}
