//! Implements the FEED commands that read feeds.

use undercroft_engine::View;
use undercroft_engine::feeds::{
    Feed, FeedInfo, FeedRange, FoundItems, Order, Seen, Selection, Untallied,
};
use undercroft_numbers::parse_integer;

use super::parse::{seen, selection};
use super::values::{bytes_of, limits, reply_with, value};
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("feed.range", range),
    ("feed.between", between),
    ("feed.count", count),
    ("feed.pos", pos),
    ("feed.info", info),
];

/// The options of a range or count query.
struct Query<'a> {
    seen: Seen,
    filter: Option<&'a [u8]>,
    attributes: bool,
    reverse: bool,
    /// The values of LIMIT: the index of the first item, and the number of items.
    limit: Option<(i64, i64)>,
    /// The lowest and the highest value of the range, as unparsed arguments.
    between: Option<(&'a [u8], &'a [u8])>,
}

/// The options that a query can have in addition to visibility and WHERE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowedWords {
    /// A count query, which can have the BETWEEN option.
    Count,
    /// A range query, which can have the WITHATTRS and REV options.
    Range,
    /// FEED.BETWEEN, which can have the WITHATTRS, REV and LIMIT options.
    Between,
}

impl<'a> Query<'a> {
    fn parse(words: &[&'a [u8]], allowed: AllowedWords) -> Result<Query<'a>, CommandError> {
        let mut query = Query {
            seen: Seen::Visible,
            filter: None,
            attributes: false,
            reverse: false,
            limit: None,
            between: None,
        };
        let range = allowed != AllowedWords::Count;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(seen) = seen(word) {
                query.seen = seen;
            } else if is_keyword(word, "WHERE") {
                query.filter = Some(words.next().ok_or(CommandError::SYNTAX)?);
            } else if range && is_keyword(word, "WITHATTRS") {
                query.attributes = true;
            } else if range && is_keyword(word, "REV") {
                query.reverse = true;
            } else if allowed == AllowedWords::Between && is_keyword(word, "LIMIT") {
                let (Some(from), Some(count)) = (words.next(), words.next()) else {
                    return Err(CommandError::SYNTAX);
                };
                query.limit = Some((integer(from)?, integer(count)?));
            } else if !range && is_keyword(word, "BETWEEN") {
                let (Some(low), Some(high)) = (words.next(), words.next()) else {
                    return Err(CommandError::SYNTAX);
                };
                query.between = Some((low, high));
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(query)
    }
}

/// Handles FEED.RANGE.
fn range(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (from, count) = (integer(arguments[2])?, parse_integer(arguments[3]));
    let count = count.and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(CommandError::fixed(
        "ERR value is out of range, must be positive",
    ))?;
    let query = Query::parse(&arguments[4..], AllowedWords::Range)?;
    let range = FeedRange {
        from,
        count,
        reverse: query.reverse,
        attributes: query.attributes,
    };
    let look = |feed: &Feed, view: &View<'_>, selection: &Selection<'_>, items: &mut FoundItems| {
        Ok(feed.range(view, selection, range, items)?)
    };
    reply_with_found(context, arguments[1], &query, look, reply)
}

/// Handles FEED.BETWEEN.
fn between(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let query = Query::parse(&arguments[4..], AllowedWords::Between)?;
    // As in ZRANGEBYSCORE, a negative count means no limit, and a negative start yields an empty
    // result.
    let (from, count) = query.limit.unwrap_or((0, -1));
    let count = if from < 0 {
        Ok(0)
    } else {
        u64::try_from(count)
    };
    let range = FeedRange {
        from: from.max(0),
        count: count.unwrap_or(u64::MAX),
        reverse: query.reverse,
        attributes: query.attributes,
    };
    let limits = (arguments[2], arguments[3]);
    let look = |feed: &Feed, view: &View<'_>, selection: &Selection<'_>, items: &mut FoundItems| {
        append_between(feed, view, selection, limits, range, items)
    };
    reply_with_found(context, arguments[1], &query, look, reply)
}

/// Reads the items of a sorted feed whose values lie between two limits. The limits are given in
/// the text form that clients use.
///
/// # Errors
/// Returns an error if the feed is not sorted, a limit is invalid, or reading fails.
pub fn append_between(
    feed: &Feed,
    view: &View<'_>,
    selection: &Selection<'_>,
    (low, high): (&[u8], &[u8]),
    range: FeedRange,
    out: &mut FoundItems,
) -> Result<(), Failure> {
    if let Some((low, high)) = limits(feed.schema(), low, high)? {
        let limits = (bytes_of(&low), bytes_of(&high));
        feed.range_between(view, selection, limits, range, out)?;
    }
    Ok(())
}

/// Returns the number of items that a query selects. If `between` is given, counts only items whose
/// values lie between its two limits.
///
/// # Errors
/// Returns an error in the same cases as [`append_between`].
pub fn count_between(
    feed: &Feed,
    view: &View<'_>,
    selection: &Selection<'_>,
    between: Option<(&[u8], &[u8])>,
    untallied: &mut Untallied,
) -> Result<u64, Failure> {
    let Some((low, high)) = between else {
        return Ok(feed.count_of(view, selection, untallied)?);
    };
    Ok(match limits(feed.schema(), low, high)? {
        Some((low, high)) => {
            let limits = (bytes_of(&low), bytes_of(&high));
            feed.count_between(view, selection, limits, untallied)?
        }
        None => 0,
    })
}

/// Replies with the items of a feed that `look` finds for a query.
fn reply_with_found(
    context: &mut Context<'_>,
    key: &[u8],
    query: &Query<'_>,
    look: impl Fn(&Feed, &View<'_>, &Selection<'_>, &mut FoundItems) -> Result<(), Failure> + Sync,
    reply: &mut dyn Reply,
) -> Outcome {
    let database = context.database();
    let mut items = std::mem::take(&mut context.session.read_buffers.feed_items);
    let found = context.look_into(key, &mut items, |reader, key, items| {
        let Some(feed) = reader.feed(database, key)? else {
            return Ok(None);
        };
        let selection = selection(feed.schema(), query.seen, query.filter)?;
        look(&feed, reader.view(), &selection, items)?;
        Ok(Some(feed.schema().order()))
    });
    if let Ok(order) = found {
        let texts = &mut context.session.read_buffers.items;
        texts.clear();
        items.append_to(query.attributes, texts);
        reply_with(order.unwrap_or(Order::List), texts, query.attributes, reply);
        make_tallies(context, key, items.untallied());
    }
    // Return the buffer to the session, so that the next query can reuse it.
    context.session.read_buffers.feed_items = items;
    found.map(drop)
}

/// Creates the tallies (cached counts of visible items by attribute value) that the query could
/// have used but that do not exist yet.
fn make_tallies(context: &Context<'_>, key: &[u8], untallied: &Untallied) {
    if !untallied.is_empty() {
        let key = context.store.key(key);
        context
            .store
            .make_tallies(context.database(), &key, untallied);
    }
}

/// Handles FEED.COUNT.
fn count(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let query = Query::parse(&arguments[2..], AllowedWords::Count)?;
    let database = context.database();
    let mut untallied = Untallied::default();
    let count = context.look_into(arguments[1], &mut untallied, |reader, key, untallied| {
        let Some(feed) = reader.feed(database, key)? else {
            return Ok(None);
        };
        let selection = selection(feed.schema(), query.seen, query.filter)?;
        let view = reader.view();
        count_between(&feed, view, &selection, query.between, untallied).map(Some)
    })?;
    reply.integer(count.unwrap_or(0) as i64);
    make_tallies(context, arguments[1], &untallied);
    Ok(())
}

/// Handles FEED.POS.
fn pos(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let seen = match &arguments[3..] {
        [] => Seen::Visible,
        [word] => seen(word).ok_or(CommandError::SYNTAX)?,
        _ => return Err(CommandError::SYNTAX.into()),
    };
    let database = context.database();
    let found = context.look_at(arguments[1], |reader, key| {
        let Some(feed) = reader.feed(database, key)? else {
            return Ok(None);
        };
        let value = value(feed.schema(), arguments[2])?;
        Ok(Some(feed.position(reader.view(), &value, seen)?))
    })?;
    match found.flatten() {
        Some(position) => reply.integer(position as i64),
        None => reply.null(),
    }
    Ok(())
}

/// Handles FEED.INFO.
fn info(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let database = context.database();
    let found = context.look_at(arguments[1], |reader, key| {
        let Some(feed) = reader.feed(database, key)? else {
            return Ok(None);
        };
        let counts = (feed.items(), feed.hidden());
        Ok(Some((*feed.schema(), counts, feed.info(reader.view())?)))
    })?;
    let (schema, (items, hidden), info) = found.ok_or(CommandError::NO_SUCH_KEY)?;
    let widths: Vec<String> = schema.widths().iter().map(u8::to_string).collect();
    let order: Order = schema.order();
    let FeedInfo {
        leaves,
        nodes,
        bytes,
        places,
    } = info;
    let numbers = [
        ("items", items),
        ("visible", items.saturating_sub(hidden)),
        ("hidden", hidden),
        ("leaves", leaves),
        ("nodes", nodes),
        ("bytes", bytes),
        // The percentage of item slots in the feed's leaf nodes that are occupied.
        (
            "fill-percent",
            items.saturating_mul(100).checked_div(places).unwrap_or(0),
        ),
    ];
    let sorted = if order.sorted_by().is_some() { 2 } else { 0 };
    reply.map(4 + sorted + numbers.len());
    reply.bulk(b"size");
    reply.integer(schema.value_size() as i64);
    reply.bulk(b"attributes");
    reply.bulk(widths.join(":").as_bytes());
    reply.bulk(b"order");
    reply.bulk(order.name().as_bytes());
    if let Order::Sorted { of, unique } = order {
        reply.bulk(b"type");
        reply.bulk(of.name().as_bytes());
        reply.bulk(b"unique");
        reply.integer(unique.into());
    }
    reply.bulk(b"index");
    reply.integer(schema.is_indexed().into());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
    Ok(())
}
