//! Members with their scores, outside the store.

use undercroft_memory::Scratch;

use super::order::compare;
use crate::structures::ranges::Ranges;
use crate::types::limits::PackedLimits;

/// Members with their scores in flat buffers: what reading a sorted set appends
/// to.
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
    /// No members.
    pub fn new() -> Scored {
        Scored::default()
    }

    /// Forgets the members but keeps the memory.
    pub fn clear(&mut self) {
        self.members.clear();
        self.scores.clear();
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Bytes of all members together, without their scores.
    pub fn byte_length(&self) -> usize {
        self.members.byte_length()
    }

    /// Adds a member.
    pub fn push(&mut self, member: &[u8], score: f64) {
        self.members.push(member);
        self.scores.push(score);
    }

    /// The member at a position with its score, if there is one.
    pub fn get(&self, index: usize) -> Option<(&[u8], f64)> {
        let score = *self.scores.get(index)?;
        Some((self.members.get(index), score))
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], f64)> {
        self.members.iter().zip(self.scores.iter().copied())
    }

    /// The same members in the order of a sorted set.
    pub fn sorted(&self) -> Scored {
        let mut members: Vec<(&[u8], f64)> = self.iter().collect();
        members.sort_unstable_by(compare);
        let mut sorted = Scored::new();
        for (member, score) in members {
            sorted.push(member, score);
        }
        sorted
    }

    /// Takes the sign off each zero that a sorted set would lose to which these were added one by one, in this order: its
    /// scores are integers as long as it is in one piece (`zsetAdd` in t_zset.c).
    pub fn drop_signs(&mut self, limits: &PackedLimits) {
        let small = self.members.iter().zip(&mut self.scores).zip(1..);
        let small = small.take_while(|((member, _), number)| {
            *number <= limits.entries && member.len() as u64 <= limits.value
        });
        small
            .filter(|((_, score), _)| **score == 0.0)
            .for_each(|((_, score), _)| *score = 0.0);
    }

    /// The members only.
    pub fn members(&self) -> &Ranges {
        &self.members
    }
}
