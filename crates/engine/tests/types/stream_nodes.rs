//! Compares trimming of entire stream leaves with a naive model that keeps deleted entries in their
//! nodes, as Redis does. A leaf must be removed whenever Redis removes its node. Also tests leaves
//! that are full to the last byte.

use undercroft_engine::streams::{
    AddedEntry, EntryId, IdRange, SetId, StreamEntries, StreamId, StreamLimits, Trim, TrimTo,
};
use undercroft_engine::{Error, Key, Options, Store, Writer};
use undercroft_testkit::fresh;

/// Limits for small nodes, so that most changes occur at the end of a node.
const LIMITS: StreamLimits = StreamLimits {
    entries: 4,
    bytes: 0,
};

/// Limits for nodes as large as a page allows.
const LONG: StreamLimits = StreamLimits::DEFAULT;
/// The length in bytes of a value that, with an empty field name, makes a leaf fill exactly one
/// page.
const ONE_PAGE: usize = 4056;

/// A model of a stream, which consists of nodes that contain entries in order. Each entry has a
/// flag that becomes false when the entry is deleted.
#[derive(Clone, Default)]
struct Twin {
    nodes: Vec<Vec<(u64, bool)>>,
    last: u64,
}

fn live(node: &[(u64, bool)]) -> u64 {
    node.iter().filter(|(_, there)| *there).count() as u64
}

impl Twin {
    fn length(&self) -> u64 {
        self.nodes.iter().map(|node| live(node)).sum()
    }

    fn ids(&self) -> Vec<u64> {
        let entries = self.nodes.iter().flatten();
        entries
            .filter(|(_, there)| *there)
            .map(|(id, _)| *id)
            .collect()
    }

    fn add(&mut self, id: u64) {
        self.last = id;
        match self.nodes.last_mut() {
            Some(node) if (node.len() as u64) < LIMITS.entries => node.push((id, true)),
            _ => self.nodes.push(vec![(id, true)]),
        }
    }

    fn delete(&mut self, id: u64) -> u64 {
        let mut entries = self.nodes.iter_mut().flatten();
        let Some(entry) = entries.find(|entry| **entry == (id, true)) else {
            return 0;
        };
        entry.1 = false;
        // XDEL removes a node when it deletes the node's last remaining entry.
        self.nodes
            .retain(|node| live(node) > 0 || node.iter().all(|(other, _)| *other != id));
        1
    }

    fn trim(&mut self, trim: &Trim) -> u64 {
        let mut gone = 0;
        while let Some(node) = self.nodes.first_mut() {
            let length: u64 = gone + live(node);
            if trim.about.is_some_and(|most| length > most) {
                break;
            }
            let Some((last, _)) = node.last() else { break };
            let goes = match trim.to {
                TrimTo::Length(most) => {
                    let all = self.nodes.iter().map(|node| live(node)).sum::<u64>();
                    if all <= most {
                        break;
                    }
                    all - live(&self.nodes[0]) >= most
                }
                TrimTo::From(id) => *last < id.ms,
            };
            if goes {
                gone += live(&self.nodes.remove(0));
                continue;
            }
            if trim.about.is_some() {
                break;
            }
            let mut left = self.length();
            for entry in &mut self.nodes[0] {
                let stays = match trim.to {
                    TrimTo::Length(most) => left <= most,
                    TrimTo::From(id) => entry.0 >= id.ms,
                };
                if stays {
                    break;
                }
                if std::mem::take(&mut entry.1) {
                    (gone, left) = (gone + 1, left - 1);
                }
            }
            break;
        }
        gone
    }
}

fn id(ms: u64) -> StreamId {
    StreamId { ms, seq: 0 }
}

/// A change to a stream, with its arguments.
#[derive(Clone, Debug)]
enum Change {
    Add(u64, usize),
    Delete(u64),
    Trim(Trim),
    /// Reset the last id of an empty stream to the minimum.
    Restart,
}

impl Change {
    fn random(twin: &Twin, random: &mut fastrand::Rng) -> Change {
        let near_end = |random: &mut fastrand::Rng| {
            let node = twin.nodes.get(random.usize(0..twin.nodes.len().max(1)));
            let end = node.and_then(|node| node.last()).map_or(0, |(id, _)| *id);
            (end + 1).saturating_sub(random.u64(0..4))
        };
        match random.u32(0..10) {
            0..5 => {
                let length = random.choice([0, 0, 3, 100, 1500]).expect("one of them");
                Change::Add(twin.last + random.u64(1..4), length)
            }
            5 if twin.length() == 0 && twin.last > 0 => Change::Restart,
            5..8 => Change::Delete(near_end(random)),
            _ => {
                let to = match random.bool() {
                    true => TrimTo::From(id(near_end(random))),
                    false => TrimTo::Length(twin.length().saturating_sub(random.u64(0..8))),
                };
                let few = random.u64(1..9);
                let most = random.choice([None, Some(u64::MAX), Some(few)]);
                let about = most.expect("one of them");
                Change::Trim(Trim { to, about })
            }
        }
    }

