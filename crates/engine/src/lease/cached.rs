//! The header of a cached value that is refreshed before it expires.
//!
//! ```text
//! | 4 bytes     | 8 bytes                         | 4 bytes                      | the rest  |
//! | f5 75 63 01 | refresh due from, Unix ms       | microseconds to compute it   | the value |
//! ```
//!
//! All numbers are little-endian. A value that is not refreshed early has no header, unless the
//! value itself begins with the four magic bytes. UTF-8 text never does, because the byte f5 does
//! not occur in UTF-8.

use std::borrow::Cow;
use std::time::Duration;

const MAGIC: [u8; 4] = [0xf5, b'u', b'c', 1];
const FRONT: usize = 16;

/// The decoded header of a cached value: the position of the value, and when to refresh it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The offset of the value in the stored bytes.
    pub start: usize,
    /// The time when a refresh is due, in Unix milliseconds; 0 means never.
    pub due: u64,
    /// The time that computing the value took, in microseconds.
    pub took: u32,
}

impl Cached {
    /// Decodes the header of a cached value from its stored bytes.
    #[inline]
    pub fn of(stored: &[u8]) -> Cached {
        match stored.split_first_chunk::<FRONT>() {
            Some((front, _)) if front[..4] == MAGIC => {
                let word = |at: usize| {
                    let four: [u8; 4] = std::array::from_fn(|byte| front[at + byte]);
                    u32::from_le_bytes(four)
                };
                Cached {
                    start: FRONT,
                    due: u64::from(word(4)) | u64::from(word(8)) << 32,
                    took: word(12),
                }
            }
            _ => Cached {
                start: 0,
                due: 0,
                took: 0,
            },
        }
    }

    /// Returns the bytes to store for a value. `due` is the time of the next refresh in Unix
    /// milliseconds, or 0 for never. `took` is the time that computing the value took.
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft_engine::leases::Cached;
    /// let stored = Cached::stored(b"value", 1000, Duration::from_millis(20));
    /// let cached = Cached::of(&stored);
    /// assert_eq!(&stored[cached.start..], b"value");
    /// assert!(cached.is_due(1000, 0.0) && !cached.is_due(999, 0.0));
    /// assert_eq!(&*Cached::stored(b"value", 0, Duration::ZERO), b"value");
    /// ```
    pub fn stored(value: &[u8], due: u64, took: Duration) -> Cow<'_, [u8]> {
        if due == 0 && !value.starts_with(&MAGIC) {
            return Cow::Borrowed(value);
        }
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let mut stored = Vec::with_capacity(FRONT + value.len());
        stored.extend_from_slice(&MAGIC);
        stored.extend_from_slice(&due.to_le_bytes());
        stored.extend_from_slice(&took.to_le_bytes());
        stored.extend_from_slice(value);
        Cow::Owned(stored)
    }

    /// Returns whether the value should be refreshed now.
    ///
    /// A `haste` of 0 means a refresh exactly when it is due. For an early refresh, the caller
    /// draws `haste` for each call as `beta * -ln(random)`, with a uniform `random` in (0, 1]. The
    /// refresh is then due earlier by `haste` times the time that computing the value took. Among
    /// many callers, one is likely to refresh the value before the refresh is overdue, and a value
    /// that takes longer to compute is refreshed earlier (Vattani, Chierichetti, Lowenstein:
    /// Optimal Probabilistic Cache Stampede Prevention, VLDB 2015, with a `beta` of 1).
    #[inline]
    pub fn is_due(&self, now: u64, haste: f64) -> bool {
        let ahead = f64::from(self.took) / 1000.0 * haste;
        self.due != 0 && now.saturating_add(ahead as u64) >= self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_survives_whatever_its_first_bytes_are() {
        for value in [&b""[..], b"x", &MAGIC, &[MAGIC; 9].concat(), &[0; 40]] {
            for due in [0, 1, u64::MAX] {
                let stored = Cached::stored(value, due, Duration::from_secs(9999));
                let cached = Cached::of(&stored);
                assert_eq!(&stored[cached.start..], value);
                assert_eq!(cached.due, due);
                // A duration that does not fit in 32 bits is capped at the maximum.
                assert!(due == 0 || cached.took == u32::MAX);
            }
        }
    }

    #[test]
    fn haste_is_a_multiple_of_the_computing_time() {
        let stored = Cached::stored(b"v", 10_000, Duration::from_millis(500));
        let cached = Cached::of(&stored);
        assert!(!cached.is_due(9_499, 1.0));
        assert!(cached.is_due(9_500, 1.0));
        assert!(cached.is_due(0, f64::INFINITY));
        assert!(!Cached::of(b"v").is_due(u64::MAX, f64::INFINITY));
    }
}
