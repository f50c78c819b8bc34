//! Tests large objects in arenas, which are separate memory areas (H4). The cost of an operation on
//! an entire object must not depend on its size (W8).

use fastrand::Rng;
use undercroft_engine::lists::End;
use undercroft_engine::sorted_sets::AddRule;
use undercroft_engine::{Options, PackedLimits, Ranges, Store};
use undercroft_memory::fault::steps_taken;

/// A store of two shards, with the name of a key in each shard.
struct Two {
    store: Store,
    here: Vec<u8>,
    there: Vec<u8>,
    _directory: tempfile::TempDir,
}

impl Two {
    fn new() -> Two {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let options = Options {
            shards: Some(2),
            ..Options::default()
        };
        let store = Store::create(&path, &options).expect("a new store");
        // Leave upkeep to a timer that does not exist, so that only the work of the commands is
        // counted.
        store.leave_upkeep_to_a_timer();
        let name = |shard: usize| {
            let mut names = (0..).map(|number| format!("name {number}").into_bytes());
            names.find(|name| store.key(name).shard() == shard)
        };
        Two {
            here: name(0).expect("one of them"),
            there: name(1).expect("one of them"),
            store,
            _directory: directory,
        }
    }

    /// Adds texts of 12 bytes to the list at `here`.
    fn fill(&self, numbers: std::ops::Range<usize>) {
        let texts: Vec<String> = numbers.map(|number| format!("text{number:08}")).collect();
        for texts in texts.chunks(500) {
            let values: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            let pushed = self.store.list_push(0, &self.here, End::Right, &values);
            pushed.expect("room");
        }
    }

    fn trim(&self, name: &[u8], start: i64, stop: i64) {
        let key = self.store.key(name);
        let trimmed = self.store.write(self.store.shards_of([&key]), |writer| {
            writer.list_trim(0, &key, start, stop)
        });
        assert!(trimmed.expect("room"));
    }

    fn rename(&self, from: &[u8], to: &[u8]) {
        let (from, to) = (self.store.key(from), self.store.key(to));
        let renamed = self.store.write(self.store.shards_of([&from, &to]), |w| {
            w.rename(0, &from, &to)
        });
        assert!(renamed.expect("room"));
    }

    fn length(&self, name: &[u8]) -> u64 {
        self.store.list_length(0, name).expect("read")
    }

    fn check(&self) {
        let report = self.store.check().expect("checked");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }

    fn sweep(&self) {
        for _ in 0..3000 {
            self.store.sweep(64).expect("swept");
        }
    }
}

fn steps(act: impl FnOnce()) -> u64 {
    let before = steps_taken();
    act();
    steps_taken() - before
}

#[test]
fn removing_or_moving_a_list_takes_the_same_steps_at_any_length() {
    let mut all = Vec::new();
    for length in [40_000, 200_000, 800_000] {
        let two = Two::new();
        two.fill(0..length);
        let (from, to) = (length as i64 / 8, -1 - length as i64 / 8);
        let taken = [
            steps(|| two.trim(&two.here, from, to)),
            steps(|| two.rename(&two.here, &two.there)),
            steps(|| two.rename(&two.there, &two.here)),
            steps(|| two.trim(&two.here, 1, -2)),
            steps(|| assert_eq!(two.store.delete(0, &[&two.here]).expect("room"), 1)),
        ];
        two.check();
        println!("{length} items: {taken:?} steps");
        all.push(taken);
    }
    // A taller tree and the first slab of a size class take a few more steps. Freeing each leaf
    // would take about ten steps for each leaf.
    for (act, &least) in all[0].iter().enumerate() {
        let most = all.iter().map(|taken| taken[act]).max();
        assert!(most <= Some(least + 800), "act {act}: {all:?}");
    }
}

#[test]
fn sorted_set_moves_to_an_arena_however_it_was_filled() {
    const LIMITS: PackedLimits = PackedLimits {
        entries: 128,
        value: 64,
    };
    let mut all = Vec::new();
    for (count, at_once) in [(6000, 3), (60_000, 3), (6000, 6000), (60_000, 60_000)] {
        let two = Two::new();
        let texts: Vec<String> = (0..count)
            .map(|number| format!("member {number:08}"))
            .collect();
        let members: Vec<(&[u8], f64)> = texts.iter().map(|text| (text.as_bytes(), 1.0)).collect();
        let key = two.store.key(&two.here);
        for members in members.chunks(at_once) {
            let added = two.store.write(two.store.shards_of([&key]), |writer| {
                writer.sorted_add(0, &key, members, AddRule::default(), &LIMITS)
            });
            added.expect("room");
        }
        all.push(steps(|| two.rename(&two.here, &two.there)));
        two.check();
    }
    println!("{all:?} steps");
    // Moving each member separately would take several steps for each member.
    assert!(all.iter().all(|&taken| taken < 1000), "{all:?}");
}

#[test]
fn trimmed_parts_are_freed_even_after_the_list_moves() {
    let two = Two::new();
    let empty = two.store.used_memory();
    two.fill(0..60_000);
    let full = two.store.used_memory();
    two.trim(&two.here, 20_000, 50_000);
    two.store.sweep(1).expect("swept");
    two.trim(&two.here, 10_000, -1);
    two.check();
    two.rename(&two.here, &two.there);
    two.check();
    two.trim(&two.there, 10_000, -1);
    two.check();
    assert_eq!(two.length(&two.there), 10_001);
    two.sweep();
    two.check();
    let left = two.store.used_memory() - empty;
    assert!(left < (full - empty) / 4, "{left} of {full} bytes");
    let mut out = Ranges::new();
    two.store
        .list_range(0, &two.there, 0, 0, &mut out)
        .expect("read");
    assert_eq!(out.get(0), b"text00040000");
    // Delete the list while some of its cut-off parts have not been freed yet.
    two.trim(&two.there, 8000, -1);
    two.store.delete(0, &[&two.there]).expect("room");
    two.check();
    two.sweep();
    two.check();
    assert!(two.store.used_memory() < empty + 20_000, "all is freed");
}

#[test]
fn large_list_moves_to_an_arena() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    for long in [false, true] {
        let two = Two::new();
        let length = if long { 3000 } else { 12 };
        let mut bytes = 0;
        while bytes < 200_000 {
            let value = vec![b'a' + random.u8(..26); length];
            bytes += length;
            let pushed = two.store.list_push(0, &two.here, End::Left, &[&value]);
            pushed.expect("room");
        }
        two.check();
        let count = two.length(&two.here);
        two.rename(&two.here, &two.there);
        let to_move = steps(|| two.rename(&two.there, &two.here));
        // Copying the list would take several steps for each leaf or long item.
        assert!(to_move < 250, "{to_move} steps");
        assert_eq!(two.length(&two.here), count);
        two.check();
    }
}
