//! Implements the commands that read and count members of sorted sets.

use undercroft_engine::sorted_sets::{Bounds, Scored, SortedSet};
use undercroft_engine::{Error, Key, Random, Reader, chance};
use undercroft_numbers::double_text;

use super::add::only_option;
use super::{bounds, write_scored};
use crate::arguments::CommandError;
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::handlers::collections::sampling::{random_count, sample_bounded, sampled};
use crate::handlers::scan::scan_collection;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("zcard", zcard),
    ("zscore", zscore),
    ("zmscore", zmscore),
    ("zrank", zrank),
    ("zrevrank", zrevrank),
    ("zcount", zcount),
    ("zlexcount", zlexcount),
    ("zrandmember", zrandmember),
    ("zscan", zscan),
];

/// Calls `body` on the sorted set at a key. Returns `None` if the key does not exist.
pub(crate) fn read<R>(
    context: &mut Context<'_>,
    key: &[u8],
    body: impl Fn(&Reader<'_, '_>, &SortedSet) -> Result<R, Error> + Sync,
) -> Result<Option<R>, Failure> {
    let database = context.database();
    context.look_at(key, |reader, key| {
        match reader.sorted_set(database, key)? {
            None => Ok(None),
            Some(set) => Ok(Some(body(reader, &set)?)),
        }
    })
}

/// Handles ZCARD.
fn zcard(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let length = read(context, arguments[1], |reader, set| {
        set.length(reader.view())
    })?;
    reply.integer(length.unwrap_or(0) as i64);
    Ok(())
}

fn write_score(score: Option<f64>, reply: &mut dyn Reply) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// Handles ZSCORE.
fn zscore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let member = context.store.key(arguments[2]);
    let score = read(context, arguments[1], |reader, set| {
        set.score(reader.view(), &member)
    })?;
    write_score(score.flatten(), reply);
    Ok(())
}

/// Handles ZMSCORE.
fn zmscore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let members: Vec<Key<'_>> = context.keys(&arguments[2..]);
    let scores = read(context, arguments[1], |reader, set| {
        let scores = members.iter().enumerate().map(|(position, member)| {
            set.warm_ahead(reader.view(), &members, position);
            set.score(reader.view(), member)
        });
        scores.collect::<Result<Vec<_>, _>>()
    })?;
    let scores = scores.unwrap_or_else(|| vec![None; members.len()]);
    reply.array(scores.len());
    scores
        .into_iter()
        .for_each(|score| write_score(score, reply));
    Ok(())
}

/// Handles ZRANK.
fn zrank(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    rank(context, arguments, false, reply)
}

/// Handles ZREVRANK.
fn zrevrank(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    rank(context, arguments, true, reply)
}

fn rank(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reverse: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let member = context.store.key(arguments[2]);
    let rank = read(context, arguments[1], |reader, set| {
        let Some(rank) = set.rank(reader.view(), &member)? else {
            return Ok(None);
        };
        Ok(Some(if reverse {
            set.length(reader.view())?
                .saturating_sub(rank.saturating_add(1))
        } else {
            rank
        }))
    })?;
    match rank.flatten() {
        Some(rank) => reply.integer(rank as i64),
        None => reply.null(),
    }
    Ok(())
}

/// Handles ZCOUNT.
fn zcount(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let bounds = bounds::scores(arguments[2], arguments[3])?;
    count(context, arguments[1], &bounds, reply)
}

/// Handles ZLEXCOUNT.
fn zlexcount(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let bounds = bounds::texts(arguments[2], arguments[3])?;
    count(context, arguments[1], &bounds, reply)
}

fn count(
    context: &mut Context<'_>,
    key: &[u8],
    bounds: &Bounds<'_>,
    reply: &mut dyn Reply,
) -> Outcome {
    let count = read(context, key, |reader, set| {
        let (from, to) = set.ranks(reader.view(), bounds, false)?;
        Ok(to.saturating_sub(from))
    })?;
    reply.integer(count.unwrap_or(0) as i64);
    Ok(())
}

/// Handles ZRANDMEMBER.
fn zrandmember(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (count, with_scores) = match &arguments[2..] {
        [] => (None, false),
        [count, options @ ..] => {
            let count = random_count(count)?;
            let with_scores = only_option(options, "WITHSCORES")?;
            if with_scores && count > i64::MAX / 2 {
                return Err(CommandError::fixed("ERR value is out of range").into());
            }
            (Some(count), with_scores)
        }
    };
    let seed = chance();
    let sample = read(context, arguments[1], |reader, set| {
        let (mut scored, mut random) = (Scored::new(), Random::new(seed));
        let has_room = sample_bounded(count.unwrap_or(1), |count| {
            set.sample(reader.view(), &mut random, count, &mut scored)?;
            Ok(scored.byte_length())
        })?;
        Ok(has_room.then_some(scored))
    })?;
    let scored = sampled(sample)?;
    match count {
        None => reply.bulk_or_null(scored.get(0).map(|(member, _)| member)),
        Some(_) => write_scored(context, &scored, with_scores, reply),
    }
    Ok(())
}

/// Handles ZSCAN.
fn zscan(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let database = context.database();
    scan_collection(
        context,
        arguments,
        2,
        reply,
        |reader, key, cursor, count, out| {
            let Some(set) = reader.sorted_set(database, key)? else {
                return Ok(None);
            };
            let mut scored = Scored::new();
            let next = set.scan(reader.view(), cursor, count, &mut scored)?;
            for (member, score) in scored.iter() {
                out.push(member);
                out.push(scanned_score(score, set.is_small()).as_bytes());
            }
            Ok(Some(next))
        },
    )
}

/// Formats a score for ZSCAN. If the set is small, integral scores are written without an exponent.
fn scanned_score(score: f64, small: bool) -> String {
    const DIGITS_MAX: f64 = (1_u64 << 62) as f64;
    if small && score.abs() <= DIGITS_MAX && score.trunc() == score {
        (score as i64).to_string()
    } else {
        double_text(score).to_string()
    }
}
