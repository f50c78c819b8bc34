//! Computes unions, intersections and differences of sorted sets and plain sets.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::sets::SetOperation;
use undercroft_engine::sorted_sets::{Aggregate, Scored, Source, Weighted};
use undercroft_engine::{Error, Key};
use undercroft_numbers::parse_integer;

use super::{limits, write_scored};
use crate::algorithms::double::parse_double;
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("zunion", zunion),
    ("zunionstore", zunionstore),
    ("zinter", zinter),
    ("zinterstore", zinterstore),
    ("zintercard", zintercard),
    ("zdiff", zdiff),
    ("zdiffstore", zdiffstore),
];

/// The properties that a command's name implies.
#[derive(Clone, Copy, Debug)]
struct Form {
    operation: SetOperation,
    stores: bool,
    counts: bool,
}

/// The options that follow the keys.
#[derive(Clone, Debug)]
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// The maximum number of members to count.
    limit: usize,
}

/// Arguments that have not been parsed.
type Arguments<'a> = &'a [&'a [u8]];

/// Splits the arguments after `numkeys` into the keys and the options.
fn split_keys<'a>(
    arguments: Arguments<'a>,
    name: &str,
) -> Result<(Arguments<'a>, Arguments<'a>), CommandError> {
    let number = integer(arguments[0])?;
    if number < 1 {
        return Err(CommandError::new(format!(
            "ERR at least 1 input key is needed for '{name}' command"
        )));
    }
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if number > arguments.len() - 1 {
        return Err(CommandError::SYNTAX);
    }
    Ok(arguments[1..].split_at(number))
}

