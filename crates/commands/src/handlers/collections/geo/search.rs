//! Implements GEOSEARCH, GEORADIUS and their variants.

use std::cmp::Ordering;

use undercroft_engine::events::KeyEvent;
use undercroft_engine::sorted_sets::{Bounds, Limit, ScoreBound, Scored, SortedSet};
use undercroft_engine::{Error, Key, View};

use super::request::{GeoCommand, Order, Request};
use super::{write_distance, write_position};
use crate::algorithms::geohash::{Position, decode};
use crate::algorithms::partial_sort::sort_start;
use crate::arguments::is_keyword;
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::handlers::collections::sorted::limits;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("geosearch", geosearch),
    ("geosearchstore", geosearchstore),
    ("georadius", georadius),
    ("georadius_ro", georadius_ro),
    ("georadiusbymember", georadiusbymember),
    ("georadiusbymember_ro", georadiusbymember_ro),
];

/// A member that the search found.
struct Hit {
    member: Vec<u8>,
    score: f64,
    position: Position,
    /// The distance from the center in meters.
    distance: f64,
}

fn by_distance(one: &Hit, other: &Hit) -> Ordering {
    one.distance.total_cmp(&other.distance)
}

/// Returns the members whose positions are inside the shape, in the requested order.
fn search(view: &View<'_>, set: &SortedSet, request: &Request<'_>) -> Result<Vec<Hit>, Error> {
    let (Some(center), Some(shape)) = (request.center, request.shape) else {
        return Ok(Vec::new());
    };
    let enough = if request.any {
        usize::try_from(request.count).unwrap_or(usize::MAX)
    } else {
        usize::MAX
    };
    let mut hits = Vec::new();
    let mut scored = Scored::new();
    for cell in shape.cells(center) {
        if hits.len() >= enough {
            break;
        }
        let (low, high) = cell.scores();
        let bound = |score, exclusive| ScoreBound { score, exclusive };
        let bounds = Bounds::Scores(bound(low, false), bound(high, true));
        scored.clear();
        set.append_range(view, &bounds, Limit::ALL, false, &mut scored)?;
        for (member, score) in scored.iter() {
            let position = decode(score);
            let Some(distance) = shape.distance(center, position) else {
                continue;
            };
            hits.push(Hit {
                member: member.to_vec(),
                score,
                position,
                distance,
            });
            if hits.len() >= enough {
                break;
            }
        }
    }
    let wanted = match request.count {
        0 => hits.len(),
        count => usize::try_from(count).unwrap_or(usize::MAX).min(hits.len()),
    };
    match request.order {
        Order::None => {}
        Order::Nearest => sort_start(&mut hits, wanted, by_distance),
        Order::Farthest => sort_start(&mut hits, wanted, |one, other| by_distance(other, one)),
    }
    hits.truncate(wanted);
    Ok(hits)
}

/// Returns the position of a member in a sorted set, or `None` if the set does not contain the
/// member.
fn find(
    view: &View<'_>,
    set: Option<&SortedSet>,
    member: &Key<'_>,
) -> Result<Option<Position>, Failure> {
    match set {
        Some(set) => Ok(set.score(view, member)?.map(decode)),
        None => Ok(None),
    }
}

/// The result of a search: the hits, or `Stores` if an option such as STORE requires the command to
/// store them.
enum SearchResult<'a> {
    Hits(Request<'a>, Vec<Hit>, bool),
    Stores,
}

