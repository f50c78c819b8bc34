//! Implements MEMORY DOCTOR, STATS, PURGE and MALLOC-STATS, which report or reduce the store's
//! memory usage.

use std::fmt::Write as _;

use undercroft_engine::DATABASES;

use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::handlers::connections::client::connections;
use crate::handlers::server::info::memory::{Figures, Texts, client_memory, human};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("memory|doctor", doctor),
    ("memory|malloc-stats", sizes),
    ("memory|purge", purge),
    ("memory|stats", stats),
];

/// The size in bytes below which MEMORY DOCTOR does not analyze a store.
const LITTLE: u64 = 5 << 20;
/// The size in bytes below which MEMORY DOCTOR ignores a difference.
const WORTH_SAYING: u64 = 10 << 20;
/// The time in milliseconds after which a reader has probably forgotten to release a pinned value.
const LONG_PINNED: u64 = 60_000;

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn integer(name: &str, value: u64, reply: &mut dyn Reply) {
    reply.bulk(name.as_bytes());
    reply.integer(value as i64);
}

fn double(name: &str, value: f64, reply: &mut dyn Reply) {
    reply.bulk(name.as_bytes());
    reply.double(value);
}

/// Handles MEMORY STATS.
fn stats(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let figures = Figures::of(context);
    let mut keys = 0;
    for database in 0..DATABASES {
        keys += context.store.count_keys(database)?;
    }
    let clients = client_memory(&connections(context, &[]));
    let texts = Texts::of(context)?;
    reply.map(27 + figures.tables.len());
    integer("peak.allocated", figures.peak, reply);
    integer("total.allocated", figures.used, reply);
    integer("startup.allocated", figures.fixed, reply);
    integer("replication.backlog", 0, reply);
    integer("clients.slaves", 0, reply);
    integer("clients.normal", clients, reply);
    integer("cluster.links", 0, reply);
    integer("aof.buffer", 0, reply);
    integer("lua.caches", texts.scripts.bytes, reply);
    integer("functions.caches", texts.libraries.bytes, reply);
    for (database, bytes) in &figures.tables {
        reply.bulk(format!("db.{database}").as_bytes());
        reply.map(3);
        integer("overhead.hashtable.main", *bytes, reply);
        // Deadlines are stored with their keys, so Undercroft has no separate table of keys with
        // deadlines.
        integer("overhead.hashtable.expires", 0, reply);
        integer("overhead.hashtable.slot-to-keys", 0, reply);
    }
    integer("overhead.total", figures.overhead(), reply);
    integer("keys.count", keys, reply);
    integer("keys.bytes-per-key", figures.used / keys.max(1), reply);
    integer("dataset.bytes", figures.dataset(), reply);
    let percentage = 100.0 * share(figures.dataset(), figures.used);
    double("dataset.percentage", percentage, reply);
    let percentage = 100.0 * share(figures.used, figures.peak);
    double("peak.percentage", percentage, reply);
    let taken = figures.used + figures.fixed;
    integer("allocator.allocated", taken, reply);
    integer("allocator.active", figures.granted, reply);
    integer("allocator.resident", figures.backed, reply);
    for (name, more, less) in [
        ("allocator-fragmentation", figures.granted, taken),
        ("allocator-rss", figures.backed, figures.granted),
        ("rss-overhead", figures.backed, figures.backed),
    ] {
        double(&format!("{name}.ratio"), share(more, less), reply);
        integer(&format!("{name}.bytes"), more.saturating_sub(less), reply);
    }
    double("fragmentation", share(figures.granted, taken), reply);
    let unused = figures.granted.saturating_sub(taken);
    integer("fragmentation.bytes", unused, reply);
    Ok(())
}

/// Handles MEMORY DOCTOR.
fn doctor(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.verbatim("txt", findings(context).as_bytes());
    Ok(())
}

fn findings(context: &Context<'_>) -> String {
    let figures = Figures::of(context);
    let used = figures.used;
    if used < LITTLE {
        return format!(
            "The store holds only {} of data, too little to assess its memory.\n",
            human(used)
        );
    }
    let mut text = String::new();
    let mut finding = |words: String| {
        let _ = writeln!(text, "* {words}");
    };
    let limit = context.store.max_memory();
    if limit > 0 && used > limit / 20 * 19 {
        let policy = context.store.eviction().policy.name();
        finding(format!(
            "The data takes {} of the {} that maxmemory allows; the policy at the limit is \
             {policy}.",
            human(used),
            human(limit)
        ));
    }
    if figures.peak > used / 2 * 3 {
        finding(format!(
            "The data took {} at its peak and takes {} now. Freed memory is reused before more is \
             allocated; MEMORY PURGE returns it to the system at once.",
            human(figures.peak),
            human(used)
        ));
    }
    let scattered = figures.granted.saturating_sub(used + figures.fixed);
    if scattered > WORTH_SAYING && scattered > used / 10 * 4 {
        finding(format!(
            "{} are unused gaps in partly used pages, left by deleted values. New values of the \
             same sizes fill them.",
            human(scattered)
        ));
    }
    let left = figures.statistics.left;
    if left > WORTH_SAYING {
        finding(format!(
            "{} were deleted and are being freed in small steps.",
            human(left)
        ));
    }
    let now = context.store.now();
    let pins = context.store.pins();
    let long = pins
        .iter()
        .filter(|pin| now.saturating_sub(pin.since) > LONG_PINNED);
    for pin in long {
        finding(format!(
            "Process {} has been reading a deleted value of {} in place for {} seconds; its \
             memory is freed when the process releases the value or ends.",
            pin.pid,
            human(pin.bytes),
            now.saturating_sub(pin.since) / 1000
        ));
    }
    if figures.waiting > WORTH_SAYING {
        finding(format!(
            "Waiting clients and subscribers take {}.",
            human(figures.waiting)
        ));
    }
    if text.is_empty() {
        return "The memory of the store shows nothing unusual.\n".to_owned();
    }
    format!("Unusual about the memory of the store:\n\n{text}")
}

/// Handles MEMORY PURGE.
fn purge(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    context.store.purge()?;
    reply.ok();
    Ok(())
}

/// Handles MEMORY MALLOC-STATS.
fn sizes(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let figures = Figures::of(context);
    let statistics = &figures.statistics;
    let mut text = format!(
        "The store {} has {} shards.\n",
        context.store.path().display(),
        statistics.shards
    );
    for (name, bytes) in [
        ("capacity", statistics.capacity),
        ("heap backed by memory", statistics.reserved),
        ("of which granted to no shard", statistics.free),
        ("of which taken by a copy", statistics.copy),
        ("blocks in use", statistics.used),
        ("of which deleted, not yet freed", statistics.left),
        (
            "of which tables of databases",
            figures.overhead() - figures.waiting,
        ),
        ("of which waits and subscriptions", figures.waiting),
        ("undo logs", statistics.logs),
        ("ring of messages", statistics.ring),
    ] {
        let _ = writeln!(text, "{name:<32} {bytes:>16} {:>10}", human(bytes));
    }
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}
