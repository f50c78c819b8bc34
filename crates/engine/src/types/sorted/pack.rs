//! Implements packed sorted sets, which are small sorted sets stored in a single byte string. Each
//! member is followed by its score.
//!
//! An integral score is stored as an integer, so a negative zero becomes 0. Any other score is
//! stored as a text that consists of the eight bytes of the `f64`.

use std::ops::Range;

use undercroft_memory::work;

use super::bounds::Bounds;
use super::order::{Target, order_of};
use super::scored::Scored;
use crate::error::Error;
use crate::structures::packed::{self, PackedItem, PackedItems};

/// Decodes the score in a packed item.
fn score_of(item: PackedItem<'_>) -> Result<f64, Error> {
    match item {
        PackedItem::Integer(value) => Ok(value as f64),
        PackedItem::Text(bytes) => match bytes.try_into() {
            Ok(bytes) => Ok(f64::from_le_bytes(bytes)),
            Err(_) => Err(undercroft_memory::Fault {
                at: 0,
                what: "a score of eight bytes",
            }
            .into()),
        },
    }
}

fn push_score(out: &mut Vec<u8>, score: f64) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let integer = score as i64;
    let exact = (-LIMIT..LIMIT).contains(&score) && integer as f64 == score;
    if exact {
        packed::push_integer(out, integer);
    } else {
        packed::push_text(out, &score.to_le_bytes());
    }
}

/// Returns the members of a packed sorted set in order.
pub(crate) fn members(bytes: &[u8]) -> Result<Scored, Error> {
    let mut scored = Scored::new();
    append_all(bytes, &mut scored)?;
    Ok(scored)
}

/// Appends all members of a packed sorted set to `out`.
pub(crate) fn append_all(bytes: &[u8], out: &mut Scored) -> Result<(), Error> {
    append_range(bytes, (0, usize::MAX), out)
}

/// Appends the members at positions `from..to` to `out`.
pub(crate) fn append_range(
    bytes: &[u8],
    (from, to): (usize, usize),
    out: &mut Scored,
) -> Result<(), Error> {
    for pair in pairs(bytes).take(to).skip(from) {
        let pair = pair?;
        out.members.push_with(|out| {
            pair.member.append_to(out);
            Ok::<_, Error>(())
        })?;
        out.scores.push(score_of(pair.score)?);
    }
    Ok(())
}

/// A member and its score, with their positions in a packed sorted set.
struct Pair<'p> {
    member: PackedItem<'p>,
    score: PackedItem<'p>,
    /// The offset of the member in the byte string. `middle` is the offset of the score.
    start: usize,
    middle: usize,
}

impl Pair<'_> {
    fn order(&self) -> Result<u64, Error> {
        Ok(order_of(score_of(self.score)?))
    }

    /// Returns whether the member is before the target position.
    fn is_before(&self, target: &Target<'_>) -> Result<bool, Error> {
        target.is_behind(self.order()?, |text| {
            Ok(match self.member {
                PackedItem::Text(member) => member.cmp(text),
                PackedItem::Integer(value) => {
                    itoa::Buffer::new().format(value).as_bytes().cmp(text)
                }
            })
        })
    }
}

/// Iterates over the members with their positions in the byte string.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = Result<Pair<'_>, Error>> {
    let mut items = packed::items(bytes);
    std::iter::from_fn(move || {
        let at = |items: &PackedItems<'_>| bytes.len() - items.rest().len();
        let start = at(&items);
        let member = match items.next()? {
            Ok(member) => member,
            Err(fault) => return Some(Err(fault.into())),
        };
        let middle = at(&items);
        let score = match items.next() {
            Some(Ok(score)) => score,
            Some(Err(fault)) => return Some(Err(fault.into())),
            None => return Some(Err(unpaired())),
        };
        Some(Ok(Pair {
            member,
            score,
            start,
            middle,
        }))
    })
}

/// The result of looking up a member in a packed sorted set.
pub(crate) struct Seen {
    /// The byte range of the member and its score, and the score itself, if the member exists.
    pub(crate) there: Option<(Range<usize>, f64)>,
    /// The number of members in the sorted set.
    pub(crate) count: usize,
    /// The score of the last member, mapped by [`order_of`], or 0 if there are no members.
    last: u64,
}

/// Looks up the member whose packed form is `form`. O(members).
pub(crate) fn look(bytes: &[u8], form: &[u8]) -> Result<Seen, Error> {
    work::touched(bytes.len() as u64 / 8 + 1);
    let score_at = |at| score_of(packed::item_at(bytes, at)?.0);
    let (mut there, mut count, mut last) = (None, 0, None);
    let end = packed::for_each_pair(bytes, |start, middle, end| {
        if packed::is_form(&bytes[start..middle], form) {
            there = Some((start, middle, end));
        }
        (count, last) = (count + 1, Some(middle));
    })?;
    if end < bytes.len() {
        return Err(unpaired());
    }
    let there = match there {
        Some((start, middle, end)) => Some((start..end, score_at(middle)?)),
        None => None,
    };
    Ok(Seen {
        there,
        count,
        last: last.map_or(Ok(0), |at| score_at(at).map(order_of))?,
    })
}

