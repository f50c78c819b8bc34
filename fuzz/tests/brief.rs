//! Runs every target on its seeds and on a bounded number of inputs derived from them.
//!
//! - `UNDERCROFT_SEED`: the random seed, which a failing run prints
//! - `UNDERCROFT_FUZZ_INPUTS`: the number of inputs per target (default 50,000), divided by the
//!   target's cost
//! - `UNDERCROFT_FUZZ_TARGETS`: the targets to run, separated by commas (default: all)

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_fuzz::{Mutator, TARGETS, Target};

/// Returns the number that an environment variable contains, or `None` if the variable is not set.
fn variable<T: FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    let number = value.parse().ok();
    assert!(
        number.is_some(),
        "{name}: expected a number, found {value:?}"
    );
    number
}

/// Returns the contents of the files in `fuzz/seeds/<target>/`, sorted by name: examples of the
/// format, and every input that has ever failed.
fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target.name);
    let entries = fs::read_dir(&directory).expect("a target has a directory of seeds");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path| fs::read(path).expect("reading a seed");
    paths.iter().map(read).collect()
}

/// Runs the target. If it panics, prints the input and instructions to reproduce the failure.
fn run(target: &Target, input: &[u8], how: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        eprintln!("fuzz target {} failed ({how}) on:", target.name);
        eprintln!("{}", input.escape_ascii());
        resume_unwind(panic);
    }
}

/// Returns the selected targets.
fn targets() -> impl Iterator<Item = &'static Target> {
    let wanted = std::env::var("UNDERCROFT_FUZZ_TARGETS").ok();
    TARGETS.iter().filter(move |target| match &wanted {
        Some(names) => names.split(',').any(|name| name == target.name),
        None => true,
    })
}

#[test]
fn every_target_survives_its_seeds() {
    for target in targets() {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{}: no seeds", target.name);
        for seed in &seeds {
            run(target, seed, "a file of fuzz/seeds");
        }
    }
}

#[test]
fn every_target_survives_mutated_seeds() {
    assert!(!TARGETS.is_empty(), "there is nothing to fuzz");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| u64::from(since.subsec_nanos()) ^ since.as_secs());
    let random_seed = variable("UNDERCROFT_SEED").unwrap_or(now);
    let inputs = variable("UNDERCROFT_FUZZ_INPUTS").unwrap_or(50_000_u64);
    let how = format!("UNDERCROFT_SEED={random_seed}");
    for target in targets() {
        let seeds = seeds(target);
        let mut mutator = Mutator::new(&seeds, target.tokens, random_seed);
        let inputs = inputs.div_ceil(target.cost);
        for _ in 0..inputs {
            run(target, &mutator.input(), &how);
        }
        println!("fuzz: {}: {inputs} inputs, {how}", target.name);
    }
}

#[test]
fn every_function_of_scripts_is_called_in_every_way() {
    let target = TARGETS.iter().find(|target| target.name == "calls");
    let target = target.expect("the target");
    let functions = undercroft_scripts::functions();
    let named = functions.iter().filter(|row| row.is_named).count();
    assert!((100..=256).contains(&named), "{named} functions");
    let mut random = fastrand::Rng::with_seed(7);
    for function in 0..named {
        for way in 0..14 {
            let mut input = vec![function as u8, way];
            input.extend((0..random.usize(..4)).map(|_| random.u8(..)));
            run(target, &input, "all functions in all ways");
        }
    }
}
