//! Processes that are stopped or killed while they write the journal. The calls of other processes
//! must end in time, with an error that names the stopped process (M6). No change may be lost when
//! the process continues, or when another one takes over.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, io};

use fastrand::Rng;
use undercroft_memory::fault::on_step;
use undercroft_memory::{
    Disk, DiskFile, Durability, Error, Holder, Initially, JournalTerms, Options, Segment,
    local_disk,
};

use crate::child::{Child, Role, listen, say};
use crate::deaths::compare;
use crate::store::{OPTIONS, OwnDisk, change, content, create, create_journaled, put};

/// The environment variable with the step at which a child waits for its parent.
const STEP: &str = "UNDERCROFT_STEP";
/// A timeout that is enough to find out that a process is stopped.
const IMPATIENT: Duration = Duration::from_millis(100);
/// The seed of a child's changes.
const SEED: u64 = 7;

pub(crate) const ROLES: &[Role] = &[
    ("sync", sync),
    ("checkpoint", checkpoint),
    ("write", write),
    ("begin", begin),
];

/// A disk on which opening the first file waits for the parent process.
struct HaltingDisk(Arc<AtomicBool>);

impl Disk for HaltingDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        if self.0.swap(false, Ordering::Relaxed) {
            say("halted");
            listen();
        }
        local_disk().open(path, create)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        local_disk().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        local_disk().remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        local_disk().list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        local_disk().sync_directory(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        local_disk().create_directory(directory)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn another_handle(&self) -> Box<dyn Disk> {
        local_disk()
    }
}

/// Opens a store whose journal no other thread of this process syncs.
fn open(path: &Path) -> Segment {
    let mut segment = Segment::open(path, true).expect("a store");
    segment.set_disk(Box::new(OwnDisk(local_disk())));
    segment
}

/// Runs an operation in a child. At the step that the parent selects, the child waits for the parent,
/// which stops or kills it there.
fn halting<R>(operation: impl FnOnce() -> R) -> R {
    let step = std::env::var(STEP).expect("a step");
    let mut left: u64 = step.parse().expect("a number");
    on_step(Some(Box::new(move || {
        if left == 0 {
            say("halted");
            listen();
        }
        left = left.wrapping_sub(1);
    })));
    let result = operation();
    on_step(None);
    result
}

fn make_changes(segment: &Segment, count: usize) {
    let mut random = Rng::with_seed(SEED);
    for _ in 0..count {
        change(segment, &mut random).expect("a change");
    }
}

/// Makes changes durable, as the journal's writer.
fn sync(path: &Path) {
    let segment = open(path);
    make_changes(&segment, 40);
    halting(|| segment.make_durable()).expect("a durable journal");
    say("done");
}

/// Writes a checkpoint.
fn checkpoint(path: &Path) {
    let segment = open(path);
    make_changes(&segment, 10);
    halting(|| segment.checkpoint()).expect("a checkpoint");
    say("done");
}

/// Opens a store on a disk that waits for the parent process. The flag is false once it has waited.
fn open_halting(path: &Path) -> (Segment, Arc<AtomicBool>) {
    let mut segment = Segment::open(path, true).expect("a store");
    let waits = Arc::new(AtomicBool::new(true));
    segment.set_disk(Box::new(HaltingDisk(Arc::clone(&waits))));
    (segment, waits)
}

/// Waits for the parent process as the journal's writer, which has a part of the folder's lock.
fn write(path: &Path) {
    let (segment, waits) = open_halting(path);
    // Another thread of this process may be the writer for a moment.
    while waits.load(Ordering::Relaxed) {
        put(&segment, 1, 1, 64, 1).expect("a change");
        segment.make_durable().expect("a durable journal");
    }
    say("done");
}

/// Waits for the parent process during the first checkpoint, with the folder's lock.
fn begin(path: &Path) {
    let (segment, _) = open_halting(path);
    let folder = path.with_extension("journal");
    segment
        .begin_journal(&folder, Durability::EverySecond, &OPTIONS)
        .expect("a journal");
    say("done");
}

fn start(role: &str, step: u64, path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.env(STEP, step.to_string());
    Child::start_by(command, role, path)
}

/// Lets a stopped child complete its operation.
fn continue_to_the_end(mut child: Child) {
    child.signal(libc::SIGCONT);
    child.tell();
    child.expect("done");
    child.finish();
}

/// Returns whether a call was successful. Panics if it failed for another reason than that the
/// process is stopped.
fn is_done<R>(result: Result<R, Error>, stopped: u32, context: &str) -> bool {
    match result {
        Ok(_) => true,
        Err(Error::Busy { holder, pid }) => {
            assert_eq!((holder, pid), (Holder::Stopped, stopped), "{context}");
            false
        }
        Err(error) => panic!("{context}: {error}"),
    }
}

