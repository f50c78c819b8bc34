//! Tests that long reads waste little copying while other processes constantly change other keys
//! (R10). The test counts work instead of measuring time.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::{Context, execute};
use undercroft_engine::lists::End;
use undercroft_engine::sorted_sets::AddRule;
use undercroft_engine::{Options, PackedLimits, Store};
use undercroft_memory::race::Moment;
use undercroft_memory::work;

use crate::alone::Alone;

/// The length of the long values in bytes.
const LENGTH: usize = 24 << 20;
const WORD: u64 = 8;

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
    writer: Store,
}

fn place() -> Place {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(512 << 20),
        // With a single shard, every change affects the shard that is being read.
        shards: Some(1),
        ring: None,
    };
    let writer = Store::create(&path, &options).expect("a new store");
    writer.set_max_memory(0).expect("no limit");
    Place {
        _directory: directory,
        path,
        writer,
    }
}

/// Returns the ratio of the bytes that a read touches with writers to the bytes that it touches
/// without writers. With writers, another key changes before each of the read's heap accesses.
fn share<R: PartialEq + std::fmt::Debug>(place: Place, read: impl Fn(&Store) -> R) -> f64 {
    let Place {
        _directory,
        path,
        writer,
    } = place;
    let reader = Store::open(&path, true).expect("the same store");
    writer.leave_upkeep_to_a_timer();
    reader.leave_upkeep_to_a_timer();
    writer.set(0, b"other", b"0").expect("room");
    // The first read registers the reader in the process table, which also counts as work.
    let expected = read(&reader);
    let before = work::done().touched;
    assert_eq!(read(&reader), expected);
    let quiet = work::done().touched - before;
    let theirs = Arc::new(AtomicU64::new(0));
    let count = theirs.clone();
    reader.interrupt_reads(Some(Box::new(move |moment| {
        if moment == Moment::Looking {
            let before = work::done().touched;
            writer.set(0, b"other", b"1").expect("room");
            let touched = work::done().touched - before;
            count.fetch_add(touched, Ordering::Relaxed);
        }
    })));
    let before = work::done().touched;
    assert_eq!(read(&reader), expected);
    reader.interrupt_reads(None);
    let all = work::done().touched - before;
    let theirs = theirs.load(Ordering::Relaxed);
    assert!(theirs > 0, "nothing was changed");
    println!("{quiet} words alone, {} while others write", all - theirs);
    (all - theirs) as f64 / quiet as f64
}

fn value() -> Vec<u8> {
    (0..LENGTH).map(|at| (at / 7) as u8).collect()
}

#[test]
fn long_string_is_copied_once_despite_other_writes() {
    let place = place();
    place.writer.set(0, b"long", &value()).expect("room");
    let share = share(place, |store| {
        let mut out = Vec::new();
        assert!(store.get(0, b"long", &mut out).expect("a read"));
        assert!(out == value());
        out.len()
    });
    assert!(share < 1.1, "{share}");
}

#[test]
fn long_strings_read_together_are_not_copied_often() {
    let place = place();
    place.writer.set(0, b"a", &value()).expect("room");
    place.writer.set(0, b"b", &value()).expect("room");
    let share = share(place, |store| {
        let values = store.get_many(0, &[b"a", b"other", b"b"]).expect("a read");
        let lengths = values.iter().map(|value| value.as_ref().map(Vec::len));
        lengths.collect::<Vec<_>>()
    });
    assert!(share < 1.5, "{share}");
}

#[test]
fn read_that_cannot_pin_wastes_little_work() {
    let place = place();
    place.writer.set(0, b"long", &value()).expect("room");
    let reader = Store::open(&place.path, false).expect("the same store");
    reader.set_patience(std::time::Duration::ZERO);
    let (writer, mut left) = (place.writer, 200);
    reader.interrupt_reads(Some(Box::new(move |moment| {
        if moment == Moment::Looking && left > 0 {
            left -= 1;
            writer.set(0, b"other", b"1").expect("room");
        }
    })));
    let before = work::done().touched;
    let mut out = Vec::new();
    // Another key changes before each of the read's first 200 heap accesses.
    let found = reader.get(0, b"long", &mut out);
    let touched = (work::done().touched - before) * WORD;
    assert!(found.is_err() || out == value());
    assert!(touched < 2 * LENGTH as u64, "{touched} bytes");
}

