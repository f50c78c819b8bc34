//! Reads keys in the middle of every kind of change (R9). At each step of the change, as if its
//! process had stopped at that step, writable and read-only handles must find the old state or,
//! after the commit, the new state.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use undercroft_engine::Store;
use undercroft_engine::scripts::{SharedTexts, StoredLibrary};
use undercroft_memory::fault::{on_step, steps_taken};
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::image::{Image, copy_store};
use undercroft_testkit::scenario::{self, Scenario, choose_names};
use undercroft_testkit::state::{self, Content, Expected, NOW};

/// For changes that consist of several transactions, one in this many reads is compared with the
/// result of a recovery.
const RECOVERED: u64 = 13;

/// The number of reads during one change, unless the full test run is requested.
const LOOKS: u64 = 60;

/// The results of all reads during one scenario.
#[derive(Default)]
struct Looks {
    old: u64,
    new: u64,
    /// The newest state seen so far: 0 is before the change, 1 is between its transactions, and 2
    /// is after the change.
    newest: usize,
    wrong: Option<String>,
}

fn reader(path: &std::path::Path, write: bool) -> Store {
    let store = Store::open(path, write).expect("a whole store");
    store.set_time(NOW);
    // Make a read that would have to wait for a lock fail immediately.
    store.set_patience(Duration::ZERO);
    store
}

/// Returns the content that the store would have after a recovery from its current state.
fn recovered(path: &std::path::Path) -> Content {
    let copy = path.with_extension("copy");
    copy_store(path, &copy).expect("room for a copy");
    let heir = state::open(&copy).expect("a whole store");
    heir.recover().expect("a recovery");
    let content = state::content_of(&heir).expect("a whole store");
    std::fs::remove_file(&copy).expect("just made");
    content
}

fn look_everywhere(scenario: &'static Scenario, random: &mut fastrand::Rng) -> Looks {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let base = directory.path().join("base");
    let store = state::create(&base);
    (scenario.prepare)(&store);
    drop(store);
    let expected = Expected::of(scenario, &base);
    let path = directory.path().join("store");
    let file = std::fs::File::open(&base).expect("just made");
    let image = Image::read(&file).expect("an image");
    image.write_to(&path).expect("room for a copy");
    // Count the steps of the change in a copy of the store.
    let copy = path.with_extension("copy");
    image.write_to(&copy).expect("room for a copy");
    let twin = state::open(&copy).expect("a whole store");
    let taken = steps_taken();
    (scenario.act)(&twin);
    let steps = steps_taken() - taken;
    drop(twin);
    std::fs::remove_file(&copy).expect("just made");
    let every = match Extent::asked() == Extent::Full {
        true => 1,
        false => steps.div_ceil(LOOKS).max(1),
    };
    let writer = state::open(&path).expect("a whole store");
    let readers = [reader(&path, false), reader(&path, true)];
    let looks = Rc::new(RefCell::new(Looks::default()));
    let (seen, first) = (looks.clone(), random.u64(..RECOVERED));
    let (mut step, mut looked) = (0_u64, 0_u64);
    let many = scenario.gradual || scenario.handed || scenario.first.is_some();
    on_step(Some(Box::new(move || {
        step += 1;
        let mut seen = seen.borrow_mut();
        // Always check the last steps, because the commit is among them.
        if seen.wrong.is_some() || step % every != 0 && step + 30 < steps {
            return;
        }
        looked += 1;
        let reader = &readers[(looked % 2) as usize];
        let found = match state::content_of(reader) {
            Ok(found) => found,
            // The items of dead clients in this shard must be recovered first, which requires its
            // lock.
            Err(error) if scenario.handed => {
                assert!(error.is_busy() || !reader.writable(), "{error}");
                return;
            }
            Err(error) => {
                seen.wrong = Some(format!("step {step}: {error}"));
                return;
            }
        };
        let between = expected.between.as_ref();
        let states = [Some(&expected.before), between, Some(&expected.after)];
        let is = |of: usize| states[of].is_some_and(|state| state.content == found);
        // Several states can have equal contents, so assume the oldest state that matches.
        let which = (seen.newest..3).find(|&of| is(of));
        match which {
            Some(which) => seen.newest = which,
            None if many => {}
            None => seen.wrong = Some(format!("step {step}: neither old nor new")),
        }
        seen.old += u64::from(is(0));
        seen.new += u64::from(is(2));
        // In a copy, all waiting clients are dead, so recovery returns the items that they had not
        // read yet.
        let is_told = many && !scenario.handed && looked % RECOVERED == first;
        if is_told && found != recovered(&path) {
            seen.wrong = Some(format!("step {step}: not what a recovery leaves"));
        }
    })));
    (scenario.act)(&writer);
    on_step(None);
    looks.take()
}