fn run(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    command: GeoCommand,
    reply: &mut dyn Reply,
) -> Outcome {
    if command == GeoCommand::SearchStore {
        return store_hits(context, arguments, command, reply);
    }
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let found = store.read(store.shards_of([&key]), |reader| {
        let (view, set) = (reader.view(), reader.sorted_set(database, &key)?);
        let request = Request::parse(arguments, command, set.is_some(), |member| {
            find(view, set.as_ref(), &reader.key(member))
        })?;
        if request.target.is_some() {
            return Ok(SearchResult::Stores);
        }
        let hits = match &set {
            Some(set) => search(view, set, &request)?,
            None => Vec::new(),
        };
        Ok::<_, Failure>(SearchResult::Hits(request, hits, set.is_some()))
    })?;
    let SearchResult::Hits(request, hits, is_there) = found else {
        return store_hits(context, arguments, command, reply);
    };
    context.looked_up(&key, is_there);
    let shown = [
        request.with_distance,
        request.with_score,
        request.with_position,
    ];
    let parts = shown.into_iter().filter(|&shown| shown).count();
    reply.array(hits.len());
    for hit in hits {
        if parts > 0 {
            reply.array(parts + 1);
        }
        reply.bulk(&hit.member);
        if request.with_distance {
            write_distance(hit.distance / request.meters, reply);
        }
        if request.with_score {
            reply.integer(hit.score as i64);
        }
        if request.with_position {
            write_position(hit.position, reply);
        }
    }
    Ok(())
}

fn store_hits(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    command: GeoCommand,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database, limits) = (context.store, context.database(), limits(context));
    let source = if command == GeoCommand::SearchStore {
        2
    } else {
        1
    };
    let source = store.key(arguments[source]);
    let targets = context.keys(possible_targets(arguments, command));
    let shards = store.shards_of(targets.iter().chain([&source]));
    let (stored, is_there) = store.write(shards, |writer| {
        let set = writer.sorted_set(database, &source)?;
        let request = Request::parse(arguments, command, set.is_some(), |member| {
            find(writer.view(), set.as_ref(), &writer.key(member))
        })?;
        let hits = match &set {
            Some(set) => search(writer.view(), set, &request)?,
            None => Vec::new(),
        };
        let mut scored = Scored::new();
        if let Some(target) = request.target {
            for hit in &hits {
                let distance = hit.distance / request.meters;
                let score = if target.distances {
                    distance
                } else {
                    hit.score
                };
                scored.push(&hit.member, score);
            }
            let target = writer.key(target.key);
            let event = if command == GeoCommand::SearchStore {
                KeyEvent::GeoSearchStore
            } else {
                KeyEvent::GeoRadiusStore
            };
            if set.is_none() {
                writer.tell(KeyEvent::KeyMiss, database, &source);
            }
            writer.tell_as(event, database, &target, |writer| {
                writer.sorted_store(database, &target, &scored, &limits)
            })?;
        }
        Ok::<_, Failure>((scored.len(), set.is_some()))
    })?;
    context.count_lookup(is_there);
    if is_there {
        store.note_use(&source);
    }
    reply.integer(stored as i64);
    Ok(())
}

/// Returns every key in which the results may be stored. The actual key is known only after all
/// options have been parsed.
fn possible_targets<'a>(arguments: &'a [&'a [u8]], command: GeoCommand) -> Vec<&'a &'a [u8]> {
    if command == GeoCommand::SearchStore {
        return vec![&arguments[1]];
    }
    let stores = |option: &[u8]| is_keyword(option, "STORE") || is_keyword(option, "STOREDIST");
    let pairs = arguments.windows(2).filter(|pair| stores(pair[0]));
    pairs.map(|pair| &pair[1]).collect()
}

/// Handles GEOSEARCH.
fn geosearch(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    run(context, arguments, GeoCommand::Search, reply)
}

/// Handles GEOSEARCHSTORE.
fn geosearchstore(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    run(context, arguments, GeoCommand::SearchStore, reply)
}

/// Handles GEORADIUS.
fn georadius(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    run(
        context,
        arguments,
        GeoCommand::Radius { stores: true },
        reply,
    )
}

/// Handles GEORADIUS_RO.
fn georadius_ro(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    run(
        context,
        arguments,
        GeoCommand::Radius { stores: false },
        reply,
    )
}

/// Handles GEORADIUSBYMEMBER.
fn georadiusbymember(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    run(
        context,
        arguments,
        GeoCommand::Member { stores: true },
        reply,
    )
}

/// Handles GEORADIUSBYMEMBER_RO.
fn georadiusbymember_ro(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    run(
        context,
        arguments,
        GeoCommand::Member { stores: false },
        reply,
    )
}
