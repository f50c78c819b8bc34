//! Defines scenarios for transactions with many commands, some of which are rolled back
//! individually.

use undercroft_engine::sorted_sets::AddRule;
use undercroft_engine::{Access, Error, PackedLimits, Store};

use crate::fixture::NOW;
use crate::scenario::changes::{value, write};
use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::{expiring_keys, large_in_both, some_keys, two_databases};

/// The scenarios for transactions.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("EXEC over two shards", some_keys, |s| {
        exec(s, &[&[set_00, insert_10, delete_01]])
    }),
    full("EXEC of many commands on one key", some_keys, |s| {
        exec(s, &[&[set_00, append_00, delete_00, append_00, set_00]])
    }),
    quick("EXEC of RENAME to another shard", large_in_both, |s| {
        exec(s, &[&[set_00, rename_large, insert_10]])
    }),
    full("EXEC of MOVE and RENAME", expiring_keys, |s| {
        exec(s, &[&[move_01, rename_small, move_01_back]])
    }),
    full("EXEC of FLUSHDB between SETs", two_databases, |s| {
        exec(s, &[&[set_00, flush, insert_10]])
    }),
    full("EXEC of SWAPDB after SET", two_databases, |s| {
        exec(s, &[&[set_00, swap, insert_10]])
    }),
    quick("EXEC, a command undone", some_keys, |s| {
        exec(s, &[&[insert_10], &[set_00, delete_01, fail], &[set_00]])
    }),
    full("EXEC, an insertion undone and made again", some_keys, |s| {
        exec(s, &[&[insert_10, fail], &[insert_10], &[delete_01, fail]])
    }),
    log_steps("EXEC, a long log undone and made again", some_keys, |s| {
        exec(s, &[&[many], &[many, set_00, fail], &[many, delete_01]])
    }),
    full("EXEC, a grant undone", some_keys, |s| {
        exec(s, &[&[set_00], &[insert_large, fail], &[insert_10]])
    }),
    log_steps("EXEC, grants undone and made again", some_keys, |s| {
        exec(s, &[&[insert_large, fail], &[insert_large], &[fail]])
    }),
    full("EXEC, a move of a large value undone", large_in_both, |s| {
        exec(s, &[&[set_00], &[rename_large, fail], &[delete_01]])
    }),
    full(
        "EXEC, a large value moved again after that was undone",
        large_in_both,
        |s| exec(s, &[&[rename_large, fail], &[rename_large], &[set_00]]),
    ),
    full("EXEC, a free undone", large_in_both, |s| {
        exec(s, &[&[delete_large, fail], &[set_00]])
    }),
    full("EXEC, MOVE and RENAME undone", expiring_keys, |s| {
        exec(s, &[&[move_01, rename_small, fail], &[set_00]])
    }),
    quick("EXEC while a key is watched", watched, |s| {
        exec(s, &[&[insert_10], &[set_00, delete_01, fail], &[set_00]])
    }),
    quick("compare and delete", some_keys, |s| compare(s, None)),
    quick("compare and expire, added", some_keys, |s| {
        compare(s, Some(NOW + 5000))
    }),
    full("compare and expire, changed", expiring_keys, |s| {
        compare(s, Some(NOW + 5000))
    }),
    full(
        "EXEC of FLUSHDB and SWAPDB while a key is watched",
        |s| {
            two_databases(s);
            watch(s);
        },
        |s| exec(s, &[&[set_00, flush], &[swap, fail], &[insert_10, swap]]),
    ),
    full("EXEC, a flush undone", two_databases, |s| {
        exec(s, &[&[set_00], &[flush, insert_10, fail], &[delete_01]])
    }),
    quick("a script", some_keys, |s| {
        script(s, &[add_member, add_scored, expire_00])
    }),
    full("a script that a command's error stops", some_keys, |s| {
        let change_and_fail: Command = |access| {
            set_00(access)?;
            fail(access)
        };
        script(s, &[add_member, insert_large, change_and_fail, add_scored])
    }),
];

/// Deletes a key, or sets its expiry time, if the key has the expected value.
fn compare(store: &Store, at: Option<u64>) {
    let name = key(0, 1);
    let key = store.key(&name);
    let changed = write(store, &[&name], |writer| {
        if writer.holds(0, &key, &value(64))? != Some(true) {
            return Ok(false);
        }
        match at {
            Some(_) => writer.set_expiry(0, &key, at),
            None => writer.remove(0, &key),
        }
    });
    assert!(changed, "a key that holds it");
}

/// Watches a key, so that the store counts the key's changes.
fn watch(store: &Store) {
    let key = key(0, 2);
    let watched = store.access().watch(0, std::iter::once(&key[..]));
    assert_eq!(watched.expect("room").len(), 1);
}

fn watched(store: &Store) {
    some_keys(store);
    watch(store);
}