/// Other keys change as often as possible. After a small part of a collection has been read
/// repeatedly without success, the collection is read under the lock.
#[test]
fn long_collections_are_not_reread_often() {
    const ITEMS: usize = 60_000;
    for (fill, read) in [
        (
            "RPUSH",
            &[
                "LRANGE long 0 -1",
                "DUMP long",
                "SORT long ALPHA",
                "SORT_RO long BY nosort",
            ][..],
        ),
        (
            "SADD",
            &["SMEMBERS long", "DUMP long", "SUNION long other2"],
        ),
        ("HSET", &["HGETALL long", "HVALS long", "DUMP long"]),
        (
            "ZADD",
            &[
                "ZRANGE long 0 -1",
                "DUMP long",
                "ZRANGEBYSCORE long -inf +inf WITHSCORES",
            ],
        ),
        ("XADD", &["XRANGE long - +", "DUMP long"]),
        ("FEED.ADD", &["FEED.RANGE long 0 1000000", "DUMP long"]),
    ] {
        for line in read {
            let place = place();
            let host = Alone::new();
            let session = RefCell::new(host.session());
            let run = |store: &Store, words: &[&[u8]]| {
                let mut session = session.borrow_mut();
                let mut reply = Recorder::new();
                let mut context = Context::new(&mut session, host.host(), store);
                execute(&mut context, words, &mut reply).expect("no process holds a lock");
                reply.finish().expect("a whole reply")
            };
            let texts: Vec<String> = (0..ITEMS).map(|item| format!("item{item:08}")).collect();
            match fill {
                "XADD" => {
                    for (id, text) in texts.iter().enumerate() {
                        let id = format!("{}-1", id + 1);
                        run(
                            &place.writer,
                            &[b"XADD", b"long", id.as_bytes(), b"f", text.as_bytes()],
                        );
                    }
                }
                _ => {
                    if fill == "FEED.ADD" {
                        run(&place.writer, &[b"FEED.CREATE", b"long", b"SIZE", b"12"]);
                    }
                    for some in texts.chunks(1000) {
                        let mut words: Vec<&[u8]> = vec![fill.as_bytes(), b"long"];
                        if fill == "FEED.ADD" {
                            words.push(b"-1");
                        }
                        for text in some {
                            match fill {
                                "HSET" => words.extend([text.as_bytes(), b"value"]),
                                "ZADD" => words.extend([&text.as_bytes()[4..], text.as_bytes()]),
                                _ => words.push(text.as_bytes()),
                            }
                        }
                        let reply = run(&place.writer, &words);
                        assert!(!matches!(reply[..], [Tree::Error(_)]), "{reply:?}");
                    }
                }
            }
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let share = share(place, |store| run(store, &words));
            assert!(share < 2.0, "{line}: {share}");
        }
    }
}

