//! Chooses random elements for HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.

use undercroft_engine::Error;

use crate::arguments::{CommandError, integer};

/// The maximum number of elements in a sample that allows repetitions. Redis has neither this limit
/// nor the limit on the sample's size in bytes, so it tries to build samples that do not fit in
/// memory.
const REPEATED_MAX: i64 = 1 << 24;
const REPEATED_BYTES_MAX: usize = 1 << 30;
/// The maximum number of repeated elements to choose before checking their total size.
const REPEATED_PIECE: i64 = 1000;

/// Parses the count of HRANDFIELD, SRANDMEMBER or ZRANDMEMBER. A positive count requests distinct
/// elements, and a negative count allows repetitions.
pub(crate) fn random_count(argument: &[u8]) -> Result<i64, CommandError> {
    match integer(argument)? {
        i64::MIN => Err(CommandError::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        count => Ok(count),
    }
}

/// Chooses random elements, in batches if elements can repeat. `sample` adds the given number of
/// elements and returns the total size of the sample in bytes. Returns whether the sample is within
/// the limits.
pub(crate) fn sample_bounded(
    count: i64,
    mut sample: impl FnMut(i64) -> Result<usize, Error>,
) -> Result<bool, Error> {
    if count >= 0 {
        return sample(count).map(|_| true);
    }
    if count < -REPEATED_MAX {
        return Ok(false);
    }
    // The first batch contains one element, and batches grow, so that large elements are detected
    // early.
    let (mut left, mut piece) = (count, -1);
    while left < 0 {
        piece = left.max(piece);
        if sample(piece)? > REPEATED_BYTES_MAX {
            return Ok(false);
        }
        left -= piece;
        piece = (piece * 2).max(-REPEATED_PIECE);
    }
    Ok(true)
}

/// Returns the chosen elements, or no elements if the key does not exist. Returns an error if the
/// sample exceeded the limits.
pub(crate) fn sampled<T: Default>(sample: Option<Option<T>>) -> Result<T, CommandError> {
    match sample {
        None => Ok(T::default()),
        Some(items) => items.ok_or(CommandError::fixed("ERR value is out of range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sizes of the batches that are requested if each element has `length` bytes, and
    /// whether the sample is within the limits.
    fn asked(count: i64, length: usize) -> (Vec<i64>, bool) {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        let has_room = sample_bounded(count, |piece| {
            pieces.push(piece);
            bytes += piece.unsigned_abs() as usize * length;
            Ok(bytes)
        });
        (pieces, has_room.expect("no error"))
    }

    #[test]
    fn sampling_stops_soon_after_exceeding_the_byte_limit() {
        assert_eq!(asked(0, 1), (vec![0], true));
        assert_eq!(asked(i64::MAX, 1), (vec![i64::MAX], true));
        let (pieces, has_room) = asked(-5000, 1);
        assert!(has_room && pieces.iter().sum::<i64>() == -5000);
        assert!(
            pieces
                .iter()
                .all(|piece| (-REPEATED_PIECE..0).contains(piece))
        );
        assert_eq!(asked(-REPEATED_MAX - 1, 1), (vec![], false));
        for length in [512 << 20, 100 << 20, 1 << 20, 1 << 10] {
            let (pieces, has_room) = asked(-REPEATED_MAX, length);
            let items = pieces.iter().sum::<i64>().unsigned_abs() as usize;
            assert!(
                !has_room && items * length <= 2 * REPEATED_BYTES_MAX + length,
                "{length}"
            );
        }
    }
}
