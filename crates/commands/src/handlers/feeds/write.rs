//! Implements the FEED commands that change feeds.

use undercroft_engine::feeds::{Feed, Order, Rows, Schema, Seen, Selection};
use undercroft_engine::{Key, Writer};
use undercroft_numbers::parse_integer;

use super::parse::{attributes, check_position, position_of, schema, seen, selection};
use super::values::{bytes_of, limits, reply_with, reply_with_one, value, values};
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::handlers::collections::lists::end;
use crate::reply::Reply;
use crate::session::ReadBuffers;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("feed.create", create),
    ("feed.add", add),
    ("feed.del", del),
    ("feed.delwhere", delwhere),
    ("feed.move", move_item),
    ("feed.setattr", setattr),
    ("feed.hide", hide),
    ("feed.show", show),
    ("feed.pop", pop),
    ("feed.compact", compact),
];

/// Handles FEED.CREATE.
fn create(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let schema = schema(&arguments[2..])?;
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

/// Parses the items that the arguments of FEED.ADD specify.
fn rows(feed: &Feed, arguments: &[&[u8]]) -> Result<Rows, CommandError> {
    let schema = feed.schema();
    let mut rows = Rows::new(schema);
    let mut rest = arguments;
    while let [text, behind @ ..] = rest {
        let value = value(schema, text)?;
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
        rows.push(&value, &own, false);
    }
    Ok(rows)
}

/// Handles FEED.ADD.
fn add(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let position = match arguments[2] {
        b"*" => None,
        text => Some(integer(text)?),
    };
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let items = store.write(store.shards_of([&key]), |writer| {
        let feed = writer.feed(database, &key)?;
        let feed = feed.ok_or(CommandError::NO_SUCH_KEY)?;
        let position = position_of(feed.schema(), position, feed.items())?;
        let rows = rows(&feed, &arguments[3..])?;
        let items = writer.feed_add(database, &key, position, &rows)?;
        items.ok_or(Failure::from(CommandError::NO_SUCH_KEY))
    })?;
    store.note_use(&key);
    reply.integer(items as i64);
    Ok(())
}

/// A change to the selected items of a feed.
#[derive(Clone, Copy)]
enum Change {
    Remove,
    Hide(bool),
}

impl Change {
    /// Applies the change to all selected items. Returns the number of items that changed.
    fn make(
        self,
        writer: &mut Writer<'_, '_>,
        (database, key): (usize, &Key<'_>),
        selection: &Selection<'_>,
    ) -> Result<u64, Failure> {
        Ok(match self {
            Change::Remove => writer.feed_remove(database, key, selection)?,
            Change::Hide(hide) => writer.feed_hide(database, key, selection, hide)?,
        })
    }
}

/// Calls `body` on a feed if it exists, and replies with the number of items that changed.
fn change(
    context: &mut Context<'_>,
    key: &[u8],
    reply: &mut dyn Reply,
    body: impl Fn(&mut Writer<'_, '_>, (usize, &Key<'_>), &Schema) -> Result<u64, Failure> + Sync,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let key = store.key(key);
    let items = store.write(store.shards_of([&key]), |writer| {
        match writer.feed(database, &key)? {
            Some(feed) => body(writer, (database, &key), feed.schema()),
            None => Ok(0),
        }
    })?;
    store.note_use(&key);
    reply.integer(items as i64);
    Ok(())
}

/// Removes, hides or shows the items that have the given values.
fn change_values(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
    what: Change,
) -> Outcome {
    change(context, arguments[1], reply, |writer, key, schema| {
        let values = values(schema, &arguments[2..])?;
        let values: Vec<&[u8]> = values.iter().map(AsRef::as_ref).collect();
        what.make(writer, key, &Selection::of_values(&values))
    })
}

/// Handles FEED.DEL.
fn del(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    change_values(context, arguments, reply, Change::Remove)
}

/// Handles FEED.HIDE.
fn hide(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    change_values(context, arguments, reply, Change::Hide(true))
}

/// Handles FEED.SHOW.
fn show(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    change_values(context, arguments, reply, Change::Hide(false))
}

/// Handles FEED.DELWHERE.
fn delwhere(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (mut wanted, mut between) = (Seen::All, None);
    let mut words = arguments[3..].iter();
    while let Some(word) = words.next() {
        if let Some(seen) = seen(word) {
            wanted = seen;
        } else if is_keyword(word, "BETWEEN") {
            let (Some(low), Some(high)) = (words.next(), words.next()) else {
                return Err(CommandError::SYNTAX.into());
            };
            between = Some((*low, *high));
        } else {
            return Err(CommandError::SYNTAX.into());
        }
    }
    change(context, arguments[1], reply, |writer, key, schema| {
        let selection = selection(schema, wanted, Some(arguments[2]))?;
        let Some((low, high)) = between else {
            return Change::Remove.make(writer, key, &selection);
        };
        Ok(match limits(schema, low, high)? {
            Some((low, high)) => {
                let limits = (bytes_of(&low), bytes_of(&high));
                let (database, key) = key;
                writer.feed_remove_between(database, key, &selection, limits)?
            }
            None => 0,
        })
    })
}

/// Handles FEED.MOVE.
fn move_item(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let position = integer(arguments[3])?;
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let moved = store.write(store.shards_of([&key]), |writer| {
        let Some(feed) = writer.feed(database, &key)? else {
            return Ok(false);
        };
        if let Order::Sorted { .. } = feed.schema().order() {
            let text = "ERR FEED.MOVE is for lists and queues, but this feed is sorted";
            return Err(CommandError::fixed(text).into());
        }
        let value = value(feed.schema(), arguments[2])?;
        check_position(feed.schema(), position, feed.items())?;
        Ok::<_, Failure>(writer.feed_move(database, &key, &value, position)?)
    })?;
    store.note_use(&key);
    reply.integer(moved.into());
    Ok(())
}

/// Handles FEED.SETATTR.
fn setattr(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    change(
        context,
        arguments[1],
        reply,
        |writer, (database, key), schema| {
            let value = value(schema, arguments[2])?;
            let own = attributes(schema, arguments[3])?;
            Ok(writer.feed_set_attributes(database, key, &value, &own)?)
        },
    )
}

/// Handles FEED.POP.
fn pop(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
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
    let items = &mut context.session.read_buffers.feed_items;
    let order = store.write_into(store.shards_of([&key]), items, |writer, items| {
        let order = writer
            .feed(database, &key)?
            .map(|feed| feed.schema().order());
        writer.feed_pop(database, &key, end, count.unwrap_or(1), items)?;
        Ok::<_, Failure>(order)
    })?;
    store.note_use(&key);
    let ReadBuffers {
        items,
        feed_items: found,
        ..
    } = &mut context.session.read_buffers;
    items.clear();
    found.append_to(false, items);
    match (count, order) {
        (None, Some(order)) if !items.is_empty() => reply_with_one(order, items.get(0), reply),
        (None, _) => reply.null(),
        (Some(_), None) => reply.null_array(),
        (Some(_), Some(order)) => reply_with(order, items, false, reply),
    }
    Ok(())
}

/// Handles FEED.COMPACT.
fn compact(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
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
