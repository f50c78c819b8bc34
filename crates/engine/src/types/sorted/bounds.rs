//! Ranges of sorted sets: by rank, by score and by text.

use super::order::{Target, order_of};
use crate::handle::events::KeyEvent;

/// A lower or upper bound of a range by score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score at the bound.
    pub score: f64,
    /// Whether the range excludes this score.
    pub exclusive: bool,
}

/// A lower or upper bound of a range by text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextBound<'b> {
    /// Before all texts (`-`).
    Least,
    /// After all texts (`+`).
    Greatest,
    /// At the given text.
    Text {
        /// The text at the bound.
        text: &'b [u8],
        /// Whether the range excludes this text.
        exclusive: bool,
    },
}

/// A range of members. Both ends are included unless they are exclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds<'b> {
    /// Ranks counted from the lowest score, or from the highest if negative. A reversed range
    /// counts from the other end.
    Ranks(i64, i64),
    /// Scores from the lower to the higher bound.
    Scores(ScoreBound, ScoreBound),
    /// Texts from the lower to the higher bound, for sorted sets whose scores are all equal.
    Texts(TextBound<'b>, TextBound<'b>),
}

impl<'b> Bounds<'b> {
    /// Returns the keyspace event for removing the members of this range.
    pub(super) fn removal(&self) -> KeyEvent {
        match self {
            Bounds::Ranks(..) => KeyEvent::ZRemRangeByRank,
            Bounds::Scores(..) => KeyEvent::ZRemRangeByScore,
            Bounds::Texts(..) => KeyEvent::ZRemRangeByLex,
        }
    }

    /// Returns the two positions that delimit a range by score or text, or `None` for an end
    /// without a limit.
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

    /// Returns whether no member can be in the range.
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
    /// Number of members to skip. If negative, the result is empty.
    pub offset: i64,
    /// Maximum number of members to return. If negative, there is no maximum.
    pub count: i64,
}

impl Limit {
    /// No limit: the complete range.
    pub const ALL: Limit = Limit {
        offset: 0,
        count: -1,
    };

    /// Applies the limit to a range of ranks. With `reverse`, the offset counts from the end of the
    /// range.
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