    fn of_twin(&self, twin: &mut Twin) -> u64 {
        match self {
            Change::Add(id, _) => {
                twin.add(*id);
                1
            }
            Change::Delete(id) => twin.delete(*id),
            Change::Trim(trim) => twin.trim(trim),
            Change::Restart => {
                // In Redis, a node without entries would remain, and entries added to it would be
                // out of order.
                *twin = Twin::default();
                0
            }
        }
    }

    fn of_store(&self, writer: &mut Writer<'_, '_>, key: &Key<'_>) -> Result<u64, Error> {
        match self {
            Change::Add(ms, length) => {
                let value = vec![b'v'; *length];
                let texts: [&[u8]; 2] = [b"name", &value];
                let given = EntryId::Exactly(id(*ms));
                let added = writer.stream_add(0, key, given, &texts, true, None, &LIMITS)?;
                assert_eq!(added, AddedEntry::Added(id(*ms)));
                Ok(1)
            }
            Change::Delete(ms) => writer.stream_delete(0, key, &[id(*ms)]),
            Change::Trim(trim) => writer.stream_trim(0, key, trim),
            Change::Restart => {
                let set = writer.stream_set_id(0, key, StreamId::MIN, None, None)?;
                assert_eq!(set, SetId::Done);
                Ok(0)
            }
        }
    }
}

fn ids(store: &Store, key: &Key<'_>) -> Vec<u64> {
    let found = store.read(store.shards_of([key]), |reader| {
        let mut found = StreamEntries::new();
        if let Some(stream) = reader.stream(0, key)? {
            stream.range(reader.view(), IdRange::ALL, &mut found)?;
        }
        Ok::<_, Error>(found)
    });
    let found = found.expect("a sound stream");
    (0..found.len()).map(|index| found.id(index).ms).collect()
}

fn check(store: &Store) {
    let report = store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn adding_to_a_full_leaf_never_reads_past_its_end() {
    let directory = fresh::directory();
    let options = Options {
        capacity: Some(16 << 20),
        shards: Some(1),
        ring: None,
    };
    let path = directory.path().join("store");
    let store = Store::create(&path, &options).expect("a new store");
    let add = |name: &str, value: &[u8]| {
        let key = store.key(name.as_bytes());
        store.write(store.shards_of([&key]), |writer| {
            let texts = [b"", value];
            writer.stream_add(0, &key, EntryId::Now, &texts, true, None, &LONG)
        })
    };
    // Fill the entire store with leaves of one page.
    let mut names = Vec::new();
    for number in 0.. {
        let name = format!("stream {number}");
        if add(&name, &[b'v'; ONE_PAGE]).is_err() {
            break;
        }
        names.push(name);
    }
    assert!(names.len() > 2000, "{}", names.len());
    for name in &names {
        let added = add(name, b"");
        let there = matches!(added, Ok(AddedEntry::Added(_)));
        assert!(
            there || added.as_ref().is_err_and(Error::is_out_of_memory),
            "{name}: {added:?}"
        );
    }
    check(&store);
}

#[test]
fn trimming_removes_whole_leaves_where_redis_removes_nodes() {
    let seed = std::env::var("UNDERCROFT_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("UNDERCROFT_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (_directory, store) = fresh::store(1);
    let mut twin = Twin::default();
    let key = store.key(b"k");
    for round in 0..100_000 {
        let (before, mut changes, mut replies) = (twin.clone(), Vec::new(), Vec::new());
        for _ in 0..random.u32(1..4) {
            let change = Change::random(&twin, &mut random);
            replies.push(change.of_twin(&mut twin));
            changes.push(change);
        }
        // Roll back some of the transactions.
        let is_kept = random.u32(0..3) > 0;
        let done = store.write(store.shards_of([&key]), |writer| {
            let each = changes.iter().map(|change| change.of_store(writer, &key));
            let each = each.collect::<Result<Vec<u64>, Error>>()?;
            assert_eq!(each, replies, "{changes:?} to {:?}", before.nodes);
            match is_kept {
                true => Ok(()),
                false => Err(Error::WrongType),
            }
        });
        assert_eq!(done.is_ok(), is_kept);
        if !is_kept {
            twin = before;
        }
        assert_eq!(ids(&store, &key), twin.ids(), "{changes:?}");
        if round % 200 == 0 {
            check(&store);
            // Continue with a copy of the stream, which must have the same nodes.
            let there = store.key(b"copy");
            let moved = store.write(store.shards_of([&key, &there]), |writer| {
                let is_there = writer.copy((0, &key), (0, &there))?;
                writer.remove(0, &key)?;
                writer.copy((0, &there), (0, &key))?;
                writer.remove(0, &there)?;
                Ok::<_, Error>(is_there)
            });
            assert!(moved.expect("room") || twin.nodes.is_empty());
        }
    }
    check(&store);
}
