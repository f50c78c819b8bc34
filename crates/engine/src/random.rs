//! Random numbers for commands that pick random elements.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns an unpredictable seed, taken from the random keys that every new `RandomState` has.
pub fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random number generator (Sebastiano Vigna's SplitMix64) that is uniform and fast, but not
/// cryptographically secure.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator that starts with `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next 64 random bits.
    pub fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// Returns a uniformly distributed number below `end`, or 0 if `end` is 0. For an `end` below
    /// 2^32, the bias is below 2^-32.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_word()) * u128::from(end)) >> 64) as u64
    }

    /// Chooses random positions in a sequence of `length` elements. A positive `count` selects up
    /// to `count` distinct positions, in ascending order. A negative `count` selects `-count`
    /// independent positions, or none if the sequence is empty.
    pub fn choose(&mut self, count: i64, length: usize) -> Vec<usize> {
        let below = |random: &mut Random, end: usize| random.below(end as u64) as usize;
        if count < 0 {
            let wanted = if length == 0 { 0 } else { count.unsigned_abs() };
            return (0..wanted).map(|_| below(self, length)).collect();
        }
        // Selection sampling: choose each position with probability `left` / (remaining positions).
        let mut left = usize::try_from(count).unwrap_or(usize::MAX).min(length);
        let mut chosen = Vec::with_capacity(left);
        for place in 0..length {
            if below(self, length - place) < left {
                chosen.push(place);
                left -= 1;
            }
        }
        chosen
    }
}

/// A sequence of random numbers that threads share. Threads that draw simultaneously may get equal
/// numbers.
#[derive(Debug)]
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(AtomicU64::new(seed))
    }

    pub(crate) fn seed(&self, seed: u64) {
        self.0.store(seed, Ordering::Relaxed);
    }

    /// Returns the next random number in the sequence.
    pub(crate) fn next(&self) -> u64 {
        let seed = self.0.load(Ordering::Relaxed).wrapping_add(1);
        self.0.store(seed, Ordering::Relaxed);
        Random::new(seed).next_word()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_uniform() {
        let mut random = Random::new(7);
        let mut seen = [0; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&count| (9_500..10_500).contains(&count)),
            "{seen:?}"
        );
        assert_eq!(random.below(0), 0);
        assert_ne!(Random::new(1).next_word(), Random::new(2).next_word());
    }

    #[test]
    fn every_position_is_chosen_equally_often() {
        let mut random = Random::new(11);
        let mut seen = [0; 8];
        for _ in 0..80_000 {
            let chosen = random.choose(3, 8);
            assert!(chosen.len() == 3 && chosen.is_sorted_by(|one, next| one < next));
            chosen.iter().for_each(|&place| seen[place] += 1);
        }
        assert!(
            seen.iter().all(|&count| (29_000..31_000).contains(&count)),
            "{seen:?}"
        );
        assert_eq!(random.choose(9, 4), [0, 1, 2, 3]);
        assert_eq!(random.choose(-9, 4).len(), 9);
        assert!(random.choose(-9, 0).is_empty() && random.choose(0, 5).is_empty());
    }
}
