//! Represents members with their scores, outside the store.

use undercroft_memory::Scratch;

use super::order::compare;
use crate::structures::ranges::Ranges;
use crate::types::limits::PackedLimits;

/// A collection of members with their scores, stored in flat buffers. Reading a sorted set appends
/// to this collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    pub(crate) members: Ranges,
    pub(crate) scores: Vec<f64>,
}

impl Scratch for Scored {
    fn clear(&mut self) {
        Scored::clear(self);
    }
}

impl Scored {
    /// Creates an empty collection.
    pub fn new() -> Scored {
        Scored::default()
    }

    /// Removes all members without freeing the allocated memory.
    pub fn clear(&mut self) {
        self.members.clear();
        self.scores.clear();
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Returns the total size of the members in bytes, excluding their scores.
    pub fn byte_length(&self) -> usize {
        self.members.byte_length()
    }

    /// Appends a member with its score.
    pub fn push(&mut self, member: &[u8], score: f64) {
        self.members.push(member);
        self.scores.push(score);
    }

    /// Returns the member at `index` and its score, or `None` if the index is out of range.
    pub fn get(&self, index: usize) -> Option<(&[u8], f64)> {
        let score = *self.scores.get(index)?;
        Some((self.members.get(index), score))
    }

    /// Iterates over the members with their scores, in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], f64)> {
        self.members.iter().zip(self.scores.iter().copied())
    }

    /// Returns a copy sorted by score, and then by the members' bytes.
    pub fn sorted(&self) -> Scored {
        let mut members: Vec<(&[u8], f64)> = self.iter().collect();
        members.sort_unstable_by(compare);
        let mut sorted = Scored::new();
        for (member, score) in members {
            sorted.push(member, score);
        }
        sorted
    }

    /// Replaces negative zeros with 0, but only for members that still fit in a packed sorted set
    /// when they are added one by one. Like a listpack in Redis, a packed sorted set cannot
    /// represent a negative zero (`zsetAdd` in t_zset.c).
    pub fn drop_signs(&mut self, limits: &PackedLimits) {
        let small = self.members.iter().zip(&mut self.scores).zip(1..);
        let small = small.take_while(|((member, _), number)| {
            *number <= limits.entries && member.len() as u64 <= limits.value
        });
        small
            .filter(|((_, score), _)| **score == 0.0)
            .for_each(|((_, score), _)| *score = 0.0);
    }

    /// Returns the members without their scores.
    pub fn members(&self) -> &Ranges {
        &self.members
    }
}
