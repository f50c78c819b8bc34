//! What reads feeds.

use undercroft_engine::{FeedInfo, FeedRange, Order, Seen};

use super::parse::{check_values, seen, selection};
use crate::arguments::{CommandError, integer, is_keyword, parse_integer};
use crate::handler::{Context, Outcome};
use crate::reply::Reply;

/// The words behind a range or a count.
struct Query<'a> {
    seen: Seen,
    filter: Option<&'a [u8]>,
    attributes: bool,
    reverse: bool,
}

impl<'a> Query<'a> {
    /// With `range`, those of a range are allowed as well.
    fn parse(words: &[&'a [u8]], range: bool) -> Result<Query<'a>, CommandError> {
        let mut query = Query {
            seen: Seen::Visible,
            filter: None,
            attributes: false,
            reverse: false,
        };
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
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(query)
    }
}

/// FEED.RANGE.
pub(crate) fn range(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let (from, count) = (integer(arguments[2])?, parse_integer(arguments[3]));
    let count = count.and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(CommandError::fixed(
        "ERR value is out of range, must be positive",
    ))?;
    let query = Query::parse(&arguments[4..], true)?;
    let range = FeedRange {
        from,
        count,
        reverse: query.reverse,
        attributes: query.attributes,
    };
    let database = context.database();
    let mut items = std::mem::take(&mut context.session.items);
    let found = context.look_into(arguments[1], &mut items, |reader, key, items| {
        let Some(feed) = reader.feed(database, key)? else {
            return Ok(None);
        };
        let selection = selection(feed.schema(), query.seen, query.filter)?;
        feed.range(reader.view(), &selection, range, items)?;
        Ok(Some(()))
    });
    if found.is_ok() {
        reply.array(items.len());
        reply.bulks(&items);
    }
    context.session.items = items;
    found.map(drop)
}

/// FEED.COUNT.
pub(crate) fn count(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let query = Query::parse(&arguments[2..], false)?;
    let database = context.database();
    let count = context.look_at(arguments[1], |reader, key| {
        let Some(feed) = reader.feed(database, key)? else {
            return Ok(None);
        };
        let selection = selection(feed.schema(), query.seen, query.filter)?;
        Ok(Some(feed.count_of(reader.view(), &selection)?))
    })?;
    reply.integer(count.unwrap_or(0) as i64);
    Ok(())
}

/// FEED.POS.
pub(crate) fn pos(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
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
        check_values(feed.schema(), &arguments[2..3])?;
        Ok(Some(feed.position(reader.view(), arguments[2], seen)?))
    })?;
    match found.flatten() {
        Some(position) => reply.integer(position as i64),
        None => reply.null(),
    }
    Ok(())
}

/// FEED.INFO.
pub(crate) fn info(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
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
        // How much of the leaves is in use.
        (
            "fill-percent",
            items.saturating_mul(100).checked_div(places).unwrap_or(0),
        ),
    ];
    reply.map(3 + numbers.len());
    reply.bulk(b"size");
    reply.integer(schema.value_size() as i64);
    reply.bulk(b"attributes");
    reply.bulk(widths.join(":").as_bytes());
    reply.bulk(b"order");
    reply.bulk(order.name().as_bytes());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
    Ok(())
}
