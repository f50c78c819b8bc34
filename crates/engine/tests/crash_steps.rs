//! Tests a death at every undo log step in every kind of change to keys. A thread dies after the
//! N-th store instruction that matters for recovery, for N = 0, 1, 2, ... until the change
//! completes. Another handle then recovers and checks the store.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use undercroft_memory::fault::die_after;
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::image::Image;
use undercroft_testkit::scenario::{Scenario, choose_names};
use undercroft_testkit::state::{self, Expected, Outcome};

/// The number of deaths, grouped by the state that they left.
#[derive(Clone, Copy, Default)]
struct Count {
    old: u64,
    between: u64,
    new: u64,
}

struct Prepared {
    directory: tempfile::TempDir,
    base: PathBuf,
    image: Image,
    expected: Expected,
}

fn prepare(scenario: &Scenario) -> Prepared {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let base = directory.path().join("base");
    let store = state::create(&base);
    (scenario.prepare)(&store);
    drop(store);
    let file = std::fs::File::open(&base).expect("just made");
    Prepared {
        image: Image::read(&file).expect("an image"),
        expected: Expected::of(scenario, &base),
        base,
        directory,
    }
}

/// Makes a thread die after `steps` steps of the change. Returns false if the change completed
/// first.
fn die(scenario: &Scenario, path: &Path, steps: u64) -> bool {
    let store = state::open(path).expect("a whole store");
    let died = die_after(steps, || (scenario.act)(&store)).is_none();
    if died {
        store.abandon();
    }
    died
}

fn die_at_every_step(scenario: &Scenario) -> Count {
    let prepared = prepare(scenario);
    let path = prepared.directory.path().join("store");
    let mut count = Count::default();
    let mut last = Outcome::Old;
    for steps in 0.. {
        prepared.image.write_to(&path).expect("room for a copy");
        let died = die(scenario, &path, steps);
        let heir = state::open(&path).expect("a store that opens");
        let outcome = state::verify(&heir, &prepared.expected, steps);
        match outcome.and_then(|outcome| outcome.after(&mut last, scenario)) {
            Ok(Outcome::New) => count.new += 1,
            Ok(Outcome::Between) if died => count.between += 1,
            Ok(Outcome::Old) if died => count.old += 1,
            Ok(outcome) => panic!("{}: completed, but the state is {outcome:?}", scenario.name),
            Err(why) => panic!("{}: dead after {steps} steps: {why}", scenario.name),
        }
        drop(heir);
        std::fs::remove_file(&path).expect("just made");
        if !died {
            break;
        }
    }
    std::fs::remove_file(&prepared.base).expect("just made");
    count
}

#[test]
fn death_at_every_undo_log_step() {
    choose_names();
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    println!(
        "{:52} {:>6} {:>6} {:>7} {:>6}",
        "death at every undo-log step", "deaths", "old", "between", "new"
    );
    let scenarios = fresh::chosen(Extent::asked(), &mut random, |_| true);
    let counts = on_every_core(&scenarios, |scenario| die_at_every_step(scenario));
    let mut total = 0;
    for (scenario, count) in scenarios.iter().zip(&counts) {
        // The last run completed without a death, so do not count it.
        let deaths = count.old + count.between + count.new - 1;
        println!(
            "{:52} {deaths:>6} {:>6} {:>7} {:>6}",
            scenario.name,
            count.old,
            count.between,
            count.new - 1
        );
        assert!(
            count.old >= 5 && count.new >= 2,
            "{}: {deaths} deaths",
            scenario.name
        );
        assert_eq!(
            count.between > 0,
            scenario.first.is_some(),
            "{}: its parts",
            scenario.name
        );
        total += deaths;
    }
    println!(
        "crash: {} kinds of change, {} deaths, one at each undo-log step, all recovered",
        counts.len(),
        total
    );
}

/// Returns the results of `work` for all items, in order. A thread on each core processes one item
/// after another.
fn on_every_core<T: Sync, R: Send + Sync>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let take = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let _ = results[index].set(work(item));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(take);
        }
    });
    let results = results.into_iter().map(OnceLock::into_inner);
    results
        .map(|result| result.expect("each was taken"))
        .collect()
}

/// The recovering process also dies, at every step of its recovery.
#[test]
fn second_death_at_every_step_of_the_recovery() {
    choose_names();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut deaths = 0;
    let extent = Extent::asked();
    for scenario in fresh::chosen(extent, &mut random, |_| true) {
        let prepared = prepare(scenario);
        let steps = random.u64(1..60);
        for again in 0.. {
            let path = prepared.directory.path().join("store");
            prepared.image.write_to(&path).expect("room for a copy");
            if !die(scenario, &path, steps) {
                std::fs::remove_file(&path).expect("just made");
                break;
            }
            let second = state::open(&path).expect("a store that opens");
            let died = die_after(again, || second.recover().expect("a recovery")).is_none();
            if died {
                second.abandon();
                deaths += 1;
            }
            let third = state::open(&path).expect("a store that opens");
            if let Err(why) = state::verify(&third, &prepared.expected, again) {
                panic!(
                    "{}: dead after {steps} steps, its heir after {again} (seed {seed}): {why}",
                    scenario.name
                );
            }
            drop((second, third));
            std::fs::remove_file(&path).expect("just made");
            if !died {
                break;
            }
        }
    }
    let least = if extent == Extent::Part { 100 } else { 1000 };
    assert!(deaths > least, "{deaths} second deaths (seed {seed})");
    println!("crash: {deaths} second deaths, one at each step of a recovery, all recovered");
}
