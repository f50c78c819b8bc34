//! Implements lists. A small list is a packed byte string, and a large list is a counted tree with
//! packed leaves. `types/registry` uses `contract`, and commands call the other modules.
//!
//! ```text
//! a packed list:
//! | number of items, 1 byte | items as in `packed` |
//! ```
//!
//! - `contract`: implements the type interface.
//! - `decimal`: formats many integers as decimal text, eight digits at a time.
//! - `fill`: builds leaves and modifies them in place.
//! - `hot`: provides the operations that embedded clients call most often.
//! - `items`: represents items outside the store, decoded from a leaf or not yet encoded.
//! - `leaf`: defines the layouts of a leaf, and reads leaves.
//! - `leaf_split`: rebuilds a leaf with new items, merging or splitting it if necessary.
//! - `pack`: stores a small list in a single byte string.
//! - `read`: reads lists, optimistically or under a lock.
//! - `remove`: removes items from the ends, by value and by range.
//! - `sequence`: stores a large list in a tree.
//! - `object`: places, copies, frees, checks and measures complete lists.
//! - `write`: pushes, sets, inserts and moves items.

mod contract;
mod decimal;
mod fill;
mod hot;
mod items;
mod leaf;
mod leaf_split;
mod object;
mod pack;
mod read;
mod remove;
mod sequence;
mod write;

pub(crate) use contract::Lists;
pub use fill::End;
#[cfg(test)]
pub(crate) use leaf::Leaf;
pub use read::Positions;
pub use write::Inserted;

use crate::structures::entry::Kind;
use crate::types::value_type::ValueType;

const LIST: Kind = ValueType::List.kind(0);

/// Converts Redis' inclusive range `start..=stop` to a half-open range of positions. A negative
/// index counts from the end. `count` can be torn, that is, read during a concurrent change.
pub(crate) fn clamp(start: i64, stop: i64, count: u64) -> (u64, u64) {
    let count = count as i64;
    let resolve = |index: i64| {
        if index < 0 {
            index.saturating_add(count)
        } else {
            index
        }
    };
    let (start, stop) = (
        resolve(start).max(0),
        resolve(stop).min(count.saturating_sub(1)),
    );
    if start > stop {
        return (0, 0);
    }
    (start as u64, stop as u64 + 1)
}

/// Converts `index` to a position, counting a negative index from the end. Returns `None` if
/// `index` is out of range.
pub(crate) fn resolve(index: i64, count: u64) -> Option<u64> {
    let position = if index < 0 {
        count.checked_sub(index.unsigned_abs())?
    } else {
        index.unsigned_abs()
    };
    (position < count).then_some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_indexes_resolve_as_in_redis() {
        for (start, stop, expected) in [
            (0, -1, (0, 5)),
            (-3, -2, (2, 4)),
            (-100, 100, (0, 5)),
            (3, 1, (0, 0)),
            (5, 9, (0, 0)),
            (0, -6, (0, 0)),
            (i64::MIN, i64::MAX, (0, 5)),
        ] {
            assert_eq!(clamp(start, stop, 5), expected, "{start} {stop}");
        }
        assert_eq!(clamp(0, -1, 0), (0, 0));
        for count in [1 << 63, u64::MAX] {
            assert_eq!(clamp(0, -1, count), (0, 0), "a torn count of {count}");
        }
        let found = [0, 4, 5, -1, -5, -6, i64::MIN].map(|index| resolve(index, 5));
        assert_eq!(
            found,
            [Some(0), Some(4), None, Some(4), Some(0), None, None]
        );
    }
}
