//! The longest common subsequence of two strings, as the LCS command finds it.
//!
//! A plain dynamic program, O(n * m) time. Redis keeps a 32-bit cell for every pair of positions; here only the
//! direction of the way back is kept, one bit a pair, and nothing at all where only the length is asked for.
//! Among several longest subsequences it picks the one Redis picks, and reports matches in Redis' order.

/// A run of bytes that both strings share: inclusive positions in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Position of the run's first byte in the first string.
    pub first_start: usize,
    /// Position of its first byte in the second string.
    pub second_start: usize,
    /// Bytes in the run; at least one.
    pub length: usize,
}

/// The two strings are too long for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LcsError {
    /// A string has 4 GiB or more.
    StringTooLong,
    /// Redis' table of four bytes a pair would exceed proto-max-bulk-len.
    TableTooLarge,
}

impl LcsError {
    /// Redis' reply.
    pub fn message(self) -> &'static str {
        match self {
            LcsError::StringTooLong => "ERR String too long for LCS",
            LcsError::TableTooLarge => {
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
            }
        }
    }
}

/// Checks that LCS may run on strings of these lengths, by Redis' own measure, so that both refuse the same.
///
/// # Errors
/// As [`LcsError`] says. What is allowed needs at most a thirty-second of `limit` bytes of memory.
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

/// Length of the longest common subsequence. O(n * m) time, O(m) memory.
pub fn length(first: &[u8], second: &[u8]) -> usize {
    walk(first, second, |_, _| ()) as usize
}

/// The shared runs, from the end of the strings to their start, as LCS IDX lists them.
///
/// O(n * m) time and n * m / 8 bytes of memory: call [`check_size`] first.
pub fn matches(first: &[u8], second: &[u8]) -> Vec<Match> {
    let width = second.len();
    // A bit says: at this pair the way back steps in the first string.
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

/// The subsequence itself, from runs as [`matches()`] lists them.
pub fn sequence(first: &[u8], matches: &[Match]) -> Vec<u8> {
    matches
        .iter()
        .rev()
        .flat_map(|run| &first[run.first_start..run.first_start + run.length])
        .copied()
        .collect()
}

/// Fills the table row by row, keeping one row; calls `up` for each pair of unequal bytes where leaving out the
/// first string's byte loses less. Returns the table's last cell.
fn walk(first: &[u8], second: &[u8], mut up: impl FnMut(usize, usize)) -> u32 {
    let mut row = vec![0u32; second.len() + 1];
    for (i, a) in first.iter().enumerate() {
        // The cell above and to the left, which the row has already overwritten.
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
    fn the_manuals_example() {
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
    fn empty_strings_share_nothing() {
        assert_eq!(
            (length(b"", b"a"), matches(b"a", b""), sequence(b"", &[])),
            (0, vec![], vec![])
        );
    }

    #[test]
    fn sequences_have_the_length_and_occur_in_both() {
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
    fn the_limit_is_redis_own() {
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
