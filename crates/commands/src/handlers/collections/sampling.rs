//! Items chosen by chance, as HRANDFIELD and its like return them.

use undercroft_engine::Error;

use crate::arguments::{CommandError, integer};

/// The most items that a negative count of HRANDFIELD and its like can ask for, and the most bytes of them. Redis sends
/// any number, even ones that no memory holds and no client will see the end of.
const REPEATED_MAX: i64 = 1 << 24;
const REPEATED_BYTES_MAX: usize = 1 << 30;
/// Repeated items that are chosen before their bytes are counted, at most.
const REPEATED_PIECE: i64 = 1000;

/// The count of HRANDFIELD and its like. A positive one gives no more items than there are.
pub(crate) fn random_count(argument: &[u8]) -> Result<i64, CommandError> {
    match integer(argument)? {
        i64::MIN => Err(CommandError::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        count => Ok(count),
    }
}

/// Chooses items by chance, repeated ones in pieces. `sample` adds so many, and returns the bytes of all. Returns whether
/// there was room for them.
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
    // They grow, so that long items are noticed by the first few.
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

/// The items that were chosen, of which there are none where the key is missing; an error where there was no room.
pub(crate) fn sampled<T: Default>(sample: Option<Option<T>>) -> Result<T, CommandError> {
    match sample {
        None => Ok(T::default()),
        Some(items) => items.ok_or(CommandError::fixed("ERR value is out of range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for where each item has so many bytes, and whether it is given.
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
    fn repeated_items_end_soon_behind_the_most_bytes() {
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
