//! Implements `undercroft stat`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use undercroft_engine::{Holder, Store, User};

use crate::arguments::Stat;
use crate::failure::{Failure, Outcome, SUCCESS};
use crate::keys::{Counted, databases, sums};
use crate::out::say;
use crate::processes::{described, name_of};
use crate::replica::{followed, shown_source, status_name};
use crate::size::{counted, grouped, human};
use crate::store::{self, Access};
use crate::subcommands::durability::IN_MEMORY;
use crate::subcommands::stat_json;

/// The maximum time to wait for a writer when reading the keys.
const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: &Stat) -> Outcome {
    let store = store::open(arguments.store.name(), Access::Read)?;
    // Wait only briefly, because a stopped lock holder must be shown, not waited for.
    store.set_patience(PATIENCE);
    if arguments.json {
        return stat_json::print(&store);
    }
    if store.removed() {
        say!(
            "WARNING: the file was removed or replaced during the inspection; its users must open \
             the store again"
        );
    }
    sizes(&store);
    locks(&store);
    processes(&store);
    pins(&store);
    keys(&store)?;
    Ok(SUCCESS)
}

fn line(name: &str, value: impl std::fmt::Display) {
    say!("{name:<12} {value}");
}

fn size(name: &str, bytes: u64, note: &str) {
    let exact = grouped(bytes);
    say!("{name:<12} {:>10}  {exact:>18} bytes  {note}", human(bytes));
}

fn sizes(store: &Store) {
    let statistics = store.statistics();
    line("store", store.path().display());
    line("age", age(statistics.created));
    line("shards", statistics.shards);
    say!("");
    size(
        "capacity",
        statistics.capacity,
        "address space for data, free until used",
    );
    match store.max_memory() {
        0 => line("maxmemory", "none"),
        bytes => size("maxmemory", bytes, "limit on the data"),
    }
    size("data", statistics.used, "keys, values and tables");
    size("  flushed", statistics.left, "of which waiting to be freed");
    match store.access().used_by_waiting() {
        Ok(bytes) => size(
            "  waiting",
            bytes,
            "of which for waiting clients and subscriptions",
        ),
        Err(error) => line("  waiting", format_args!("not measured: {error}")),
    }
    size(
        "heap",
        statistics.reserved,
        "memory taken from the system for data",
    );
    size("  free", statistics.free, "of which in no shard");
    size("logs", statistics.logs, "undo logs");
    size("ring", statistics.ring, "ring of messages");
    durability(store);
    replica(store);
}

fn durability(store: &Store) {
    say!("");
    let Some(journal) = store.journal() else {
        return line("durability", "none: no journal");
    };
    line("durability", journal.durability.name());
    line("journal", journal.folder.display());
    if store.journal_is_in_memory() {
        line("WARNING", IN_MEMORY);
    }
    line(
        "durable",
        format_args!("up to position {}", journal.durable),
    );
    size(
        "  lag",
        journal.head.saturating_sub(journal.durable),
        &match journal.lag_age {
            0 => "changes that are not durable yet".into(),
            age => format!(
                "changes that are not durable yet, the oldest for {} seconds",
                age as f64 / 1000.0
            ),
        },
    );
    size(
        "checkpoint",
        journal.checkpoint_bytes,
        &match journal.checkpoint_age {
            Some(age) => format!("completed {} ago", counted(age / 1000, "second")),
            None => "not complete yet".into(),
        },
    );
    if let Some(error) = journal.error {
        line("ERROR", error);
    }
}

/// Prints the source of a replica, and how far the store is from it.
fn replica(store: &Store) {
    let Some((link, lag)) = followed(store) else {
        return;
    };
    say!("");
    line(
        "replica",
        format_args!("of {}, {}", shown_source(&link), status_name(link.status)),
    );
    size(
        "  lag",
        lag.bytes,
        &match lag.milliseconds {
            Some(0) => "changes of the source that are not applied".into(),
            Some(time) => format!(
                "changes of the source that are not applied, the oldest for at most {} seconds",
                time as f64 / 1000.0
            ),
            None => "the store has no complete data set yet".into(),
        },
    );
    if !link.error.is_empty() {
        line("ERROR", &link.error);
    }
}