/// Large sources are read in parts and processed without a lock. The stored result must match the
/// sources at the time when it is stored.
#[test]
fn lock_free_result_matches_the_sources_when_stored() {
    const ITEMS: usize = 9_000;
    let host = Alone::new();
    let run = |store: &Store, line: &str| {
        let mut session = host.session();
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut reply = Recorder::new();
        let mut context = Context::new(&mut session, host.host(), store);
        execute(&mut context, &words, &mut reply).expect("no process holds a lock");
        let replies = reply.finish().expect("a whole reply");
        assert!(
            !matches!(replies[..], [Tree::Error(_)]),
            "{line}: {replies:?}"
        );
        format!("{replies:?}")
    };
    let fill = |store: &Store| {
        for (key, from) in [("a", 0), ("b", ITEMS / 2)] {
            for part in (from..from + ITEMS).collect::<Vec<_>>().chunks(1000) {
                let items: Vec<String> = part.iter().map(|item| format!("item{item}")).collect();
                run(store, &format!("SADD {key} {}", items.join(" ")));
                run(store, &format!("RPUSH l{key} {}", items.join(" ")));
                let scored: Vec<String> = items.iter().map(|item| format!("1 {item}")).collect();
                run(store, &format!("ZADD z{key} {}", scored.join(" ")));
            }
        }
        // Create one key that contains the items of both sources.
        run(store, "SUNIONSTORE both a b");
        run(store, "DEL d");
    };
    let seed = undercroft_testkit::fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for (line, look) in [
        ("SUNIONSTORE d a b", "SORT d ALPHA"),
        ("SINTERSTORE d a b", "SORT d ALPHA"),
        ("SDIFFSTORE d a b", "SORT d ALPHA"),
        ("SDIFFSTORE d a b missing", "SORT d ALPHA"),
        ("SINTERSTORE d a b missing", "SORT d ALPHA"),
        ("SUNIONSTORE a a b", "SORT a ALPHA"),
        ("SORT both ALPHA STORE d", "LRANGE d 0 -1"),
        ("SORT both BY nosort STORE d", "LRANGE d 0 -1"),
        (
            "SORT both ALPHA DESC LIMIT 5 9000 GET # GET nothing STORE d",
            "LRANGE d 0 -1",
        ),
        ("SORT la ALPHA STORE d", "LRANGE d 0 -1"),
        ("SORT za BY nosort STORE d", "LRANGE d 0 -1"),
    ] {
        let twin = place();
        fill(&twin.writer);
        let quiet = {
            let place = place();
            fill(&place.writer);
            (run(&place.writer, line), run(&place.writer, look))
        };
        change(&twin.writer);
        let changed = (run(&twin.writer, line), run(&twin.writer, look));
        // Run once without a change, and then with a change in the middle of the reads.
        for at in [
            None,
            Some(0),
            Some(random.u64(1..20)),
            Some(random.u64(20..2000)),
        ] {
            let place = place();
            fill(&place.writer);
            let reader = Store::open(&place.path, true).expect("the same store");
            let writer = Arc::new(place.writer);
            let (theirs, looks) = (writer.clone(), Arc::new(AtomicU64::new(0)));
            let hits = Arc::new(AtomicU64::new(0));
            let hit = hits.clone();
            let theirs_too = std::sync::Mutex::new(Some(theirs));
            reader.interrupt_reads(Some(Box::new(move |moment| {
                if moment == Moment::Looking && Some(looks.fetch_add(1, Ordering::Relaxed)) == at {
                    let store = theirs_too.lock().expect("one at a time").take();
                    change(&store.expect("once"));
                    hit.fetch_add(1, Ordering::Relaxed);
                }
            })));
            let reply = run(&reader, line);
            reader.interrupt_reads(None);
            let found = (reply, run(&reader, look));
            let expected = match hits.load(Ordering::Relaxed) {
                0 => &quiet,
                _ => &changed,
            };
            assert!(
                found == *expected,
                "{line}, changed at {at:?} (seed {seed})"
            );
        }
    }
}

/// Changes the sources, as another process would.
fn change(store: &Store) {
    store.set_add(0, b"a", b"other", 512).expect("room");
    store.set_add(0, b"both", b"other", 512).expect("room");
    store
        .list_push(0, b"la", End::Right, &[b"last"])
        .expect("room");
    let (b, za) = (store.key(b"b"), store.key(b"za"));
    let done = store.write(store.shards_of([&b, &za]), |writer| {
        writer.set_remove(0, &b, &[b"item5000", b"item9000"])?;
        let limits = PackedLimits {
            entries: 128,
            value: 64,
        };
        writer.sorted_add(0, &za, &[(b"first", 0.0)], AddRule::default(), &limits)?;
        Ok::<_, undercroft_engine::Error>(())
    });
    done.expect("room");
}
