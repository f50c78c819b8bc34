//! Tests reading shards that are being changed, through their undo logs (R9). Whether the writer is
//! stopped, slow or dead, a reader finds the state before the change until the commit, and the new
//! state afterward.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use undercroft_memory::fault::{die_after, on_step};
use undercroft_memory::race::Moment;
use undercroft_memory::{Error, Offset, Options, Segment, ShardSet, Transaction};

/// The number of words in the block to which root 0 of each shard refers.
const WORDS: u64 = 40;
const SHARDS: usize = 3;

fn create() -> (tempfile::TempDir, PathBuf, Segment) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(16 << 20),
        shards: Some(4),
        ring: None,
    };
    let segment = Segment::create(&path, &options).expect("a new store");
    for shard in 0..SHARDS {
        segment
            .write(ShardSet::one(shard), |transaction| {
                let at = transaction.allocate(shard, WORDS * 8)?;
                transaction.fill(at, &[0; (WORDS * 8) as usize])?;
                transaction.set_root(shard, 0, at)
            })
            .expect("room");
    }
    (directory, path, segment)
}

fn all() -> ShardSet {
    ShardSet::first(SHARDS)
}

/// Opens a handle that never waits. A read that needs a lock would fail, because the lock is held.
fn impatient(path: &std::path::Path, write: bool) -> Segment {
    let segment = Segment::open(path, write).expect("the same store");
    segment.set_patience(Duration::ZERO);
    segment
}

/// Returns the content of a shard, read through every accessor of a view. The results must agree.
fn words(view: &undercroft_memory::View<'_>, shard: usize) -> Result<Vec<u64>, Error> {
    let at = view.root(shard, 0);
    let by_word: Result<Vec<u64>, _> = (0..WORDS).map(|word| view.word(at + word * 8)).collect();
    let by_word = by_word?;
    let block = view.block(at)?;
    let by_block: Result<Vec<u64>, _> = (0..WORDS).map(|word| block.word(word * 8)).collect();
    let mut bytes = Vec::new();
    view.append_to(at, WORDS * 8, &mut bytes)?;
    let mut part = Vec::new();
    view.append_part(at, 3, WORDS * 8 - 3, &mut part)?;
    let mut copied = vec![0; (WORDS * 8) as usize];
    view.copy_to(at, &mut copied)?;
    let mut all_words = vec![0; WORDS as usize];
    view.copy_words_to(at, &mut all_words)?;
    let flat: Vec<u8> = by_word.iter().flat_map(|word| word.to_le_bytes()).collect();
    let agree = by_block? == by_word
        && all_words == by_word
        && view.words::<{ WORDS as usize }>(at)?[..] == by_word
        && bytes == flat
        && copied == flat
        && part == flat[3..flat.len() - 3]
        && view.equals(at, &flat)?
        && block.equals(8, &flat[8..])?;
    assert!(agree || !view.unchanged(), "the accessors do not agree");
    Ok(by_word)
}

type Content = Vec<Vec<u64>>;

/// Returns the content of all shards at one moment. Also reads each shard separately, and checks
/// that this content is at least as new.
fn content(segment: &Segment) -> Result<Content, Error> {
    segment.read(all(), |view| {
        (0..SHARDS)
            .map(|shard| words(view, shard))
            .collect::<Result<Content, Error>>()
    })
}

fn each(segment: &Segment) -> Result<Content, Error> {
    (0..SHARDS)
        .map(|shard| segment.read(ShardSet::one(shard), |view| words(view, shard)))
        .collect()
}

fn at(transaction: &Transaction<'_>, shard: usize) -> Offset {
    transaction.view().root(shard, 0)
}

