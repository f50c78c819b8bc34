//! The reserve for removals (H6), which makes it possible to remove all data even from a full
//! store.
//!
//! Some extents of the heap and the first bytes of every undo log are backed with memory that only
//! removals may use. A thread holds a guard while it removes data. A removal whose log cannot grow
//! is committed in several parts.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::mapped::layout::Layout;

/// The maximum number of extents reserved for removals. The reserve consists of whole extents,
/// because a removal may need a run of several pages.
const RESERVED_EXTENTS: u64 = 2;
/// At most 1/`RESERVED_PART` of all extents are reserved for removals, but always at least one
/// extent.
const RESERVED_PART: u64 = 32;

thread_local! {
    /// Whether this thread is removing data.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Ordinary) };
    /// The number of parts that this thread has committed in its current removal.
    static PARTS: Cell<u64> = const { Cell::new(0) };
}

/// Whether a thread may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Ordinary,
    Removing,
}

/// A guard that restores the thread's previous mode when it is dropped. Returned by [`removing`]
/// and `not_removing`.
#[must_use]
#[derive(Debug)]
pub struct Removing {
    before: Mode,
    /// Makes the guard `!Send`, because the mode belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Removing {
    #[inline]
    fn begin(mode: Mode) -> Removing {
        Removing {
            before: MODE.replace(mode),
            thread: PhantomData,
        }
    }
}

impl Drop for Removing {
    #[inline]
    fn drop(&mut self) {
        MODE.set(self.before);
    }
}

/// Declares that this thread removes data until the guard is dropped. Its transactions may use the
/// reserve (H6), and a transaction whose log cannot grow is committed in parts.
#[inline]
pub fn removing() -> Removing {
    let guard = Removing::begin(Mode::Removing);
    if guard.before == Mode::Ordinary {
        PARTS.set(0);
    }
    guard
}

/// Declares that this thread adds data until the guard is dropped, even inside a [`removing`]
/// guard.
#[inline]
pub(crate) fn not_removing() -> Removing {
    Removing::begin(Mode::Ordinary)
}

/// Returns whether this thread is removing data.
#[inline]
pub fn is_removing() -> bool {
    MODE.get() == Mode::Removing
}

/// Returns whether this thread's current removal has committed a part, in which case it must not
/// run again.
#[inline]
pub fn has_removed_in_part() -> bool {
    is_removing() && PARTS.get() > 0
}

/// Records that this thread is about to commit a removal in parts.
pub(crate) fn begin_parts() {
    PARTS.set(0);
}

/// Records that this thread has committed a part of a removal.
pub(crate) fn count_part() {
    PARTS.set(PARTS.get() + 1);
}

/// Returns the number of a store's extents that only removals may use.
pub(crate) fn reserved_extents(layout: &Layout) -> u64 {
    (layout.extents / RESERVED_PART).clamp(1, RESERVED_EXTENTS)
}
