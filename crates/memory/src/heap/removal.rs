//! The reserve for removals (H6): a full store can always let go of what is in it.
//!
//! Some pages of the heap, and the first bytes of every undo log, are backed by memory that only removals use. A thread
//! says that it removes by a guard. A removal whose log cannot grow is carried out in parts, each of which is committed by
//! itself.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::mapped::layout::Layout;

/// The most extents that are kept for removals. Whole ones, as a removal may want a run of several pages.
const RESERVED_EXTENTS: u64 = 2;
/// At most such a part of the store is kept, and one extent at least.
const RESERVED_PART: u64 = 32;

thread_local! {
    /// What this thread is doing.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Ordinary) };
    /// Parts that this thread has committed since it began to remove.
    static PARTS: Cell<u64> = const { Cell::new(0) };
}

/// Whether a thread may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Ordinary,
    Removing,
}

/// Ends what [`removing`] or `not_removing` began, when it is dropped.
#[must_use]
#[derive(Debug)]
pub struct Removing {
    before: Mode,
    /// It belongs to its thread.
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

/// Says that this thread removes data until the guard is dropped: its transactions may use the reserve (H6), and one that
/// runs out of log is carried out in parts.
#[inline]
pub fn removing() -> Removing {
    let guard = Removing::begin(Mode::Removing);
    if guard.before == Mode::Ordinary {
        PARTS.set(0);
    }
    guard
}

/// Says that this thread adds data until the guard is dropped, although it is [removing].
#[inline]
pub(crate) fn not_removing() -> Removing {
    Removing::begin(Mode::Ordinary)
}

/// Whether this thread removes data.
#[inline]
pub fn is_removing() -> bool {
    MODE.get() == Mode::Removing
}

/// Whether a removal of this thread was committed in part since it began: it must not run again.
#[inline]
pub fn has_removed_in_part() -> bool {
    is_removing() && PARTS.get() > 0
}

/// Notes that this thread begins to commit a removal in parts.
pub(crate) fn begin_parts() {
    PARTS.set(0);
}

/// Notes that this thread has committed a part of a removal.
pub(crate) fn count_part() {
    PARTS.set(PARTS.get() + 1);
}

/// Extents of a store that only removals break.
pub(crate) fn reserved_extents(layout: &Layout) -> u64 {
    (layout.extents / RESERVED_PART).clamp(1, RESERVED_EXTENTS)
}