fn parse_options(rest: &[&[u8]], keys: usize, form: Form) -> Result<Options, CommandError> {
    let mut options = Options {
        weights: vec![1.0; keys],
        aggregate: Aggregate::Sum,
        with_scores: false,
        limit: usize::MAX,
    };
    let weighs = form.operation != SetOperation::Difference && !form.counts;
    let mut rest = rest;
    while let [option, behind @ ..] = rest {
        rest = behind;
        if weighs && is_keyword(option, "WEIGHTS") && behind.len() >= keys {
            let (weights, behind) = behind.split_at(keys);
            for (weight, argument) in options.weights.iter_mut().zip(weights) {
                *weight = parse_double(argument)
                    .ok_or(CommandError::fixed("ERR weight value is not a float"))?;
            }
            rest = behind;
        } else if weighs
            && is_keyword(option, "AGGREGATE")
            && let [name, behind @ ..] = behind
        {
            options.aggregate = match name.to_ascii_uppercase().as_slice() {
                b"SUM" => Aggregate::Sum,
                b"MIN" => Aggregate::Least,
                b"MAX" => Aggregate::Greatest,
                _ => return Err(CommandError::SYNTAX),
            };
            rest = behind;
        } else if !form.stores && !form.counts && is_keyword(option, "WITHSCORES") {
            options.with_scores = true;
        } else if form.counts
            && is_keyword(option, "LIMIT")
            && let [limit, behind @ ..] = behind
        {
            let limit = parse_integer(limit).and_then(|limit| usize::try_from(limit).ok());
            options.limit = match limit {
                None => return Err(CommandError::fixed("ERR LIMIT can't be negative")),
                Some(0) => usize::MAX,
                Some(limit) => limit,
            };
            rest = behind;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok(options)
}

/// Looks up all source keys. As in Redis, invalid options are reported only if all keys have the
/// right type.
fn gather<'a>(
    keys: &[Key<'_>],
    options: &'a Result<Options, CommandError>,
    mut find: impl FnMut(&Key<'_>) -> Result<Option<Source>, Error>,
) -> Result<(Vec<Weighted>, &'a Options), Failure> {
    let mut sources = Vec::with_capacity(keys.len());
    for key in keys {
        sources.push((find(key)?, 1.0));
    }
    let options = options.as_ref().map_err(CommandError::clone)?;
    for ((_, own), weight) in sources.iter_mut().zip(&options.weights) {
        *own = *weight;
    }
    Ok((sources, options))
}

/// Returns whether each of the sources exists.
fn those_found(sources: &[Weighted]) -> Vec<bool> {
    sources.iter().map(|(source, _)| source.is_some()).collect()
}

fn answer(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    (form, name): (Form, &str),
    reply: &mut dyn Reply,
) -> Outcome {
    let (keys, rest) = split_keys(&arguments[1..], name)?;
    let options = parse_options(rest, keys.len(), form);
    let (store, database) = (context.store, context.database());
    let keys = context.keys(keys);
    let (result, found, with_scores) = store.read(store.shards_of(&keys), |reader| {
        let (sources, options) = gather(&keys, &options, |key| reader.source(database, key))?;
        let (aggregate, limit) = (options.aggregate, options.limit);
        let mut result = Scored::new();
        reader.combine_scored(&sources, form.operation, aggregate, limit, &mut result)?;
        Ok::<_, Failure>((result, those_found(&sources), options.with_scores))
    })?;
    for (key, found) in keys.iter().zip(found) {
        context.looked_up(key, found);
    }
    if form.counts {
        reply.integer(result.len() as i64);
        return Ok(());
    }
    write_scored(context, &result.sorted(), with_scores, reply);
    Ok(())
}

fn store_result(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    (operation, name): (SetOperation, &str),
    reply: &mut dyn Reply,
) -> Outcome {
    let form = Form {
        operation,
        stores: true,
        counts: false,
    };
    let event = match operation {
        SetOperation::Intersection => KeyEvent::ZInterStore,
        SetOperation::Union => KeyEvent::ZUnionStore,
        SetOperation::Difference => KeyEvent::ZDiffStore,
    };
    let (keys, rest) = split_keys(&arguments[2..], name)?;
    let options = parse_options(rest, keys.len(), form);
    let (store, database, limits) = (context.store, context.database(), limits(context));
    let (target, keys) = (store.key(arguments[1]), context.keys(keys));
    let shards = store.shards_of(keys.iter().chain([&target]));
    let (length, found) = store.write(shards, |writer| {
        let (sources, options) = gather(&keys, &options, |key| writer.source(database, key))?;
        let found = those_found(&sources);
        for (key, _) in keys.iter().zip(&found).filter(|(_, found)| !**found) {
            writer.tell(KeyEvent::KeyMiss, database, key);
        }
        let mut result = Scored::new();
        writer.combine_scored(&sources, operation, options.aggregate, &mut result)?;
        writer.tell_as(event, database, &target, |writer| {
            writer.sorted_store(database, &target, &result, &limits)
        })?;
        Ok::<_, Failure>((result.len(), found))
    })?;
    for (key, found) in keys.iter().zip(found) {
        context.count_lookup(found);
        if found {
            store.note_use(key);
        }
    }
    store.note_use(&target);
    reply.integer(length as i64);
    Ok(())
}

const fn form(operation: SetOperation) -> Form {
    Form {
        operation,
        stores: false,
        counts: false,
    }
}

/// Handles ZUNION.
fn zunion(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let form = form(SetOperation::Union);
    answer(context, arguments, (form, "zunion"), reply)
}

/// Handles ZINTER.
fn zinter(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let form = form(SetOperation::Intersection);
    answer(context, arguments, (form, "zinter"), reply)
}

/// Handles ZDIFF.
fn zdiff(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let form = form(SetOperation::Difference);
    answer(context, arguments, (form, "zdiff"), reply)
}

/// Handles ZINTERCARD.
fn zintercard(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let form = Form {
        operation: SetOperation::Intersection,
        stores: false,
        counts: true,
    };
    answer(context, arguments, (form, "zintercard"), reply)
}

/// Handles ZUNIONSTORE.
fn zunionstore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let what = (SetOperation::Union, "zunionstore");
    store_result(context, arguments, what, reply)
}

/// Handles ZINTERSTORE.
fn zinterstore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let what = (SetOperation::Intersection, "zinterstore");
    store_result(context, arguments, what, reply)
}

/// Handles ZDIFFSTORE.
fn zdiffstore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let what = (SetOperation::Difference, "zdiffstore");
    store_result(context, arguments, what, reply)
}
