//! What changes feeds.

use undercroft_engine::{Feed, Order, Rows, Schema, Seen, Selection};

use super::parse::{
    attributes, check_position, check_values, order, seen, selection, size, widths,
};
use crate::arguments::{CommandError, integer, is_keyword, parse_integer};
use crate::handler::{Context, Failure, Outcome};
use crate::handlers::lists::end;
use crate::reply::Reply;

/// FEED.CREATE.
pub(crate) fn create(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let (mut bytes, mut bits, mut kind) = (None, Vec::new(), Order::List);
    let (pairs, []) = arguments[2..].as_chunks::<2>() else {
        return Err(CommandError::SYNTAX.into());
    };
    for [word, value] in pairs {
        if is_keyword(word, "SIZE") {
            bytes = Some(size(value)?);
        } else if is_keyword(word, "ATTRS") {
            bits = widths(value)?;
        } else if is_keyword(word, "ORDER") {
            kind = order(value)?;
        } else {
            return Err(CommandError::SYNTAX.into());
        }
    }
    let schema = bytes.and_then(|bytes| Schema::new(bytes, &bits, kind));
    let schema = schema.ok_or(CommandError::SYNTAX)?;
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let made = store.write(store.shards_of([&key]), |writer| {
        Ok::<_, Failure>(writer.feed_create(database, &key, &schema)?)
    })?;
    if !made {
        return Err(CommandError::fixed("BUSYKEY Target key name already exists.").into());
    }
    store.note_use(&key);
    reply.ok();
    Ok(())
}

/// The items that FEED.ADD is given.
fn rows(feed: &Feed, arguments: &[&[u8]]) -> Result<Rows, CommandError> {
    let schema = feed.schema();
    let mut rows = Rows::new(schema);
    let mut rest = arguments;
    while let [value, behind @ ..] = rest {
        check_values(schema, &[value])?;
        let mut own = vec![0; schema.widths().len()];
        rest = behind;
        if let [word, text, behind @ ..] = rest
            && is_keyword(word, "ATTRS")
        {
            for (own, given) in own.iter_mut().zip(attributes(schema, text)?) {
                *own = given.unwrap_or(0);
            }
            rest = behind;
        }
        rows.push(value, &own, false);
    }
    Ok(rows)
}

/// FEED.ADD.
pub(crate) fn add(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let position = integer(arguments[2])?;
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let items = store.write(store.shards_of([&key]), |writer| {
        let feed = writer.feed(database, &key)?;
        let feed = feed.ok_or(CommandError::NO_SUCH_KEY)?;
        check_position(feed.schema(), position, feed.items())?;
        let rows = rows(&feed, &arguments[3..])?;
        let items = writer.feed_add(database, &key, position, &rows)?;
        items.ok_or(Failure::from(CommandError::NO_SUCH_KEY))
    })?;
    store.note_use(&key);
    reply.integer(items as i64);
    Ok(())
}

/// What becomes of items.
#[derive(Clone, Copy)]
enum Change {
    Remove,
    Hide(bool),
}

/// Removes, hides or shows what is selected; replies how many items that were.
fn change<'s>(
    context: &mut Context<'_>,
    key: &[u8],
    reply: &mut dyn Reply,
    change: Change,
    select: impl Fn(&Schema) -> Result<Selection<'s>, CommandError> + Sync,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(key);
    let items = store.write(store.shards_of([&key]), |writer| {
        let Some(feed) = writer.feed(database, &key)? else {
            return Ok(0);
        };
        let selection = select(feed.schema())?;
        Ok::<_, Failure>(match change {
            Change::Remove => writer.feed_remove(database, &key, &selection)?,
            Change::Hide(hide) => writer.feed_hide(database, &key, &selection, hide)?,
        })
    })?;
    store.note_use(&key);
    reply.integer(items as i64);
    Ok(())
}

/// Removes, hides or shows the items with some values.
fn change_values(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
    what: Change,
) -> Outcome {
    let values = &arguments[2..];
    change(context, arguments[1], reply, what, |schema| {
        check_values(schema, values)?;
        Ok(Selection::of_values(values))
    })
}

/// FEED.DEL.
pub(crate) fn del(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    change_values(context, arguments, reply, Change::Remove)
}

/// FEED.HIDE.
pub(crate) fn hide(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    change_values(context, arguments, reply, Change::Hide(true))
}

/// FEED.SHOW.
pub(crate) fn show(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    change_values(context, arguments, reply, Change::Hide(false))
}

/// FEED.DELWHERE.
pub(crate) fn delwhere(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let seen = match &arguments[3..] {
        [] => Seen::All,
        [word] => seen(word).ok_or(CommandError::SYNTAX)?,
        _ => return Err(CommandError::SYNTAX.into()),
    };
    change(context, arguments[1], reply, Change::Remove, |schema| {
        selection(schema, seen, Some(arguments[2]))
    })
}

/// FEED.MOVE.
pub(crate) fn move_item(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let position = integer(arguments[3])?;
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let moved = store.write(store.shards_of([&key]), |writer| {
        let Some(feed) = writer.feed(database, &key)? else {
            return Ok(false);
        };
        check_values(feed.schema(), &arguments[2..3])?;
        check_position(feed.schema(), position, feed.items())?;
        Ok::<_, Failure>(writer.feed_move(database, &key, arguments[2], position)?)
    })?;
    store.note_use(&key);
    reply.integer(moved.into());
    Ok(())
}

/// FEED.SETATTR.
pub(crate) fn setattr(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let items = store.write(store.shards_of([&key]), |writer| {
        let Some(feed) = writer.feed(database, &key)? else {
            return Ok(0);
        };
        check_values(feed.schema(), &arguments[2..3])?;
        let own = attributes(feed.schema(), arguments[3])?;
        Ok::<_, Failure>(writer.feed_set_attributes(database, &key, arguments[2], &own)?)
    })?;
    store.note_use(&key);
    reply.integer(items as i64);
    Ok(())
}

/// FEED.POP.
pub(crate) fn pop(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let end = end(arguments[2])?;
    let count = match &arguments[3..] {
        [] => None,
        [count] => {
            let count = parse_integer(count).and_then(|count| u64::try_from(count).ok());
            let text = "ERR value is out of range, must be positive";
            Some(count.ok_or(CommandError::fixed(text))?)
        }
        _ => return Err(CommandError::wrong_arity("feed.pop").into()),
    };
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let items = &mut context.session.items;
    let found = store.write_into(store.shards_of([&key]), items, |writer, items| {
        Ok::<_, Failure>(writer.feed_pop(database, &key, end, count.unwrap_or(1), items)?)
    })?;
    store.note_use(&key);
    let items = &context.session.items;
    match count {
        None if items.is_empty() => reply.null(),
        None => reply.bulk(items.get(0)),
        Some(_) if !found => reply.null_array(),
        Some(_) => {
            reply.array(items.len());
            reply.bulks(items);
        }
    }
    Ok(())
}

/// FEED.COMPACT.
pub(crate) fn compact(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let there = store.write(store.shards_of([&key]), |writer| {
        Ok::<_, Failure>(writer.feed_compact(database, &key)?)
    })?;
    if !there {
        return Err(CommandError::NO_SUCH_KEY.into());
    }
    store.note_use(&key);
    reply.ok();
    Ok(())
}
