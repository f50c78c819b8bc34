//! The order of members: by score, then by their bytes.

use std::cmp::Ordering;

use undercroft_memory::View;

use crate::error::Error;
use crate::structures::element::{Element, Value};

/// A number that is ordered as scores are. Both zeros are equal.
#[inline]
pub(crate) fn order_of(score: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    let bits = (score + 0.0).to_bits();
    if bits & SIGN != 0 { !bits } else { bits | SIGN }
}

/// A place in the order of a sorted set: between what is before it and the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'t> {
    /// Before all members with a score, or behind them.
    Score {
        /// The score, as [`order_of`] gives it.
        order: u64,
        /// Whether it is the place behind them.
        behind: bool,
    },
    /// Before a member with a score, or behind it.
    Member {
        /// The score, as [`order_of`] gives it.
        order: u64,
        /// The member.
        member: &'t [u8],
        /// Whether it is the place behind it.
        behind: bool,
    },
    /// Before a member, or behind it, where all scores are equal.
    Text {
        /// The member.
        member: &'t [u8],
        /// Whether it is the place behind it.
        behind: bool,
    },
}

impl Target<'_> {
    /// The score that decides where scores differ.
    pub(crate) fn order(&self) -> Option<u64> {
        match *self {
            Target::Score { order, .. } | Target::Member { order, .. } => Some(order),
            Target::Text { .. } => None,
        }
    }

    /// Whether a member with a score lies before the place. `member` is asked
    /// for its bytes only where they decide.
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

    /// The same for an element, whose score is known.
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

/// The order of members.
pub(super) fn compare(one: &(&[u8], f64), other: &(&[u8], f64)) -> Ordering {
    order_of(one.1)
        .cmp(&order_of(other.1))
        .then_with(|| one.0.cmp(other.0))
}

/// A score as an element keeps it.
pub(super) fn value_of(score: f64) -> Value<'static> {
    Value::Integer(score.to_bits() as i64)
}

/// The score that an element keeps.
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
    fn orders_are_those_of_scores() {
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
