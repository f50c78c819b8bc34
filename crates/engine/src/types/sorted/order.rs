//! Orders members by score, and then by the member's bytes.

use std::cmp::Ordering;

use undercroft_memory::View;

use crate::error::Error;
use crate::structures::element::{Element, Value};

/// Maps a score to an integer such that the integers sort like the scores. Both zeros map to the
/// same integer.
#[inline]
pub(crate) fn order_of(score: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    let bits = (score + 0.0).to_bits();
    if bits & SIGN != 0 { !bits } else { bits | SIGN }
}

/// A position between two members in the order of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'t> {
    /// A position before or after all members with the given score.
    Score {
        /// The score, mapped by [`order_of`].
        order: u64,
        /// Whether the position is after the members with this score.
        behind: bool,
    },
    /// A position before or after the given member with the given score.
    Member {
        /// The score, mapped by [`order_of`].
        order: u64,
        /// The bytes of the member.
        member: &'t [u8],
        /// Whether the position is after the member.
        behind: bool,
    },
    /// A position before or after the given member, in a sorted set in which all scores are equal.
    Text {
        /// The bytes of the member.
        member: &'t [u8],
        /// Whether the position is after the member.
        behind: bool,
    },
}

impl Target<'_> {
    /// Returns the mapped score of the position, or `None` if the position depends only on the
    /// member's bytes.
    pub(crate) fn order(&self) -> Option<u64> {
        match *self {
            Target::Score { order, .. } | Target::Member { order, .. } => Some(order),
            Target::Text { .. } => None,
        }
    }

    /// Returns whether this position is after a member whose mapped score is `order`. `compare`
    /// compares the member with the bytes passed to it, and is called only if the scores are equal
    /// or irrelevant.
    #[inline]
    pub(crate) fn is_behind<E>(
        &self,
        order: u64,
        compare: impl FnOnce(&[u8]) -> Result<Ordering, E>,
    ) -> Result<bool, E> {
        let by_text = |text: &[u8], behind: bool| {
            Ok(match compare(text)? {
                Ordering::Less => true,
                Ordering::Equal => behind,
                Ordering::Greater => false,
            })
        };
        match *self {
            Target::Score {
                order: wanted,
                behind,
            } => Ok(order < wanted || order == wanted && behind),
            Target::Member {
                order: wanted,
                member,
                behind,
            } => {
                if order == wanted {
                    by_text(member, behind)
                } else {
                    Ok(order < wanted)
                }
            }
            Target::Text { member, behind } => by_text(member, behind),
        }
    }

    /// Returns whether this position is after the element at `at`, whose score [`order_of`] maps to
    /// `order`.
    #[inline]
    pub(crate) fn is_behind_element(
        &self,
        view: &View<'_>,
        order: u64,
        at: u64,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        self.is_behind(order, |text| {
            scratch.clear();
            Element::load(view, at)?.append_key(view, scratch)?;
            Ok::<_, Error>(scratch.as_slice().cmp(text))
        })
    }
}

/// Compares two members by score, and then by their bytes.
pub(super) fn compare(one: &(&[u8], f64), other: &(&[u8], f64)) -> Ordering {
    order_of(one.1)
        .cmp(&order_of(other.1))
        .then_with(|| one.0.cmp(other.0))
}

/// Encodes a score as the value of an element.
pub(super) fn value_of(score: f64) -> Value<'static> {
    Value::Integer(score.to_bits() as i64)
}

/// Decodes a score from the value of an element.
pub(super) fn score_of(value: Value<'_>) -> f64 {
    match value {
        Value::Integer(bits) => f64::from_bits(bits as u64),
        Value::Text(_) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_sorts_like_the_scores() {
        let scores = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            1.5,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(scores.is_sorted_by(|one, next| order_of(*one) < order_of(*next)));
        assert_eq!(order_of(0.0), order_of(-0.0));
    }
}
