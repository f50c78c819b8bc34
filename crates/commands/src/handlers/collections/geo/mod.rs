//! Positions: sorted sets whose scores stand for places on the earth. Only `execute` calls them.
//!
//! - `request`: what GEOSEARCH and its like are asked for.
//! - `search`: GEOSEARCH, GEORADIUS and their like.

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

/// The commands of this file.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("geoadd", geoadd),
    ("geopos", geopos),
    ("geodist", geodist),
    ("geohash", geohash),
];

/// Writes a distance: four decimals, whatever the protocol. They are those of the product rounded, as Redis has it, which
/// are now and then others than those of the exact number.
fn write_distance(distance: f64, reply: &mut dyn Reply) {
    let scaled = (distance * 1e4).round_ties_even() as u64;
    reply.bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

/// Writes a position: up to 17 decimals, no exponent.
fn write_position((longitude, latitude): Position, reply: &mut dyn Reply) {
    reply.array(2);
    for degrees in [longitude, latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        reply.decimal(if text == "-0" { "0" } else { text });
    }
}

/// GEOADD.
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

/// The scores of members, none for those that are not there; none at all where the key is not.
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

/// GEOPOS.
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

/// GEOHASH.
fn geohash(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let scores = scores(context, arguments[1], &arguments[2..])?;
    reply.array(scores.len());
    for score in scores {
        reply.bulk_or_null(score.map(letters).as_ref().map(<[u8; 11]>::as_slice));
    }
    Ok(())
}

/// GEODIST.
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
