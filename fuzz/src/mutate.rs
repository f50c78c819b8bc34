//! Derives inputs from seed inputs through random changes. The same random seed yields the same
//! inputs.

use fastrand::Rng;

/// The maximum length of an input, in bytes.
const LONGEST: usize = 4096;

/// The maximum number of changes to one input.
const CHANGES: usize = 8;

/// Numbers that are edge cases for parsers of lengths and counts.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "536870913",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "00000000000000000001",
];

/// An endless source of inputs for one target.
#[derive(Debug)]
pub struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    tokens: &'a [&'a [u8]],
    random: Rng,
}

impl<'a> Mutator<'a> {
    /// Returns a source of inputs that combine `seeds` with `tokens`, which are pieces of the
    /// format under test. Without seeds, each input is derived from an empty one. The random seed
    /// `seed` determines all inputs.
    #[must_use]
    pub fn new(seeds: &'a [Vec<u8>], tokens: &'a [&'a [u8]], seed: u64) -> Self {
        Mutator {
            seeds,
            tokens,
            random: Rng::with_seed(seed),
        }
    }

    /// Returns the next input.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.random.choice(self.seeds).cloned().unwrap_or_default();
        for _ in 0..self.random.usize(0..=CHANGES) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let random = &mut self.random;
        let at = random.usize(0..=input.len());
        let end = random.usize(at..=input.len().min(at + 64));
        match random.u8(0..9) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => {
                let copy = input[at..end].to_vec();
                let to = random.usize(0..=input.len());
                input.splice(to..to, copy);
            }
            3 => input.insert(at, random.u8(..)),
            4 if at < input.len() => input[at] ^= 1 << random.u8(0..8),
            5 if at < input.len() => input[at] = random.u8(..),
            6 => {
                let token = random.choice(self.tokens).copied().unwrap_or_default();
                input.splice(at..at, token.iter().copied());
            }
            7 => {
                let number = random.choice(NUMBERS).copied().unwrap_or_default();
                let digits = input[at..].iter().take_while(|byte| byte.is_ascii_digit());
                let digits = digits.count();
                input.splice(at..at + digits, number.bytes());
            }
            _ => {
                let other = random.choice(self.seeds).cloned().unwrap_or_default();
                input.splice(at.., other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: &[&[u8]] = &[b"\r\n", b"*"];

    fn seeds() -> Vec<Vec<u8>> {
        vec![b"*1\r\n$4\r\nPING\r\n".to_vec(), Vec::new()]
    }

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let seeds = seeds();
        let inputs = |seed| {
            let mut mutator = Mutator::new(&seeds, TOKENS, seed);
            (0..1000).map(|_| mutator.input()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(7), inputs(7));
        assert_ne!(inputs(7), inputs(8));
    }

    #[test]
    fn a_planted_fault_is_found() {
        let seeds = seeds();
        let mut mutator = Mutator::new(&seeds, TOKENS, 1);
        let faulty = |input: &[u8]| input.windows(7).any(|part| part == b"$-1\r\nPI");
        let found = (0..100_000).position(|_| faulty(&mutator.input()));
        assert!(found.is_some(), "none of 100,000 inputs had a length of -1");
    }

    #[test]
    fn inputs_need_neither_seeds_nor_tokens() {
        let mut mutator = Mutator::new(&[], &[], 1);
        let lengths: Vec<_> = (0..1000).map(|_| mutator.input().len()).collect();
        assert!(lengths.contains(&0) && lengths.iter().any(|&length| length > 8));
        assert!(lengths.iter().all(|&length| length <= LONGEST));
    }
}
