//! The scripts of Celery's chords on a Redis: results of a chord's tasks are collected until all are there, and one
//! worker then claims the chord to run its body.

use super::Call;
use super::calls::{Calls, number, number_text};
use crate::handler::Failure;
use crate::reply::Tree;

const NIL_ARITHMETIC: &str = "attempt to perform arithmetic on a nil value";
const NIL_COMPARED: &str = "attempt to compare number with nil";

/// KEYS: the results, how many more are expected than the chord's size says, that size, the tasks that are counted,
/// the group, and the claim. ARGV: the task, its result, `1` where results are ordered, its place, how many seconds
/// these keys, the group and a claim live, and a token to claim with. Answers how many results there are, the second
/// and third key, and whether the chord is claimed now.
pub(super) fn chord_part_return(
    calls: &mut Calls<'_, '_>,
    call: &Call<'_>,
) -> Result<Tree, Failure> {
    let (results, more, size) = (call.key(1), call.key(2), call.key(3));
    let (counted, group, claim) = (call.key(4), call.key(5), call.key(6));
    if calls.text(9, &[Some(b"GET"), claim])?.as_deref() == Some(b"done") {
        return Ok(answer(-1, Tree::Integer(0), Tree::Integer(0), 0));
    }
    let (value, is_ordered) = (call.argument(2), call.argument(3) == Some(b"1"));
    let (Some(task), Some(place)) = (call.argument(1), call.argument(4)) else {
        return Err(calls.own_error("attempt to concatenate local 'score' (a nil value)", 16));
    };
    let member = [task, b":", place].concat();
    let member = Some(member.as_slice());
    if calls.integer(17, &[Some(b"SISMEMBER"), counted, member])? == 0 {
        if is_ordered {
            calls.call(19, &[Some(b"ZADD"), results, Some(place), value])?;
        } else {
            calls.call(21, &[Some(b"RPUSH"), results, value])?;
        }
        calls.call(23, &[Some(b"SADD"), counted, member])?;
    }
    let ready = if is_ordered {
        let (least, greatest) = (Some(&b"-inf"[..]), Some(&b"+inf"[..]));
        calls.integer(27, &[Some(b"ZCOUNT"), results, least, greatest])?
    } else {
        calls.integer(29, &[Some(b"LLEN"), results])?
    };
    let time = number(call.argument(5));
    if is_positive(time).ok_or_else(|| calls.own_error(NIL_COMPARED, 31))? {
        let time = time.map(number_text);
        for key in [results, more, size, counted] {
            calls.call(33, &[Some(b"EXPIRE"), key, time.as_deref()])?;
        }
        let time = number(call.argument(6));
        if is_positive(time).ok_or_else(|| calls.own_error(NIL_COMPARED, 35))? {
            let time = time.map(number_text);
            calls.call(36, &[Some(b"EXPIRE"), group, time.as_deref()])?;
        }
    }
    let more = calls.text(40, &[Some(b"GET"), more])?;
    let size = calls.text(41, &[Some(b"GET"), size])?;
    let mut claimed = 0;
    if let Some(size) = &size {
        let more = more.as_deref().unwrap_or(b"0");
        let (Some(size), Some(more)) = (number(Some(size)), number(Some(more))) else {
            return Err(calls.own_error(NIL_ARITHMETIC, 43));
        };
        if ready as f64 == size + more {
            let (time, token) = (number(call.argument(7)), call.argument(8));
            claimed = i64::from(set(calls, 44, claim, token, time, true)?);
        }
    }
    let [more, size] = [more, size].map(|text| text.map_or(Tree::Null, Tree::Bulk));
    Ok(answer(ready, more, size, claimed))
}

/// KEYS: the claim, and the first four of [`chord_part_return`]. ARGV: the token, and how many seconds to remember that
/// the chord is done. Answers whether the token claimed it.
pub(super) fn chord_cleanup(calls: &mut Calls<'_, '_>, call: &Call<'_>) -> Result<Tree, Failure> {
    let (claim, token) = (call.key(1), call.argument(1));
    if !holds(calls, 10, claim, token)? {
        return Ok(Tree::Integer(0));
    }
    let [results, more, size, counted] = [2, 3, 4, 5].map(|number| call.key(number));
    calls.call(11, &[Some(b"DEL"), results, more, size, counted])?;
    let time = number(call.argument(2));
    if is_positive(time) == Some(true) {
        set(calls, 13, claim, Some(b"done"), time, false)?;
    }
    Ok(Tree::Integer(1))
}

/// KEYS: the claim, and the chord's size. ARGV: the token, and how many seconds it claims the chord. Answers whether it
/// does.
pub(super) fn chord_claim_extend(
    calls: &mut Calls<'_, '_>,
    call: &Call<'_>,
) -> Result<Tree, Failure> {
    let (claim, size, token) = (call.key(1), call.key(2), call.argument(1));
    let time = number(call.argument(2));
    if holds(calls, 5, claim, token)? {
        let time = time.map(number_text);
        return calls.call(6, &[Some(b"EXPIRE"), claim, time.as_deref()]);
    }
    let is_free = calls.text(8, &[Some(b"GET"), claim])?.is_none();
    let is_claimed = is_free
        && calls.integer(8, &[Some(b"EXISTS"), size])? == 1
        && set(calls, 9, claim, token, time, true)?;
    Ok(Tree::Integer(is_claimed.into()))
}

/// Whether a key holds a token. A token that was not given is like none that a key could hold.
fn holds(
    calls: &mut Calls<'_, '_>,
    line: u32,
    key: Option<&[u8]>,
    token: Option<&[u8]>,
) -> Result<bool, Failure> {
    let held = calls.text(line, &[Some(b"GET"), key])?;
    Ok(held.is_some() && held.as_deref() == token)
}

/// Sets a key for so many seconds. Returns whether it did it.
fn set(
    calls: &mut Calls<'_, '_>,
    line: u32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    seconds: Option<f64>,
    only_new: bool,
) -> Result<bool, Failure> {
    let seconds = seconds.map(number_text);
    let mut arguments = vec![
        Some(&b"SET"[..]),
        key,
        value,
        Some(b"EX"),
        seconds.as_deref(),
    ];
    if only_new {
        arguments.push(Some(b"NX"));
    }
    Ok(calls.call(line, &arguments)? != Tree::Null)
}

/// Whether a number is above 0; none where there is none to compare.
fn is_positive(number: Option<f64>) -> Option<bool> {
    number.map(|number| number > 0.0)
}

fn answer(ready: i64, more: Tree, size: Tree, claimed: i64) -> Tree {
    Tree::Array(vec![
        Tree::Integer(ready),
        more,
        size,
        Tree::Integer(claimed),
    ])
}