/// A command that a transaction runs.
type Command = fn(&Access<'_>) -> Result<(), Error>;

/// Runs groups of commands in one transaction. If a command fails, its group is rolled back, but
/// the changes of the other groups remain.
fn exec(store: &Store, groups: &[&[Command]]) {
    store
        .transact(store.all_shards(), |running| {
            for group in groups {
                let savepoint = running.savepoint();
                for command in *group {
                    let done = command(&running.access());
                    if running.starts_again() {
                        return done;
                    }
                    if done.is_err() {
                        running.roll_back_to(&savepoint)?;
                        break;
                    }
                }
            }
            Ok(())
        })
        .expect("room");
}

/// Runs commands in one transaction until a command fails. The failed command is rolled back.
fn script(store: &Store, commands: &[Command]) {
    store
        .transact(store.all_shards(), |running| {
            let access = running.access();
            for command in commands {
                let done = access.attempt(|| command(&access))?;
                if running.starts_again() {
                    return done;
                }
                if done.is_err() {
                    break;
                }
            }
            Ok(())
        })
        .expect("room");
}

/// A command that fails without changing anything.
fn fail(_: &Access<'_>) -> Result<(), Error> {
    Err(Error::NotAnInteger)
}

fn set_00(access: &Access<'_>) -> Result<(), Error> {
    access.set(0, &key(0, 0), &value(62))
}

/// Sets so many keys that a short undo log overflows.
fn many(access: &Access<'_>) -> Result<(), Error> {
    (20..50).try_for_each(|number| access.set(0, &key(0, number), &value(number)))
}

fn expire_00(access: &Access<'_>) -> Result<(), Error> {
    let name = key(0, 0);
    let key = access.key(&name);
    access.write(access.shards_of([&key]), |writer| {
        writer.set_expiry(0, &key, Some(NOW + 5000)).map(drop)
    })
}

fn add_member(access: &Access<'_>) -> Result<(), Error> {
    let name = key(1, 92);
    let key = access.key(&name);
    access.write(access.shards_of([&key]), |writer| {
        writer.set_add(0, &key, &[b"part"], 8).map(drop)
    })
}

fn add_scored(access: &Access<'_>) -> Result<(), Error> {
    let (name, limits) = (key(0, 92), PackedLimits::SORTED_SET);
    let key = access.key(&name);
    access.write(access.shards_of([&key]), |writer| {
        let members = &[(&b"result"[..], 1.0)];
        let rule = AddRule::default();
        writer.sorted_add(0, &key, members, rule, &limits).map(drop)
    })
}

fn append_00(access: &Access<'_>) -> Result<(), Error> {
    let name = key(0, 0);
    let key = access.key(&name);
    access.write(access.shards_of([&key]), |writer| {
        writer.append(0, &key, &value(30)).map(drop)
    })
}

fn insert_10(access: &Access<'_>) -> Result<(), Error> {
    access.set(0, &key(1, 90), &value(900))
}

fn insert_large(access: &Access<'_>) -> Result<(), Error> {
    access.set(0, &key(1, 91), &value(100_000))
}

fn delete_00(access: &Access<'_>) -> Result<(), Error> {
    access.delete(0, &[&key(0, 0)]).map(drop)
}

fn delete_01(access: &Access<'_>) -> Result<(), Error> {
    access.delete(0, &[&key(0, 1)]).map(drop)
}

fn delete_large(access: &Access<'_>) -> Result<(), Error> {
    access.delete(0, &[&key(0, 90), &key(1, 90)]).map(drop)
}

fn rename(access: &Access<'_>, from: &[u8], to: &[u8]) -> Result<(), Error> {
    let (from, to) = (access.key(from), access.key(to));
    access.write(access.shards_of([&from, &to]), |writer| {
        writer.rename(0, &from, &to).map(drop)
    })
}

fn rename_large(access: &Access<'_>) -> Result<(), Error> {
    rename(access, &key(0, 90), &key(1, 0))
}

fn rename_small(access: &Access<'_>) -> Result<(), Error> {
    rename(access, &key(0, 0), &key(1, 0))
}

fn move_between(access: &Access<'_>, from: usize, to: usize) -> Result<(), Error> {
    let name = key(0, 1);
    let key = access.key(&name);
    access.write(access.shards_of([&key]), |writer| {
        writer.move_to(&key, from, to).map(drop)
    })
}

fn move_01(access: &Access<'_>) -> Result<(), Error> {
    move_between(access, 0, 2)
}

fn move_01_back(access: &Access<'_>) -> Result<(), Error> {
    move_between(access, 2, 0)
}

fn flush(access: &Access<'_>) -> Result<(), Error> {
    access.flush(&[0], false).map(drop)
}

fn swap(access: &Access<'_>) -> Result<(), Error> {
    access.write(access.all_shards(), |writer| writer.swap_databases(0, 1))
}