/// Adds a member or changes its score. `seen` is the result of [`look`] for this member.
/// O(members).
pub(crate) fn put(
    bytes: &mut Vec<u8>,
    seen: &Seen,
    (member, form): (&[u8], &[u8]),
    score: f64,
) -> Result<(), Error> {
    if let Some((range, _)) = &seen.there {
        bytes.drain(range.clone());
    }
    let target = Target::Member {
        order: order_of(score),
        member,
        behind: false,
    };
    let mut place = bytes.len();
    if seen.there.is_some() || seen.last >= order_of(score) {
        for pair in pairs(bytes) {
            let pair = pair?;
            if !pair.is_before(&target)? {
                place = pair.start;
                break;
            }
        }
    }
    if place == bytes.len() {
        bytes.extend_from_slice(form);
        push_score(bytes, score);
        return Ok(());
    }
    let mut new = form.to_vec();
    push_score(&mut new, score);
    bytes.splice(place..place, new);
    Ok(())
}

/// Removes the member whose packed form is `form`. Returns whether the member existed. O(members).
pub(crate) fn take(bytes: &mut Vec<u8>, form: &[u8]) -> Result<bool, Error> {
    let Some(member) = packed::find_paired(bytes, form)? else {
        return Ok(false);
    };
    let (_, end) = packed::item_at(bytes, member.end)?;
    bytes.drain(member.start..end);
    Ok(true)
}

/// Removes the members at positions `from..to`. O(members).
pub(crate) fn cut(bytes: &mut Vec<u8>, (from, to): (usize, usize)) -> Result<(), Error> {
    let (mut start, mut end) = (bytes.len(), bytes.len());
    for (position, pair) in pairs(bytes).enumerate().take(to.saturating_add(1)) {
        let pair = pair?;
        if position == from {
            start = pair.start;
        }
        if position == to {
            end = pair.start;
        }
    }
    bytes.drain(start.min(end)..end);
    Ok(())
}

/// Returns the rank of the member whose packed form is `form`, or `None` if the member does not
/// exist. O(members).
pub(crate) fn rank(bytes: &[u8], form: &[u8]) -> Result<Option<u64>, Error> {
    for (rank, pair) in (0..).zip(pairs(bytes)) {
        let pair = pair?;
        if bytes[pair.start..pair.middle] == *form {
            return Ok(Some(rank));
        }
    }
    Ok(None)
}

fn unpaired() -> Error {
    undercroft_memory::Fault {
        at: 0,
        what: "a packed sorted set whose members have scores",
    }
    .into()
}

/// Returns the score of a member, or `None` if the member does not exist.
pub(crate) fn score(bytes: &[u8], member: &[u8]) -> Result<Option<f64>, Error> {
    match packed::find_paired(bytes, &packed::form(member))? {
        Some(place) => score_of(packed::item_at(bytes, place.end)?.0).map(Some),
        None => Ok(None),
    }
}

/// Encodes members as a packed sorted set. The members must be in order.
pub(crate) fn pack<'m>(members: impl Iterator<Item = (&'m [u8], f64)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (member, score) in members {
        packed::push(&mut bytes, member);
        push_score(&mut bytes, score);
    }
    bytes
}

/// Returns the number of members that precede the target position.
fn count_before(bytes: &[u8], target: &Target<'_>) -> Result<usize, Error> {
    let mut count = 0;
    for pair in pairs(bytes) {
        if !pair?.is_before(target)? {
            break;
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the positions of the members in a range by score or by text. O(members).
pub(crate) fn range(
    bytes: &[u8],
    bounds: &Bounds<'_>,
    reverse: bool,
) -> Result<(usize, usize), Error> {
    if matches!(bounds, Bounds::Texts(..)) {
        return Ok(text_range(&members(bytes)?, bounds, reverse));
    }
    Ok(match bounds.targets() {
        (Some(low), Some(high)) if !bounds.is_empty() => {
            let (from, to) = (count_before(bytes, &low)?, count_before(bytes, &high)?);
            (from.min(to), to)
        }
        _ => (0, 0),
    })
}

/// Returns the positions of the members in a range of texts. If the scores differ, such a range is
/// meaningless, and the result is the same as in Redis, which searches from one end.
fn text_range(members: &Scored, bounds: &Bounds<'_>, reverse: bool) -> (usize, usize) {
    let (low, high) = bounds.targets();
    let is_before = |index: usize, target: &Target<'_>| {
        let member = members.members.get(index);
        let compared = target.is_behind(0, |text| Ok::<_, Error>(member.cmp(text)));
        compared.unwrap_or(false)
    };
    let above = |index| low.is_none_or(|low| !is_before(index, &low));
    let below = |index| high.is_none_or(|high| is_before(index, &high));
    let count = members.len();
    // Like Redis, check the first and last members before the search.
    if count == 0 || bounds.is_empty() || !above(count - 1) || !below(0) {
        return (0, 0);
    }
    if reverse {
        let last = (0..count).rev().find(|&index| below(index));
        let Some(last) = last.filter(|&last| above(last)) else {
            return (0, 0);
        };
        let first = (0..=last).rev().take_while(|&index| above(index)).last();
        return (first.unwrap_or(last), last + 1);
    }
    let first = (0..count).find(|&index| above(index));
    let Some(first) = first.filter(|&first| below(first)) else {
        return (0, 0);
    };
    let length = (first..count).take_while(|&index| below(index)).count();
    (first, first + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_scores_are_read_back_bit_for_bit() {
        let scores = [
            0.0,
            1.0,
            -1.0,
            47.0,
            1.5,
            1e17,
            9.3e18,
            -9_223_372_036_854_775_808.0,
            9_223_372_036_854_775_808.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            5e-324,
        ];
        let all = scores.iter().map(|&score| (&b"12"[..], score));
        let bytes = pack(all);
        let read = members(&bytes).expect("sound");
        let bits = |scores: &[f64]| {
            scores
                .iter()
                .map(|score| score.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(&read.scores), bits(&scores));
        assert!(read.members.iter().all(|member| member == b"12"));
        assert!(members(&bytes[..1]).is_err());
    }
}
