//! Implements small integer sets, which are packed in one block.
//!
//! ```text
//! | width: 2, 4 or 8 | ascending integers of `width` bytes each, little-endian |
//! ```

use undercroft_memory::{Fault, work};

use crate::types::hash::FEW;

/// A borrowed view of a packed integer set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntSet<'b> {
    width: usize,
    integers: &'b [u8],
}

fn width_of(value: i64) -> usize {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

impl<'b> IntSet<'b> {
    /// Parses a packed integer set. If `bytes` is empty, the set is empty.
    pub(crate) fn of(bytes: &'b [u8]) -> Result<IntSet<'b>, Fault> {
        let Some((&width, integers)) = bytes.split_first() else {
            return Ok(IntSet {
                width: 2,
                integers: &[],
            });
        };
        let width = usize::from(width);
        if !matches!(width, 2 | 4 | 8) || !integers.len().is_multiple_of(width) {
            return Err(Fault {
                at: 0,
                what: "a set of integers of one width",
            });
        }
        Ok(IntSet { width, integers })
    }

    /// Returns the number of integers.
    pub(crate) fn length(self) -> usize {
        self.integers.len() / self.width
    }

    fn get(self, index: usize) -> i64 {
        let bytes = &self.integers[index * self.width..][..self.width];
        let mut word = [0; 8];
        word[..self.width].copy_from_slice(bytes);
        let unused = 64 - 8 * self.width as u32;
        (u64::from_le_bytes(word) << unused) as i64 >> unused
    }

    /// Returns the integers in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = i64> {
        (0..self.length()).map(move |index| self.get(index))
    }

    /// Returns the index of an integer, or `Err` with the index at which it must be inserted. O(log
    /// length).
    fn search(self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.length());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).cmp(&value) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Returns whether the set contains the given integer. O(log length).
    pub(crate) fn contains(self, value: i64) -> bool {
        self.search(value).is_ok()
    }
}

/// Inserts an integer into the packed set in `bytes`, which may be empty. Returns whether the
/// integer is new. O(length).
pub(crate) fn insert(bytes: &mut Vec<u8>, value: i64) -> Result<bool, Fault> {
    let set = IntSet::of(bytes)?;
    let Err(place) = set.search(value) else {
        return Ok(false);
    };
    let width = set.width.max(width_of(value));
    if width != set.width || bytes.is_empty() {
        let mut wider = Vec::with_capacity(1 + (set.length() + 1) * width);
        wider.push(width as u8);
        for old in set.iter() {
            wider.extend_from_slice(&old.to_le_bytes()[..width]);
        }
        *bytes = wider;
    }
    let at = 1 + place * width;
    work::touched((bytes.len() - at) as u64 / 8 + 1);
    bytes.splice(at..at, value.to_le_bytes()[..width].iter().copied());
    Ok(true)
}

/// Inserts integers into the packed set in `bytes`. Returns the number of new integers. Batches of
/// more than [`FEW`] integers are sorted and merged in one pass.
pub(crate) fn insert_all(bytes: &mut Vec<u8>, mut values: Vec<i64>) -> Result<u64, Fault> {
    let mut new = 0;
    if values.len() <= FEW {
        for value in values {
            new += u64::from(insert(bytes, value)?);
        }
        return Ok(new);
    }
    let set = IntSet::of(bytes)?;
    let old = set.length();
    values.extend(set.iter());
    values.sort_unstable();
    values.dedup();
    let ends = [values.first(), values.last()];
    let width = ends.into_iter().flatten().map(|&end| width_of(end)).max();
    let width = width.unwrap_or(set.width).max(set.width);
    let mut all = Vec::with_capacity(1 + values.len() * width);
    all.push(width as u8);
    for value in &values {
        all.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    *bytes = all;
    Ok((values.len() - old) as u64)
}

/// Removes an integer from the packed set in `bytes`. Returns whether the set contained the
/// integer. O(length).
pub(crate) fn remove(bytes: &mut Vec<u8>, value: i64) -> Result<bool, Fault> {
    let set = IntSet::of(bytes)?;
    let (width, found) = (set.width, set.search(value));
    if let Ok(place) = found {
        work::touched((bytes.len() - place * width) as u64 / 8 + 1);
        bytes.drain(1 + place * width..1 + (place + 1) * width);
    }
    Ok(found.is_ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn random_operations_match_a_btree_set() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for shifts in [50..64, 20..64, 0..64] {
            let (mut bytes, mut model) = (Vec::new(), BTreeSet::new());
            for _ in 0..2000 {
                let value = random.i64(..) >> random.u32(shifts.clone());
                if random.u32(..100) == 0 {
                    let more = random.usize(..50);
                    let more: Vec<i64> = (0..more).map(|_| random.i64(..) >> 50).collect();
                    let old = model.len();
                    model.extend(&more);
                    let new = (model.len() - old) as u64;
                    assert_eq!(insert_all(&mut bytes, more).ok(), Some(new));
                } else if random.bool() {
                    assert_eq!(insert(&mut bytes, value).ok(), Some(model.insert(value)));
                } else {
                    assert_eq!(remove(&mut bytes, value).ok(), Some(model.remove(&value)));
                }
                let set = IntSet::of(&bytes).expect("sound");
                assert_eq!(set.length(), model.len());
                assert_eq!(set.contains(value), model.contains(&value));
            }
            let all: Vec<i64> = IntSet::of(&bytes).expect("sound").iter().collect();
            assert!(all.iter().eq(model.iter()), "{all:?}");
        }
    }

    #[test]
    fn damaged_bytes_are_rejected() {
        for bytes in [&[3_u8, 0, 0, 0][..], &[0], &[2, 1], &[8, 1, 2, 3]] {
            assert!(IntSet::of(bytes).is_err(), "{bytes:?}");
        }
    }
}