/// A kind of change: one that modifies words in place, replaces a block, uses savepoints, makes the
/// log long, or fails.
type Change = fn(&mut Transaction<'_>) -> Result<(), Error>;

const CHANGES: &[(&str, Change)] = &[
    ("words in place", |transaction| {
        for shard in 0..SHARDS {
            let block = at(transaction, shard);
            for word in [0, 7, 7, 39] {
                transaction.store(shard, block + word * 8, word + 1)?;
            }
        }
        Ok(())
    }),
    ("ranges that overlap", |transaction| {
        let block = at(transaction, 1);
        for (start, words) in [(5, 10), (0, 8), (20, 20), (3, 30), (0, 40)] {
            transaction.add_to_words(1, block + start * 8, words, 1)?;
        }
        Ok(())
    }),
    ("a block for another one", |transaction| {
        let old = at(transaction, 2);
        transaction.free(2, old);
        let new = transaction.allocate(2, WORDS * 8)?;
        transaction.fill(new, &[9; (WORDS * 8) as usize])?;
        transaction.set_root(2, 0, new)
    }),
    ("a savepoint that is gone back to", |transaction| {
        let block = at(transaction, 0);
        transaction.store(0, block, 1)?;
        let savepoint = transaction.savepoint();
        transaction.store(0, block, 2)?;
        transaction.store(0, block + 8, 2)?;
        transaction.roll_back_to(&savepoint)?;
        transaction.store(0, block + 16, 3)?;
        transaction.store(0, block + 24, 3)
    }),
    ("a long log", |transaction| {
        for round in 1..12 {
            for shard in 0..SHARDS {
                let block = at(transaction, shard);
                transaction.add_to_words(shard, block, WORDS, round)?;
            }
        }
        Ok(())
    }),
];

fn change(segment: &Segment, change: Change) -> Result<(), Error> {
    segment.write(all(), change)
}

#[test]
fn a_reader_finds_the_old_state_until_the_commit_and_the_new_one_from_then_on() {
    for &(name, body) in CHANGES {
        let (_directory, path, writer) = create();
        let readers = Rc::new([impatient(&path, false), impatient(&path, true)]);
        let old = content(&writer).expect("a read");
        let new = {
            let (_directory, _path, twin) = create();
            change(&twin, body).expect("room");
            content(&twin).expect("a read")
        };
        assert_ne!(old, new);
        let (seen, odd) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
        let (also_seen, also_odd) = (seen.clone(), odd.clone());
        on_step(Some(Box::new(move || {
            for reader in &*readers {
                also_odd.set(also_odd.get() + u32::from(!reader.held_locks().is_empty()));
                let found = content(reader).unwrap_or_else(|error| panic!("{name}: {error}"));
                let alone = each(reader).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(found, alone, "{name}");
                also_seen.borrow_mut().push(found);
            }
        })));
        change(&writer, body).expect("room");
        on_step(None);
        let seen = seen.borrow();
        let first_new = seen.iter().position(|found| *found == new);
        let first_new = first_new.expect("the new state, before the lock is given back");
        assert!(first_new > 10, "{name}: {first_new}");
        for (index, found) in seen.iter().enumerate() {
            let expected = if index < first_new { &old } else { &new };
            assert_eq!(found, expected, "{name}: look {index} of {}", seen.len());
        }
        assert!(
            odd.get() > 10,
            "{name}: {} looks at a locked shard",
            odd.get()
        );
        assert_eq!(content(&writer).expect("a read"), new);
    }
}

#[test]
fn a_failed_change_and_its_rollback_are_never_seen() {
    for &(name, body) in CHANGES {
        let (_directory, path, writer) = create();
        let readers = Rc::new([impatient(&path, false), impatient(&path, true)]);
        let old = content(&writer).expect("a read");
        let expected = old.clone();
        let looks = Rc::new(Cell::new(0));
        let count = looks.clone();
        on_step(Some(Box::new(move || {
            for reader in &*readers {
                assert_eq!(content(reader).expect(name), expected, "{name}");
                assert_eq!(each(reader).expect(name), expected, "{name}");
                count.set(count.get() + 1);
            }
        })));
        let failed = writer.write(all(), |transaction| {
            body(transaction)?;
            Err::<(), Error>(Error::Interrupted)
        });
        on_step(None);
        assert!(matches!(failed, Err(Error::Interrupted)), "{failed:?}");
        assert!(looks.get() > 20, "{name}: {} looks", looks.get());
    }
}

/// A reader requires no recovery, and recovery does not block readers, even if the recovering
/// process also dies.
#[test]
fn shards_of_a_dead_writer_are_readable_before_and_during_recovery() {
    for &(name, body) in CHANGES {
        for steps in (0..).step_by(3) {
            let (_directory, path, writer) = create();
            let old = content(&writer).expect("a read");
            if die_after(steps, || change(&writer, body).expect("room")).is_some() {
                break;
            }
            writer.abandon();
            let readers = Rc::new([impatient(&path, false), impatient(&path, true)]);
            let found = content(&readers[0]).expect(name);
            let was_old = found == old;
            let (again, expected) = (readers.clone(), found.clone());
            on_step(Some(Box::new(move || {
                for reader in &*again {
                    assert_eq!(content(reader).expect(name), expected, "{name}, {steps}");
                }
            })));
            let heir = Segment::open(&path, true).expect("the same store");
            heir.recover().expect("a recovery");
            on_step(None);
            assert_eq!(content(&heir).expect("a read"), found, "{name}, {steps}");
            assert_eq!(content(&readers[1]).expect("a read") == old, was_old);
        }
    }
}

/// A reader that is rejected because of a mark can find the marked shard, even if a process died
/// while removing the mark.
#[test]
fn a_mark_that_blocks_readers_is_found_at_every_step_of_its_removal() {
    let mut kept_out = 0;
    for steps in 0.. {
        let (_directory, path, writer) = create();
        let mark = |bits| {
            writer.write(ShardSet::one(1), |transaction| {
                transaction.set_mark(1, bits)
            })
        };
        mark(1).expect("room");
        // This process ignores the mark permanently, so that it can write.
        writer.looked_after(1, 0);
        if die_after(steps, || mark(0).expect("room")).is_some() {
            break;
        }
        writer.abandon();
        for reader in [impatient(&path, false), impatient(&path, true)] {
            match content(&reader) {
                Err(Error::Marked) => {
                    assert!(reader.needs_look(1), "dead after {steps} steps");
                    kept_out += 1;
                }
                found => assert!(found.is_ok() && !reader.needs_look(1), "{found:?}"),
            }
            assert!(!reader.needs_look(0));
        }
    }
    assert!(kept_out >= 6, "{kept_out} times");
}

/// A writer in another thread that performs one step of a change each time it is told to.
struct Stepper {
    go: mpsc::Sender<Step>,
    done: mpsc::Receiver<()>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Set(u64, u64),
    Savepoint,
    Back,
    Commit,
}

impl Stepper {
    fn start(segment: Segment) -> (Stepper, std::thread::JoinHandle<()>) {
        let (go, steps) = mpsc::channel();
        let (say, done) = mpsc::channel();
        let steps = std::sync::Mutex::new(steps);
        let thread = std::thread::spawn(move || {
            segment
                .write(ShardSet::one(0), |transaction| {
                    let block = at(transaction, 0);
                    let mut savepoint = None;
                    let steps = steps.lock().expect("its own");
                    while let Ok(step) = steps.recv() {
                        match step {
                            Step::Set(word, value) => {
                                transaction.store(0, block + word * 8, value)?;
                            }
                            Step::Savepoint => savepoint = Some(transaction.savepoint()),
                            Step::Back => {
                                let savepoint = savepoint.as_ref().expect("one was made");
                                transaction.roll_back_to(savepoint)?;
                            }
                            Step::Commit => return Ok(()),
                        }
                        say.send(()).expect("the test waits");
                    }
                    Ok::<_, Error>(())
                })
                .expect("room");
            say.send(()).expect("the test waits");
        });
        (Stepper { go, done }, thread)
    }

    fn step(&self, step: Step) {
        self.go.send(step).expect("the writer waits");
        self.done.recv().expect("the writer continues");
    }
}

/// Reads the words of the block in shard 0. In the first attempt, the writer performs steps just
/// before heap access number `look`. Returns the words read and the number of attempts.
fn read_meanwhile(look: u64, first: &[Step], then: &'static [Step]) -> (Vec<u64>, u64) {
    let (_directory, path, writer) = create();
    let reader = impatient(&path, false);
    let (stepper, thread) = Stepper::start(writer);
    first.iter().for_each(|step| stepper.step(*step));
    let stepper = Arc::new(std::sync::Mutex::new(stepper));
    let also = stepper.clone();
    let (looks, tries) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let count = tries.clone();
    reader.interrupt_reads(Some(Box::new(move |moment| match moment {
        Moment::Tried => {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Moment::Looking => {
            if looks.fetch_add(1, Ordering::Relaxed) == look {
                let stepper = also.lock().expect("one at a time");
                then.iter().for_each(|step| stepper.step(*step));
            }
        }
    })));
    let found = reader.read(ShardSet::one(0), |view| {
        let at = view.root(0, 0);
        (0..4)
            .map(|word| Ok::<_, Error>(view.word(at + word * 8)?))
            .collect::<Result<Vec<u64>, Error>>()
    });
    reader.interrupt_reads(None);
    let stepper = stepper.lock().expect("one at a time");
    if !then.iter().any(|step| matches!(step, Step::Commit)) {
        stepper.step(Step::Commit);
    }
    thread.join().expect("no panic");
    (found.expect("a read"), tries.load(Ordering::Relaxed))
}

#[test]
fn only_a_change_of_words_that_are_read_causes_a_retry() {
    use Step::{Back, Commit, Savepoint, Set};
    // The first access reads the root, and the following accesses read the words of the block.
    for look in 1..5 {
        // Changing words that were changed before, or that are never read, causes no retry.
        for quiet in [
            &[Set(0, 8)] as &'static [Step],
            &[Set(20, 8), Set(21, 9)],
            &[Set(0, 2), Set(0, 3)],
        ] {
            let (found, tries) = read_meanwhile(look, &[Set(0, 7)], quiet);
            assert_eq!((found, tries), (vec![0; 4], 1), "{look} {quiet:?}");
        }
        // Changing a word that was read or will be read causes a retry.
        let (found, tries) = read_meanwhile(look, &[Set(0, 7)], &[Set(2, 8)]);
        assert_eq!((found, tries), (vec![0; 4], 2), "{look}");
        // After the rollback, the log grows to the same length again, but with different content.
        let before = [Set(0, 7), Savepoint, Set(1, 7)];
        let (found, tries) = read_meanwhile(look, &before, &[Back, Set(2, 8)]);
        assert_eq!((found, tries), (vec![0; 4], 2), "{look}");
        let (found, tries) = read_meanwhile(look, &before, &[Back, Set(2, 8), Set(3, 8)]);
        assert_eq!((found, tries), (vec![0; 4], 2), "{look}");
        // If the change ends, the read is retried.
        let (found, tries) = read_meanwhile(look, &[Set(0, 7), Set(1, 7)], &[Commit]);
        assert_eq!((found, tries), (vec![7, 7, 0, 0], 2), "{look}");
    }
}

/// The log of a dead or stopped writer may be damaged. At worst, readers get an error.
#[test]
fn reading_through_a_damaged_log_is_safe() {
    use std::os::unix::fs::FileExt;
    use undercroft_memory::layout::{Layout, shard};
    let seed = std::env::var("UNDERCROFT_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let layout = Layout::new(4, 16 << 20, 1 << 20);
    for _ in 0..300 {
        let (_directory, path, writer) = create();
        let died = die_after(40, || change(&writer, CHANGES[0].1).expect("room"));
        assert!(died.is_none());
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("the store");
        let words = [shard::LOG_OWNER, shard::LOG_NUMBER, shard::LOG_TAIL];
        for _ in 0..random.usize(1..4) {
            let place = match random.bool() {
                true => words[random.usize(..words.len())],
                false => shard::LOG + random.u64(0..40) * 8,
            };
            let value = match random.u8(0..4) {
                0 => random.u64(..),
                1 => random.u64(0..600) * 8,
                2 => random.u64(0..4) << 56 | random.u64(0..100),
                _ => layout.heap + random.u64(0..200_000) * 8,
            };
            let at = layout.shard(random.usize(..SHARDS)) + place;
            file.write_all_at(&value.to_le_bytes(), at).expect("room");
        }
        for write in [false, true] {
            let reader = impatient(&path, write);
            // The result may be right, wrong or an error, because the file is damaged.
            let _ = (content_if_sound(&reader), each_if_sound(&reader));
        }
    }
}

fn content_if_sound(segment: &Segment) -> Result<Vec<u64>, Error> {
    segment.read(all(), |view| {
        (0..SHARDS)
            .map(|shard| Ok(view.word(view.root(shard, 0))?))
            .collect()
    })
}

fn each_if_sound(segment: &Segment) -> Result<Vec<u64>, Error> {
    (0..SHARDS)
        .map(|shard| {
            segment.read(ShardSet::one(shard), |view| {
                let mut bytes = Vec::new();
                view.append_to(view.root(shard, 0), WORDS * 8, &mut bytes)?;
                Ok(bytes.len() as u64)
            })
        })
        .collect()
}