#[test]
fn reader_finds_the_old_or_the_new_state_at_every_step_of_every_change() {
    choose_names();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let filter = std::env::var("UNDERCROFT_SCENARIO").unwrap_or_default();
    let (mut old, mut new) = (0, 0);
    for scenario in scenario::all().filter(|known| known.name.contains(&filter)) {
        let looks = look_everywhere(scenario, &mut random);
        if let Some(wrong) = looks.wrong {
            panic!("{} (seed {seed}): {wrong}", scenario.name);
        }
        assert!(looks.old > 0 || scenario.handed, "{}", scenario.name);
        old += looks.old;
        new += looks.new;
    }
    println!("through the log: {old} looks found the old state, {new} the new one; seed {seed}");
    assert!(
        !filter.is_empty() || old > 5000 && new > 500,
        "{old}, {new}"
    );
}

/// A writer that replaces a string may check for pins before a reader pins the string, and then
/// frees the block when it commits. A string found through an undo log must therefore never be read
/// in place (R7).
#[test]
fn string_pinned_during_its_replacement_stays_unchanged() {
    const LENGTH: usize = 100_000;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let writer = state::create(&path);
    let value = |byte: u8| vec![byte; LENGTH];
    writer.set(0, b"key", &value(0)).expect("room");
    let reader = Rc::new(reader(&path, true));
    for round in 1..4 {
        let held = Rc::new(RefCell::new(Vec::new()));
        let (ours, theirs) = (held.clone(), reader.clone());
        on_step(Some(Box::new(move || {
            // Pin only the first 60 reads, because there are not enough pins for all reads.
            let whole = theirs.get_in_place(0, b"key").expect("a read");
            let whole = whole.expect("it is there all the time");
            let first = theirs.bytes_of(&whole)[0];
            let mut ours = ours.borrow_mut();
            match ours.len() < 60 {
                true => ours.push((whole, first)),
                false => theirs.let_go(whole),
            }
        })));
        match round {
            1 => writer.set(0, b"key", &value(round)).expect("room"),
            2 => {
                let key = writer.key(b"key");
                let set = writer.write(writer.shards_of([&key]), |writer| {
                    writer.set(0, &key, &value(round), undercroft_engine::Expiry::Never)
                });
                set.expect("room");
            }
            _ => {
                // Replace the string in a single transaction with a string in a different block.
                let key = writer.key(b"key");
                let set = writer.write(writer.shards_of([&key]), |writer| {
                    writer.remove(0, &key)?;
                    writer.set(0, &key, &value(round), undercroft_engine::Expiry::Never)
                });
                set.expect("room");
            }
        }
        on_step(None);
        // Write other values, which reuse the freed memory.
        for other in 0..8_u8 {
            let name = [b'o', other];
            writer.set(0, &name, &value(100 + other)).expect("room");
        }
        assert!(held.borrow().len() > 10, "{} looks", held.borrow().len());
        for (whole, first) in held.take() {
            let bytes = reader.bytes_of(&whole);
            assert!(bytes.iter().all(|byte| *byte == first), "round {round}");
            assert!(
                [round, round - 1].contains(&first),
                "round {round}: {first}"
            );
            reader.let_go(whole);
        }
        for other in 0..8_u8 {
            writer.delete(0, &[&[b'o', other]]).expect("a removal");
        }
    }
}

/// A process caches the function libraries together with the count of their changes. At each step
/// of a change, as if its process had stopped at that step, a reader may find the old libraries
/// with the new count. After the commit, or after a death at that step and a recovery, the count
/// must therefore have changed again.
#[test]
fn libraries_cached_during_a_change_are_stale_after_it() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let writer = state::create(&path);
    let change = |version, text: &'static [u8], mark| {
        let kept: [(&[u8], &[u8], u64); 1] = [(b"library", text, mark)];
        assert!(
            writer
                .access()
                .change_libraries(version, &[], &kept)
                .expect("room")
        );
    };
    change(0, b"old", 1);
    let caches = Rc::new(RefCell::new(Vec::new()));
    let (seen, place) = (caches.clone(), path.clone());
    let reader = reader(&path, true);
    let is_stale = |store: &Store, cached: &[(u64, Vec<StoredLibrary>)]| {
        let count = store.access().text_changes(SharedTexts::Libraries);
        let (now, _) = store.access().libraries().expect("a read");
        cached
            .iter()
            .any(|(of, libraries)| *of == count && *libraries != now)
    };
    on_step(Some(Box::new(move || {
        let count = reader.access().text_changes(SharedTexts::Libraries);
        let (libraries, _) = reader.access().libraries().expect("a read");
        let mut seen = seen.borrow_mut();
        seen.push((count, libraries));
        let copy = place.with_extension("copy");
        copy_store(&place, &copy).expect("room for a copy");
        let heir = state::open(&copy).expect("a whole store");
        heir.recover().expect("a recovery");
        assert!(
            !is_stale(&heir, &seen),
            "after a death at step {}",
            seen.len()
        );
        std::fs::remove_file(&copy).expect("just made");
    })));
    change(1, b"new", 2);
    on_step(None);
    let caches = caches.borrow();
    assert!(
        caches
            .iter()
            .any(|(_, libraries)| libraries[0].text == b"old")
    );
    assert!(!is_stale(&writer, &caches));
}
