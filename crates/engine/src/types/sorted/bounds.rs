//! Ranges of sorted sets: by rank, by score, by text.

use super::order::{Target, order_of};
use crate::handle::events::KeyEvent;

/// One end of a range by score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score.
    pub score: f64,
    /// Whether the score itself is not part of the range.
    pub exclusive: bool,
}

/// One end of a range by text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextBound<'b> {
    /// Before all texts.
    Least,
    /// Behind all texts.
    Greatest,
    /// At a text.
    Text {
        /// The text.
        text: &'b [u8],
        /// Whether the text itself is not part of the range.
        exclusive: bool,
    },
}

/// Which members a command means. Both ends count unless they are exclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds<'b> {
    /// Ranks from the lowest score, or, where negative, from the highest.
    /// Reversed ranges count from the other end.
    Ranks(i64, i64),
    /// From the lower to the higher score.
    Scores(ScoreBound, ScoreBound),
    /// From the lower to the higher text, where all scores are equal.
    Texts(TextBound<'b>, TextBound<'b>),
}

impl<'b> Bounds<'b> {
    /// What is told of the members being removed.
    pub(super) fn removal(&self) -> KeyEvent {
        match self {
            Bounds::Ranks(..) => KeyEvent::ZRemRangeByRank,
            Bounds::Scores(..) => KeyEvent::ZRemRangeByScore,
            Bounds::Texts(..) => KeyEvent::ZRemRangeByLex,
        }
    }

    /// The places between which the range lies; none where it goes to the end.
    /// For ranges by score and text.
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

    /// Whether no member can be in the range.
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

/// The part of a range that LIMIT leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Members to pass over; none is left where it is negative.
    pub offset: i64,
    /// Members at most; all where it is negative.
    pub count: i64,
}

impl Limit {
    /// All of a range.
    pub const ALL: Limit = Limit {
        offset: 0,
        count: -1,
    };

    /// What is left of a range of ranks, which is walked from its end where
    /// `reverse`.
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
    fn limits_count_from_where_the_walk_begins() {
        let limit = |offset, count, reverse| Limit { offset, count }.of((10, 20), reverse);
        assert_eq!(limit(0, -1, false), (10, 20));
        assert_eq!(limit(2, 3, false), (12, 15));
        assert_eq!(limit(2, 3, true), (15, 18));
        assert_eq!(limit(9, 100, true), (10, 11));
        assert_eq!(limit(100, 5, false), (20, 20));
        assert_eq!(limit(-1, 5, true).0, limit(-1, 5, true).1);
    }

    #[test]
    fn empty_ranges_are_known() {
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
