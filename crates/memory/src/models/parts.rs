//! The building blocks of the models: a lock word with sleepers, a version counter, and the
//! exploration of broken variants.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Condvar, Mutex};

use crate::processes::lock::{self, Next, Surroundings, Word};
use crate::segment::counter::Version;

/// The bit of a lock word that is set while a thread may be asleep, as in `lock.rs`.
pub(super) const WAITERS: u32 = 1 << 31;

/// The defect of a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// A waiter that has slept acquires the lock without setting the waiters bit for other
    /// sleepers.
    ForgetsSleepers,
    /// A lock is seized with a plain store instead of a compare-and-swap.
    TakesOverBlindly,
    /// A lock is seized without checking whether the owner is alive.
    TakesOverByTime,
    /// A process that acquires the lock does not check the log.
    TrustsTheLock,
    /// The lock word does not distinguish successive claims of a slot.
    NoGenerations,
    /// The lock word is loaded with relaxed ordering and acquired without release ordering.
    RelaxedWord,
    /// The counter is made odd without a fence before the changes.
    NoFenceBeforeChanges,
    /// The reader checks the counter again without a fence.
    NoFenceAfterReading,
    /// The reader trusts its last attempt instead of acquiring the lock.
    NoFallback,
    /// A record is written before the writer announces which data it overwrites.
    AnnouncesLate,
    /// The publisher checks for sleepers without a fence after appending its message.
    NoFenceBeforeWaking,
    /// A thread goes to sleep without checking for new messages one last time.
    NoLastLook,
    /// A thread goes to sleep without setting its bit in the seat's word.
    SleepsUnseen,
    /// A reader checks the reference to a block without a fence after setting the pin.
    NoFenceBehindThePin,
    /// A writer that frees a block checks the pins without a fence beforehand.
    NoFenceBeforeLookingAtPins,
}

/// A lock word, with the kernel's queue of sleeping threads.
pub(super) struct Futex {
    pub(super) word: AtomicU32,
    queue: Mutex<()>,
    woken: Condvar,
    pub(super) broken: Broken,
}

impl Futex {
    pub(super) fn new(word: u32, broken: Broken) -> Futex {
        Futex {
            word: AtomicU32::new(word),
            queue: Mutex::new(()),
            woken: Condvar::new(),
            broken,
        }
    }

    /// Sleeps until woken, without a timeout. A lost wake therefore causes a deadlock.
    pub(super) fn wait(&self, value: u32) {
        let queue = self.queue.lock().expect("no panic");
        if self.word.load(Ordering::Relaxed) == value {
            drop(self.woken.wait(queue));
        }
    }

    pub(super) fn wake_all(&self) {
        let _queue = self.queue.lock().expect("no panic");
        self.woken.notify_all();
    }

    pub(super) fn wake_one(&self) {
        let _queue = self.queue.lock().expect("no panic");
        self.woken.notify_one();
    }

    pub(super) fn release(&self) {
        if lock::release(self) {
            self.wake_one();
        }
    }
}

impl Word for Futex {
    fn get(&self) -> u32 {
        self.word.load(match self.broken {
            Broken::RelaxedWord => Ordering::Relaxed,
            _ => Ordering::Acquire,
        })
    }

    fn replace(&self, old: u32, new: u32) -> bool {
        let order = match self.broken {
            Broken::RelaxedWord => Ordering::Acquire,
            Broken::TakesOverBlindly if old != lock::FREE => {
                self.word.swap(new, Ordering::AcqRel);
                return true;
            }
            _ => Ordering::AcqRel,
        };
        let new = match self.broken {
            Broken::ForgetsSleepers if old == lock::FREE => new & !WAITERS,
            _ => new,
        };
        let taken = self
            .word
            .compare_exchange(old, new, order, Ordering::Relaxed);
        taken.is_ok()
    }

    fn exchange(&self, new: u32) -> u32 {
        self.word.swap(new, Ordering::Release)
    }
}

/// A waiter that never times out.
pub(super) struct Patient;

impl Surroundings<Futex> for Patient {
    type Refusal = ();

    fn next(&mut self, _seen: u32) -> Next<()> {
        Next::Sleep
    }

    fn sleep(&mut self, word: &Futex, value: u32) {
        word.wait(value);
    }

    fn wake(&mut self, word: &Futex) {
        word.wake_one();
    }
}

/// A version counter whose fences can be omitted.
pub(super) struct Counter<const BEFORE: bool, const AFTER: bool>(pub(super) AtomicU64);

impl<const BEFORE: bool, const AFTER: bool> Version for Counter<BEFORE, AFTER> {
    fn get(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn put(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    fn fence(order: Ordering) {
        let kept = match order {
            Ordering::Release => BEFORE,
            _ => AFTER,
        };
        if kept {
            fence(order);
        }
    }
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The environment variable that tells a child process which broken variant to explore.
const CANARY: &str = "UNDERCROFT_CANARY";

/// Runs the correct model, then each broken variant, which must fail. Each variant runs in a
/// separate process, because some end in an abort.
pub(super) fn explore_with_canaries(test: &str, model: fn(Broken), canaries: &[Broken]) {
    if let Ok(name) = std::env::var(CANARY) {
        let wanted = |broken: &&Broken| format!("{broken:?}") == name;
        let &broken = canaries.iter().find(wanted).expect("a canary's name");
        explore(move || model(broken));
        return;
    }
    explore(move || model(Broken::Nothing));
    for broken in canaries {
        let name = format!("models::{test}");
        let program = std::env::current_exe().expect("this test");
        let output = std::process::Command::new(program)
            .args(["--exact", &name, "--nocapture"])
            .env(CANARY, format!("{broken:?}"))
            .output()
            .expect("a child");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let ran = String::from_utf8_lossy(&output.stdout).contains("running 1 test");
        assert!(ran, "there is a test {name}");
        assert!(!output.status.success(), "loom accepts {broken:?}");
        let expected = ["deadlock", "Causality violation", "a torn", "assertion"];
        assert!(
            expected.iter().any(|reason| said.contains(reason)),
            "{broken:?} fails for another reason: {said}"
        );
        println!("loom: {test}: {broken:?} is rejected");
    }
}
