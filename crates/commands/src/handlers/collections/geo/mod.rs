//! Implements geospatial indexes, which are sorted sets whose scores encode positions on the earth.
//! Only `execute` calls these handlers.
//!
//! - `request`: parses the arguments of GEOSEARCH, GEORADIUS and their variants.
//! - `search`: implements GEOSEARCH, GEORADIUS and their variants.

mod request;
pub(crate) mod search;

use undercroft_engine::sorted_sets::AddRule;

use self::request::{position, unit};
use super::sorted::limits;
use super::sorted::read::read;
use crate::algorithms::geohash::{Position, decode, distance, encode, letters};
use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("geoadd", geoadd),
    ("geopos", geopos),
    ("geodist", geodist),
    ("geohash", geohash),
];

/// Writes a distance with four decimals, regardless of the protocol. As in Redis, the distance
/// times 10,000 is rounded to an integer, which occasionally differs from rounding the exact
/// number.
fn write_distance(distance: f64, reply: &mut dyn Reply) {
    let scaled = (distance * 1e4).round_ties_even() as u64;
    reply.bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

/// Writes a position as two numbers with up to 17 decimals and no exponent.
fn write_position((longitude, latitude): Position, reply: &mut dyn Reply) {
    reply.array(2);
    for degrees in [longitude, latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        reply.decimal(if text == "-0" { "0" } else { text });
    }
}

/// Handles GEOADD.
fn geoadd(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (mut rule, mut count_changed) = (AddRule::default(), false);
    let mut rest = &arguments[2..];
    while let [option, behind @ ..] = rest {
        if is_keyword(option, "NX") {
            rule.only_new = true;
        } else if is_keyword(option, "XX") {
            rule.only_existing = true;
        } else if is_keyword(option, "CH") {
            count_changed = true;
        } else {
            break;
        }
        rest = behind;
    }
    let (places, []) = rest.as_chunks::<3>() else {
        return Err(CommandError::SYNTAX.into());
    };
    if rule.only_new && rule.only_existing {
        return Err(CommandError::SYNTAX.into());
    }
    let members: Result<Vec<(&[u8], f64)>, CommandError> = places
        .iter()
        .map(|[longitude, latitude, member]| Ok((*member, encode(position(longitude, latitude)?))))
        .collect();
    let members = members?;
    if members.is_empty() {
        return Err(CommandError::SYNTAX.into());
    }
    let (store, database, limits) = (context.store, context.database(), limits(context));
    let key = store.key(arguments[1]);
    let added = store.write(store.shards_of([&key]), |writer| {
        writer.sorted_add(database, &key, &members, rule, &limits)
    })?;
    store.note_use(&key);
    let changed = if count_changed { added.updated } else { 0 };
    reply.integer((added.added + changed) as i64);
    Ok(())
}

/// Returns the score of each member. A score is `None` if the member or the key does not exist.
fn scores(
    context: &mut Context<'_>,
    key: &[u8],
    members: &[&[u8]],
) -> Result<Vec<Option<f64>>, Failure> {
    let keys = context.keys(members);
    let scores = read(context, key, |reader, set| {
        let scores = keys.iter().map(|member| set.score(reader.view(), member));
        scores.collect::<Result<Vec<_>, _>>()
    })?;
    Ok(scores.unwrap_or_else(|| vec![None; members.len()]))
}

/// Handles GEOPOS.
fn geopos(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let scores = scores(context, arguments[1], &arguments[2..])?;
    reply.array(scores.len());
    for score in scores {
        match score {
            Some(score) => write_position(decode(score), reply),
            None => reply.null_array(),
        }
    }
    Ok(())
}

/// Handles GEOHASH.
fn geohash(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let scores = scores(context, arguments[1], &arguments[2..])?;
    reply.array(scores.len());
    for score in scores {
        reply.bulk_or_null(score.map(letters).as_ref().map(<[u8; 11]>::as_slice));
    }
    Ok(())
}

/// Handles GEODIST.
fn geodist(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let meters = match &arguments[4..] {
        [] => 1.0,
        [name] => unit(name)?,
        _ => return Err(CommandError::SYNTAX.into()),
    };
    let scores = scores(context, arguments[1], &arguments[2..4])?;
    match scores.as_slice() {
        [Some(one), Some(other)] => {
            write_distance(distance(decode(*one), decode(*other)) / meters, reply);
        }
        _ => reply.null(),
    }
    Ok(())
}
