//! Runs a target under libFuzzer, which provides `main` and the command line. The environment
//! variable `UNDERCROFT_FUZZ_TARGET`, which scripts/fuzz.sh sets, names the target.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use undercroft_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("UNDERCROFT_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("UNDERCROFT_FUZZ_TARGET: expected one of {names:?}, found {name:?}");
        std::process::exit(2);
    };
    target
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));