/// How a halted child ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The child is stopped, and continues later.
    Stopped,
    /// The child is killed.
    Killed,
}

/// The numbers of steps at which calls of the test's process had to fail.
#[derive(Debug, Default)]
struct Failed {
    steps: u64,
    changes: u32,
    syncs: u32,
    checkpoints: u32,
}

/// Halts a child at every step of its role, and uses the store in the meantime.
fn halt_everywhere(role: &str, end: End) -> Failed {
    let mut failed = Failed::default();
    for step in 0.. {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let (mut segment, folder) = create_journaled(directory.path());
        segment.set_disk(Box::new(OwnDisk(local_disk())));
        let mut child = start(role, step, &directory.path().join("store"));
        let pid = child.pid();
        let context = format!("{role}, {end:?} at step {step}");
        if child.next().as_deref() == Some("done") {
            child.finish();
            failed.steps = step;
            return failed;
        }
        let make = |mark| put(&segment, 0, 0, 64, mark);
        match end {
            End::Stopped => {
                child.stop();
                let before = segment.patience();
                segment.set_patience(IMPATIENT);
                // A change that does not fit into the ring.
                is_done(put(&segment, 0, 1, 2_000_000, 1), pid, &context);
                failed.changes += u32::from(!is_done(make(step + 1), pid, &context));
                let head = segment.journal_head();
                let synced = segment.wait_until_durable(head, IMPATIENT);
                failed.syncs += u32::from(!is_done(synced, pid, &context));
                let written = segment.checkpoint();
                failed.checkpoints += u32::from(!is_done(written, pid, &context));
                segment.set_patience(before);
                continue_to_the_end(child);
            }
            End::Killed => child.kill(),
        }
        make(step + 2).expect(&context);
        segment.make_durable().expect(&context);
        segment.checkpoint().expect(&context);
        make(step + 3).expect(&context);
        compare(directory.path(), &folder, &segment, &context);
    }
    unreachable!("the loop ends when the child is not halted")
}

#[test]
fn stopped_writer_is_named_and_loses_nothing() {
    let failed = halt_everywhere("sync", End::Stopped);
    println!("{failed:?}");
    // The calls need only the files, except at the few steps at which the child holds a lock.
    assert!(failed.syncs > 5 && failed.changes < failed.syncs);
}

#[test]
fn killed_writer_is_replaced() {
    assert!(halt_everywhere("sync", End::Killed).steps > 5);
}

#[test]
fn stopped_checkpoint_is_named_and_delays_no_change() {
    let failed = halt_everywhere("checkpoint", End::Stopped);
    println!("{failed:?}");
    assert!(failed.checkpoints > 5 && failed.changes < failed.checkpoints);
}

#[test]
fn killed_checkpoint_is_replaced() {
    assert!(halt_everywhere("checkpoint", End::Killed).steps > 5);
}

/// A store whose journal a stopped child is writing.
struct Stopped {
    directory: tempfile::TempDir,
    segment: Segment,
    folder: PathBuf,
    child: Child,
    pid: u32,
}

impl Stopped {
    fn writing(durability: Durability) -> Stopped {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let (segment, folder) = create_journaled(directory.path());
        segment.set_durability(durability).expect("a journal");
        drop(segment);
        let segment = open(&directory.path().join("store"));
        make_changes(&segment, 10);
        let mut child = start("write", 0, &directory.path().join("store"));
        child.expect("halted");
        child.stop();
        Stopped {
            pid: child.pid(),
            directory,
            segment,
            folder,
            child,
        }
    }

    /// Returns whether a text says that the child is stopped.
    fn is_named_in(&self, text: &str) -> bool {
        text.contains(&format!("process {} holds", self.pid)) && text.contains("is stopped")
    }

    /// Continues the child, and checks that nothing was lost.
    fn resume(self) {
        continue_to_the_end(self.child);
        put(&self.segment, 0, 1, 64, 1).expect("a change");
        // Stores are recovered in this mode.
        let mode = self.segment.set_durability(Durability::EverySecond);
        mode.expect("a journal");
        self.segment.make_durable().expect("a durable journal");
        compare(self.directory.path(), &self.folder, &self.segment, "later");
    }
}

#[test]
fn call_with_always_fails_with_the_name_of_a_stopped_writer() {
    let stopped = Stopped::writing(Durability::Always);
    let error = put(&stopped.segment, 0, 0, 64, 5).expect_err("a stopped writer");
    let text = error.to_string();
    assert!(matches!(error, Error::Journal { .. }), "{error:?}");
    assert!(
        stopped.is_named_in(&text) && text.contains("not durable yet"),
        "{text}"
    );
    let (length, mark) = content(&stopped.segment)[&(0, 0)];
    assert_eq!((length, mark), (64, 5), "the change was made");
    stopped.resume();
}

