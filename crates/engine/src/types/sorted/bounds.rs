//! Defines ranges of sorted set members by rank, by score and by text.

use super::order::{Target, order_of};
use crate::handle::events::KeyEvent;

/// The lower or upper bound of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score of the bound.
    pub score: f64,
    /// Whether the range excludes this score.
    pub exclusive: bool,
}

/// The lower or upper bound of a range of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextBound<'b> {
    /// A bound below all texts (`-`).
    Least,
    /// A bound above all texts (`+`).
    Greatest,
    /// A bound at the given text.
    Text {
        /// The text of the bound.
        text: &'b [u8],
        /// Whether the range excludes this text.
        exclusive: bool,
    },
}

/// A range of members. Each bound is inclusive unless it is marked as exclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds<'b> {
    /// A range of ranks, inclusive. Ranks count from the lowest score, or from the highest score if
    /// negative. In a reversed range, ranks count from the opposite end.
    Ranks(i64, i64),
    /// A range of scores, from the lower bound to the upper bound.
    Scores(ScoreBound, ScoreBound),
    /// A range of texts, from the lower bound to the upper bound, for sorted sets in which all
    /// scores are equal.
    Texts(TextBound<'b>, TextBound<'b>),
}

impl<'b> Bounds<'b> {
    /// Returns the keyspace event that is emitted when the members of this range are removed.
    pub(super) fn removal(&self) -> KeyEvent {
        match self {
            Bounds::Ranks(..) => KeyEvent::ZRemRangeByRank,
            Bounds::Scores(..) => KeyEvent::ZRemRangeByScore,
            Bounds::Texts(..) => KeyEvent::ZRemRangeByLex,
        }
    }

    /// Returns the two positions that delimit a range of scores or texts. A position is `None` if
    /// the range has no limit at that end.
    pub(crate) fn targets(&self) -> (Option<Target<'b>>, Option<Target<'b>>) {
        match *self {
            Bounds::Ranks(..) => (None, None),
            Bounds::Scores(low, high) => (
                Some(Target::Score {
                    order: order_of(low.score),
                    behind: low.exclusive,
                }),
                Some(Target::Score {
                    order: order_of(high.score),
                    behind: !high.exclusive,
                }),
            ),
            Bounds::Texts(low, high) => {
                let target = |bound: TextBound<'b>, is_low: bool| match bound {
                    TextBound::Text { text, exclusive } => Some(Target::Text {
                        member: text,
                        behind: exclusive == is_low,
                    }),
                    _ => None,
                };
                (target(low, true), target(high, false))
            }
        }
    }

    /// Returns whether the range is certain to be empty, regardless of the contents of the sorted
    /// set.
    pub(crate) fn is_empty(&self) -> bool {
        match *self {
            Bounds::Ranks(..) => false,
            Bounds::Scores(low, high) => {
                low.score > high.score
                    || low.score == high.score && (low.exclusive || high.exclusive)
            }
            Bounds::Texts(TextBound::Greatest, _) | Bounds::Texts(_, TextBound::Least) => true,
            Bounds::Texts(
                TextBound::Text {
                    text: low,
                    exclusive: low_exclusive,
                },
                TextBound::Text {
                    text: high,
                    exclusive: high_exclusive,
                },
            ) => low > high || low == high && (low_exclusive || high_exclusive),
            Bounds::Texts(..) => false,
        }
    }
}

/// The LIMIT option of a range command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The number of members to skip. If negative, the result is empty.
    pub offset: i64,
    /// The maximum number of members to return. If negative, there is no maximum.
    pub count: i64,
}

impl Limit {
    /// No limit, which selects the complete range.
    pub const ALL: Limit = Limit {
        offset: 0,
        count: -1,
    };

    /// Applies the limit to a range of ranks. If `reverse` is set, the offset counts from the end
    /// of the range.
    pub(crate) fn of(self, (from, to): (u64, u64), reverse: bool) -> (u64, u64) {
        let length = to.saturating_sub(from);
        let Ok(skip) = u64::try_from(self.offset) else {
            return (from, from);
        };
        let skip = skip.min(length);
        let rest = length - skip;
        let count = u64::try_from(self.count).map_or(rest, |count| count.min(rest));
        if reverse {
            (to - skip - count, to - skip)
        } else {
            (from + skip, from + skip + count)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_offset_counts_from_the_start_of_the_walk() {
        let limit = |offset, count, reverse| Limit { offset, count }.of((10, 20), reverse);
        assert_eq!(limit(0, -1, false), (10, 20));
        assert_eq!(limit(2, 3, false), (12, 15));
        assert_eq!(limit(2, 3, true), (15, 18));
        assert_eq!(limit(9, 100, true), (10, 11));
        assert_eq!(limit(100, 5, false), (20, 20));
        assert_eq!(limit(-1, 5, true).0, limit(-1, 5, true).1);
    }

    #[test]
    fn impossible_ranges_are_recognized_as_empty() {
        let score = |score, exclusive| ScoreBound { score, exclusive };
        assert!(Bounds::Scores(score(2.0, false), score(1.0, false)).is_empty());
        assert!(Bounds::Scores(score(1.0, true), score(1.0, false)).is_empty());
        assert!(!Bounds::Scores(score(1.0, false), score(1.0, false)).is_empty());
        let text = |text, exclusive| TextBound::Text { text, exclusive };
        assert!(Bounds::Texts(text(b"b", false), text(b"a", false)).is_empty());
        assert!(Bounds::Texts(TextBound::Greatest, TextBound::Greatest).is_empty());
        assert!(!Bounds::Texts(TextBound::Least, text(b"", false)).is_empty());
    }
}
