//! Computes the longest common subsequence of two strings, for the LCS command.
//!
//! This is plain dynamic programming, which takes O(n * m) time. Redis stores a 32-bit cell for
//! every pair of positions. This implementation stores only the direction of the traceback, one bit
//! per pair, or no table at all if only the length is requested. If several longest subsequences
//! exist, it returns the same one as Redis, with the matches in the same order.

/// A run of consecutive bytes that both strings have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The index of the run's first byte in the first string.
    pub first_start: usize,
    /// The index of the run's first byte in the second string.
    pub second_start: usize,
    /// The number of bytes in the run, which is at least one.
    pub length: usize,
}

/// The reason why LCS rejects two strings as too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LcsError {
    /// At least one string is about 4 GiB or longer.
    StringTooLong,
    /// Redis' table, which needs four bytes per pair of positions, would exceed
    /// `proto-max-bulk-len`.
    TableTooLarge,
}

impl LcsError {
    /// Returns Redis' error message.
    pub fn message(self) -> &'static str {
        match self {
            LcsError::StringTooLong => "ERR String too long for LCS",
            LcsError::TableTooLarge => {
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
            }
        }
    }
}

/// Checks whether LCS accepts strings of these lengths. The limits match those of Redis, so both
/// servers reject the same strings.
///
/// # Errors
/// Returns an [`LcsError`] if the strings are too long. For accepted strings, the table takes at
/// most `limit / 32` bytes of memory.
pub fn check_size(first: usize, second: usize, limit: u64) -> Result<(), LcsError> {
    let longest = u32::MAX as usize - 1;
    if first >= longest || second >= longest {
        return Err(LcsError::StringTooLong);
    }
    let table = (first as u128 + 1) * (second as u128 + 1) * 4;
    if table > u128::from(limit) {
        Err(LcsError::TableTooLarge)
    } else {
        Ok(())
    }
}

/// Returns the length of the longest common subsequence. Takes O(n * m) time and O(m) memory.
pub fn length(first: &[u8], second: &[u8]) -> usize {
    walk(first, second, |_, _| ()) as usize
}

/// Returns the common runs from the end of the strings to the start, the order in which LCS IDX
/// lists them.
///
/// Takes O(n * m) time and n * m / 8 bytes of memory. Call [`check_size`] first.
pub fn matches(first: &[u8], second: &[u8]) -> Vec<Match> {
    let width = second.len();
    // A set bit means that the traceback from this pair of positions steps back in the first
    // string.
    let mut steps = vec![0u64; (first.len() * width).div_ceil(64)];
    walk(first, second, |row, column| {
        let bit = row * width + column;
        steps[bit / 64] |= 1 << (bit % 64);
    });
    let mut found: Vec<Match> = Vec::new();
    let (mut i, mut j) = (first.len(), second.len());
    while i > 0 && j > 0 {
        if first[i - 1] == second[j - 1] {
            match found.last_mut() {
                Some(run) if run.first_start == i && run.second_start == j => {
                    *run = Match {
                        first_start: i - 1,
                        second_start: j - 1,
                        length: run.length + 1,
                    };
                }
                _ => found.push(Match {
                    first_start: i - 1,
                    second_start: j - 1,
                    length: 1,
                }),
            }
            i -= 1;
            j -= 1;
        } else {
            let bit = (i - 1) * width + (j - 1);
            if steps[bit / 64] >> (bit % 64) & 1 == 1 {
                i -= 1
            } else {
                j -= 1
            }
        }
    }
    found
}

/// Returns the longest common subsequence, given the runs that [`matches()`] returns.
pub fn sequence(first: &[u8], matches: &[Match]) -> Vec<u8> {
    matches
        .iter()
        .rev()
        .flat_map(|run| &first[run.first_start..run.first_start + run.length])
        .copied()
        .collect()
}

/// Computes the table row by row, storing only the current row. Calls `up` for each pair of unequal
/// bytes for which skipping the byte of the first string is better. Returns the last cell of the
/// table.
fn walk(first: &[u8], second: &[u8], mut up: impl FnMut(usize, usize)) -> u32 {
    let mut row = vec![0u32; second.len() + 1];
    for (i, a) in first.iter().enumerate() {
        // The value of the diagonally preceding cell, which `row` no longer contains.
        let mut diagonal = 0;
        for (j, b) in second.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if a == b {
                diagonal + 1
            } else if above > row[j] {
                up(i, j);
                above
            } else {
                row[j]
            };
            diagonal = above;
        }
    }
    row[second.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lcs_matches_the_example_in_the_redis_manual() {
        let (a, b) = (b"ohmytext", b"mynewtext");
        assert_eq!(length(a, b), 6);
        let runs = matches(a, b);
        let expected = [
            Match {
                first_start: 4,
                second_start: 5,
                length: 4,
            },
            Match {
                first_start: 2,
                second_start: 0,
                length: 2,
            },
        ];
        assert_eq!(runs, expected);
        assert_eq!(sequence(a, &runs), b"mytext");
    }

    #[test]
    fn empty_strings_have_an_empty_subsequence() {
        assert_eq!(
            (length(b"", b"a"), matches(b"a", b""), sequence(b"", &[])),
            (0, vec![], vec![])
        );
    }

    #[test]
    fn subsequence_has_the_reported_length_and_occurs_in_both_strings() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let contains = |long: &[u8], short: &[u8]| {
            let mut rest = long.iter();
            short.iter().all(|byte| rest.any(|other| other == byte))
        };
        for _ in 0..500 {
            let mut text = || {
                (0..random.usize(..40))
                    .map(|_| random.u8(b'a'..b'd'))
                    .collect::<Vec<u8>>()
            };
            let (a, b) = (text(), text());
            let found = sequence(&a, &matches(&a, &b));
            assert_eq!(found.len(), length(&a, &b), "{a:?} {b:?}");
            assert!(contains(&a, &found) && contains(&b, &found), "{a:?} {b:?}");
        }
    }

    #[test]
    fn size_limits_match_redis() {
        assert_eq!(check_size(1023, 1023, 4 << 20), Ok(()));
        assert_eq!(
            check_size(1024, 1023, 4 << 20),
            Err(LcsError::TableTooLarge)
        );
        assert_eq!(
            check_size(u32::MAX as usize, 1, u64::MAX),
            Err(LcsError::StringTooLong)
        );
    }
}
