//! Small sorted sets in one byte string: members in order, each followed by its
//! score.
//!
//! A score that is an integer is held as one, so that zero has no sign; any other
//! is a text of its eight bytes.

use super::bounds::Bounds;
use super::order::{Target, order_of};
use super::scored::Scored;
use crate::error::Error;
use crate::structures::packed::{self, PackedItem};

/// The score that an item holds.
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

/// The members of a packed sorted set in order.
pub(crate) fn members(bytes: &[u8]) -> Result<Scored, Error> {
    let mut scored = Scored::new();
    append_all(bytes, &mut scored)?;
    Ok(scored)
}

/// Appends all members to `out`.
pub(crate) fn append_all(bytes: &[u8], out: &mut Scored) -> Result<(), Error> {
    let mut items = packed::items(bytes);
    while let Some(member) = items.next() {
        let member = member?;
        let score = items.next().ok_or_else(unpaired)??;
        let score = score_of(score)?;
        out.members.push_with(|out| {
            member.append_to(out);
            Ok::<_, Error>(())
        })?;
        out.scores.push(score);
    }
    Ok(())
}

fn unpaired() -> Error {
    undercroft_memory::Fault {
        at: 0,
        what: "a packed sorted set whose members have scores",
    }
    .into()
}

/// The score of a member, if it is there.
pub(crate) fn score(bytes: &[u8], member: &[u8]) -> Result<Option<f64>, Error> {
    match packed::find(bytes, &packed::form(member), 2)? {
        Some(place) => score_of(packed::item_at(bytes, place.end)?.0).map(Some),
        None => Ok(None),
    }
}

/// The packed form of members in order.
pub(crate) fn pack<'m>(members: impl Iterator<Item = (&'m [u8], f64)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (member, score) in members {
        packed::push(&mut bytes, member);
        push_score(&mut bytes, score);
    }
    bytes
}

/// Number of members before a place.
pub(crate) fn count_before(members: &Scored, target: &Target<'_>) -> usize {
    let before = |(member, score): (&[u8], f64)| {
        let compared = target.is_behind(order_of(score), |text| Ok::<_, Error>(member.cmp(text)));
        compared.unwrap_or(false)
    };
    members.iter().take_while(|member| before(*member)).count()
}

/// The positions that a range by score or text has.
pub(crate) fn range(members: &Scored, bounds: &Bounds<'_>, reverse: bool) -> (usize, usize) {
    if matches!(bounds, Bounds::Texts(..)) {
        return text_range(members, bounds, reverse);
    }
    match bounds.targets() {
        (Some(low), Some(high)) if !bounds.is_empty() => {
            let (from, to) = (count_before(members, &low), count_before(members, &high));
            (from.min(to), to)
        }
        _ => (0, 0),
    }
}

/// The positions that a range by text has. Where scores differ, which makes it
/// meaningless, it is what a search from one end finds, as in Redis.
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
    // Redis looks at the ends before it searches.
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
    fn scores_come_back_to_the_bit() {
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
