//! Formats the statistics of `undercroft stat --json`.

use serde_json::{Map, Value, json};
use undercroft_engine::{Holder, Store};

use crate::failure::{Failure, Outcome, SUCCESS};
use crate::keys::{Counted, databases, sums};
use crate::out::say;
use crate::processes::name_of;
use crate::replica::{applied, followed, status_name};

/// Prints the statistics of a store as one JSON object. Sizes are in bytes, and times are in Unix
/// milliseconds. A value is null if a writer holds the required lock for longer than the store is
/// configured to wait.
pub(crate) fn print(store: &Store) -> Outcome {
    let statistics = store.statistics();
    let text = json!({
        "store": store.path().display().to_string(),
        "removed": store.removed(),
        "created": statistics.created,
        "shards": statistics.shards,
        "capacity": statistics.capacity,
        "maxmemory": store.max_memory(),
        "maxmemory_policy": store.eviction().policy.name(),
        "memory": {
            "data": statistics.used,
            "flushed": statistics.left,
            "waiting": store.access().used_by_waiting().ok(),
            "heap": statistics.reserved,
            "free": statistics.free,
            "logs": statistics.logs,
            "ring": statistics.ring,
        },
        "durability": store.durability().name(),
        "journal": journal(store),
        "replica": replica(store),
        "locks": locks(store),
        "users": users(store)?,
        "pins": pins(store),
        "keys": keys(store)?,
        "types": types(store)?,
    });
    say!("{text:#}");
    Ok(SUCCESS)
}

/// Returns the figures of the journal, or null if the store has none.
fn journal(store: &Store) -> Value {
    let Some(journal) = store.journal() else {
        return Value::Null;
    };
    json!({
        "folder": journal.folder.display().to_string(),
        "in_memory": store.journal_is_in_memory(),
        "position": journal.head,
        "durable": journal.durable,
        "lag": journal.head.saturating_sub(journal.durable),
        "lag_seconds": journal.lag_age as f64 / 1000.0,
        "checkpoint": {
            "position": journal.checkpoint,
            "bytes": journal.checkpoint_bytes,
            "age": journal.checkpoint_age,
        },
        "error": journal.error,
    })
}

/// Returns the figures of the source that a replica follows, or null if the store is no replica.
fn replica(store: &Store) -> Value {
    let Some((link, lag)) = followed(store) else {
        return Value::Null;
    };
    json!({
        "host": link.host,
        "port": link.port,
        "link": status_name(link.status),
        "lag": lag.bytes,
        "lag_seconds": lag.milliseconds.map(|time| time as f64 / 1000.0),
        "offset": applied(store),
        "heard": (link.heard != 0).then_some(link.heard),
        "error": (!link.error.is_empty()).then_some(link.error),
    })
}

fn locks(store: &Store) -> Value {
    let locks = store.held_locks();
    let locks = locks.iter().map(|lock| {
        let state = match lock.holder {
            Holder::Active => "active",
            Holder::Stopped => "stopped",
            Holder::Unknown => "unknown",
            Holder::Dead => "dead",
        };
        json!({"name": lock.name.to_string(), "pid": lock.pid, "state": state})
    });
    locks.collect()
}

fn users(store: &Store) -> Result<Value, Failure> {
    let users = store.users()?;
    let users = users.iter().map(|user| {
        json!({
            "pid": user.pid,
            "program": user.here.then(|| name_of(user.pid)).flatten(),
            "slot": user.member.as_ref().map(|member| member.slot),
            "joined": user.member.as_ref().map(|member| member.joined),
        })
    });
    Ok(users.collect())
}

fn pins(store: &Store) -> Value {
    let pins = store.pins();
    let pins = pins.iter().map(|pin| {
        json!({
            "slot": pin.slot,
            "pid": pin.pid,
            "bytes": pin.bytes,
            "since": pin.since,
            "alive": pin.lives,
            "deleted": pin.parked,
        })
    });
    pins.collect()
}

fn keys(store: &Store) -> Result<Value, Failure> {
    let Counted::Of(databases) = databases(store)? else {
        return Ok(Value::Null);
    };
    let figures = databases.iter().map(|database| {
        let figures = json!({"keys": database.keys, "expiring": database.expiring});
        (database.number.to_string(), figures)
    });
    Ok(Value::Object(figures.collect::<Map<String, Value>>()))
}

fn types(store: &Store) -> Result<Value, Failure> {
    let Counted::Of(sums) = sums(store)? else {
        return Ok(Value::Null);
    };
    let figures = sums.iter().map(|(value_type, sum)| {
        let figures = json!({"keys": sum.keys, "bytes": sum.bytes});
        (value_type.name().to_owned(), figures)
    });
    Ok(Value::Object(figures.collect::<Map<String, Value>>()))
}