#[test]
fn changes_go_on_until_the_ring_of_a_stopped_writer_is_full() {
    let stopped = Stopped::writing(Durability::EverySecond);
    stopped.segment.set_patience(IMPATIENT);
    let made = (0..).take_while(|&mark| {
        let put = put(&stopped.segment, 0, 0, 50_000, mark + 1);
        is_done(put, stopped.pid, "a full ring")
    });
    let made = made.count();
    assert!((5..25).contains(&made), "{made} changes of a ring of 1 MiB");
    let text = put(&stopped.segment, 0, 0, 50_000, 1).expect_err("a full ring");
    assert!(stopped.is_named_in(&text.to_string()), "{text}");
    stopped.segment.set_patience(Duration::from_secs(5));
    stopped.resume();
}

#[test]
fn change_that_enlarges_the_ring_names_a_stopped_writer() {
    let stopped = Stopped::writing(Durability::EverySecond);
    stopped.segment.set_patience(IMPATIENT);
    let enlarged = put(&stopped.segment, 0, 0, 2_000_000, 1);
    assert!(!is_done(enlarged, stopped.pid, "a longer ring"));
    stopped.segment.set_patience(Duration::from_secs(5));
    put(&stopped.segment, 0, 0, 64, 1).expect("room in the ring");
    stopped.resume();
}

#[test]
fn journal_that_a_stopped_process_writes_is_not_ended() {
    let stopped = Stopped::writing(Durability::EverySecond);
    stopped.segment.set_patience(IMPATIENT);
    assert!(!is_done(
        stopped.segment.end_journal(),
        stopped.pid,
        "its end"
    ));
    assert_eq!(stopped.segment.durability(), Durability::EverySecond);
    stopped.segment.set_patience(Duration::from_secs(5));
    stopped.resume();
}

fn terms(folder: &Path) -> JournalTerms {
    JournalTerms {
        folder: folder.into(),
        durability: Some(Durability::EverySecond),
        options: OPTIONS,
    }
}

#[test]
fn recovery_names_a_stopped_writer_and_replaces_a_killed_one() {
    let mut stopped = Stopped::writing(Durability::Always);
    let expected = content(&stopped.segment);
    let path = stopped.directory.path().join("store");
    fs::remove_file(&path).expect("it exists");
    let terms = terms(&stopped.folder);
    let opened =
        || Segment::open_with_journal(&path, &Options::default(), Initially::default(), &terms);
    let error = opened().err().expect("a stopped writer").to_string();
    assert!(stopped.is_named_in(&error), "{error}");
    stopped.child.kill();
    let opened = opened().expect("a recovered store");
    assert!(opened.recovery.is_some());
    let mut found = content(&opened.segment);
    // The change of the child may have been durable.
    found.remove(&(1, 1));
    let mut expected = expected;
    expected.remove(&(1, 1));
    assert_eq!(found, expected);
}

/// Starts a child that begins a journal, and halts it during the first checkpoint.
fn beginning(directory: &Path) -> (Segment, Child) {
    let path = directory.join("store");
    let segment = create(&path);
    put(&segment, 0, 0, 64, 1).expect("a change");
    let mut child = start("begin", 0, &path);
    child.expect("halted");
    (segment, child)
}

#[test]
fn process_that_is_stopped_with_the_lock_of_the_folder_is_named() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let (segment, child) = beginning(directory.path());
    child.stop();
    let folder = directory.path().join("store.journal");
    let begun = segment.begin_journal(&folder, Durability::EverySecond, &OPTIONS);
    let text = begun.expect_err("a stopped process").to_string();
    let named = format!("process {} holds the lock", child.pid());
    assert!(
        text.contains(&named) && text.contains("is stopped"),
        "{text}"
    );
    continue_to_the_end(child);
    segment.make_durable().expect("a durable journal");
    compare(directory.path(), &folder, &segment, "later");
}

#[test]
fn first_checkpoint_is_repeated_after_the_death_of_its_process() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let (segment, mut child) = beginning(directory.path());
    child.kill();
    let age = || segment.journal().expect("a journal").checkpoint_age;
    assert_eq!(age(), None);
    // The thread of this process that syncs the journal begins the checkpoint.
    put(&segment, 0, 0, 64, 2).expect("a change");
    while age().is_none() {
        std::thread::yield_now();
    }
    segment.make_durable().expect("a durable journal");
    let folder = directory.path().join("store.journal");
    compare(directory.path(), &folder, &segment, "later");
}
