//! The seed of a random test.

use std::sync::OnceLock;

/// Returns the seed of this process, which is `UNDERCROFT_SEED` or a random number, and prints it. All
/// calls return the same number, so that one variable replays everything.
///
/// # Panics
/// Panics if `UNDERCROFT_SEED` is not a number.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    let seed = *SEED.get_or_init(|| {
        let named = std::env::var("UNDERCROFT_SEED").ok();
        named.map_or_else(
            || fastrand::u64(..1 << 40),
            |text| text.parse().expect("UNDERCROFT_SEED is a number"),
        )
    });
    println!("seed {seed} (replay with UNDERCROFT_SEED={seed})");
    seed
}