fn age(created: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |elapsed| elapsed.as_millis() as u64);
    let seconds = now.saturating_sub(created) / 1000;
    match seconds {
        0..=119 => counted(seconds, "second"),
        120..=7199 => counted(seconds / 60, "minute"),
        7200..=172_799 => counted(seconds / 3600, "hour"),
        _ => counted(seconds / 86_400, "day"),
    }
}

fn process(pid: u32) -> String {
    let name = name_of(pid).unwrap_or_else(|| "in another pid namespace, or gone".into());
    format!("pid {pid} ({name})")
}

fn locks(store: &Store) {
    let held = store.held_locks();
    say!("");
    if held.is_empty() {
        return line("locks", "none held");
    }
    line("locks", format_args!("{} held", held.len()));
    for lock in held {
        let what = lock.name;
        let doing = match lock.holder {
            Holder::Active => "writing",
            Holder::Stopped => "STOPPED while it holds the lock (SIGCONT resumes it)",
            Holder::Unknown => "held by a process whose state is unknown",
            Holder::Dead => "DEAD (the next writer recovers it, or undercroft recover)",
        };
        say!("  {what}: {}, {doing}", process(lock.pid));
    }
}

fn processes(store: &Store) {
    say!("");
    let users = match store.users() {
        Ok(users) => users,
        Err(error) => return line("users", format_args!("not known: {error}")),
    };
    let (writers, readers): (Vec<User>, Vec<User>) =
        users.into_iter().partition(|user| user.member.is_some());
    if writers.is_empty() {
        line("writers", "no living process has written to the store");
    } else {
        line("writers", counted(writers.len() as u64, "process"));
    }
    for user in &writers {
        let Some(member) = &user.member else { continue };
        say!(
            "  slot {}: {}, joined {} ago",
            member.slot,
            described(user),
            age(member.joined)
        );
    }
    if readers.is_empty() {
        return line("readers", "no other process has the store open");
    }
    let count = counted(readers.len() as u64, "process");
    line(
        "readers",
        format_args!("{count} with the store open that did not write"),
    );
    for user in &readers {
        say!("  {}", described(user));
    }
}

/// Prints the processes that read long values in place, and for how long they have been reading.
fn pins(store: &Store) {
    let pins = store.pins();
    if pins.is_empty() {
        return;
    }
    let bytes = pins.iter().map(|pin| pin.bytes).sum();
    say!("");
    line(
        "pins",
        format_args!("{} read in place, {}", pins.len(), human(bytes)),
    );
    for pin in pins {
        let state = match (pin.lives, pin.parked) {
            (false, _) => ", DEAD (freed by upkeep, or undercroft recover)",
            (true, true) => ", deleted: freed when its reader releases it",
            (true, false) => "",
        };
        say!(
            "  slot {}: {}, {} for {}{state}",
            pin.slot,
            process(pin.pid),
            human(pin.bytes),
            age(pin.since)
        );
    }
}

fn keys(store: &Store) -> Result<(), Failure> {
    say!("");
    let databases = match databases(store)? {
        Counted::Of(databases) => databases,
        Counted::Waits(error) => {
            line("keys", format_args!("not counted: {error}"));
            return Ok(());
        }
    };
    if databases.is_empty() {
        line("keys", "none");
        return Ok(());
    }
    let total = databases.iter().map(|database| database.keys).sum();
    line("keys", counted(total, "key"));
    for database in databases {
        say!(
            "  db {}: {}, {} of them expire",
            database.number,
            counted(database.keys, "key"),
            grouped(database.expiring)
        );
    }
    match sums(store)? {
        Counted::Waits(error) => line("types", format_args!("not measured: {error}")),
        Counted::Of(sums) => {
            for (value_type, sum) in sums {
                let name = value_type.description().plural;
                say!(
                    "  {name}: {}, {}",
                    counted(sum.keys, "key"),
                    human(sum.bytes)
                );
            }
        }
    }
    Ok(())
}
