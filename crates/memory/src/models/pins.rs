//! A loom model of pinning a block while another process frees it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::parts::{Broken, Counter, explore_with_canaries};
use crate::allocator::pins::{before_looking_at_pins, clear_pin, set_pin};
use crate::segment::counter::{self, Version};

/// A pin whose fence can be omitted.
struct Pin<const FENCED: bool>(AtomicU64);

impl<const FENCED: bool> Version for Pin<FENCED> {
    fn get(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn put(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    fn fence(order: Ordering) {
        if FENCED {
            fence(order);
        }
    }
}

/// A block, with the reference to it, its pin and its state.
struct Block<const PINNING: bool> {
    version: Counter<true, true>,
    refers: AtomicU64,
    pin: Pin<PINNING>,
    parked: AtomicU64,
    /// The number of times that the block has been freed. A freed block may be refilled
    /// immediately.
    freed: UnsafeCell<u64>,
}

impl<const PINNING: bool> Block<PINNING> {
    fn free(&self) {
        // SAFETY: loom checks that no other thread reads or frees the block at the same time.
        self.freed.with_mut(|freed| unsafe { *freed += 1 });
    }

    /// Removes the reference to the block and frees the block, in the same order as a transaction.
    fn unlink<const LOOKING: bool>(&self) {
        counter::make_odd(&self.version);
        counter::start_of_changes::<Counter<true, true>>();
        self.refers.store(0, Ordering::Relaxed);
        before_looking_at_pins::<Pin<LOOKING>>();
        let pinned = self.pin.get(Ordering::Acquire) != 0;
        if pinned {
            // In the real code, the shard's lock orders this store with the check in the reader
            // that unpins the block. In the model, an atomic exchange does.
            self.parked.swap(1, Ordering::AcqRel);
        }
        counter::make_even(&self.version);
        if !pinned {
            self.free();
        }
    }

    /// Reads the block in the same order as `Store::get_in_place`, and unpins it as
    /// `Segment::unpin` does.
    fn read(&self) {
        set_pin(&self.pin, 1);
        let noted = counter::note(&self.version);
        if counter::is_plain(noted) && self.refers.load(Ordering::Relaxed) == 1 {
            counter::end_of_reading::<Counter<true, true>>();
            if counter::unchanged(&self.version, noted) {
                // SAFETY: loom checks that no other thread frees the block during the access.
                self.freed
                    .with(|freed| unsafe { assert_eq!(*freed, 0, "it was freed") });
            }
        }
        clear_pin(&self.pin);
        if self.parked.swap(0, Ordering::AcqRel) == 1 {
            self.free();
        }
    }
}

fn freeing<const PINNING: bool, const LOOKING: bool>() {
    let block = Arc::new(Block::<PINNING> {
        version: Counter(AtomicU64::new(0)),
        refers: AtomicU64::new(1),
        pin: Pin(AtomicU64::new(0)),
        parked: AtomicU64::new(0),
        freed: UnsafeCell::new(0),
    });
    let writer = {
        let block = block.clone();
        thread::spawn(move || block.unlink::<LOOKING>())
    };
    block.read();
    writer.join().expect("no panic");
    // Upkeep frees a block that was parked after the reader's last check.
    if block.parked.swap(0, Ordering::AcqRel) == 1 {
        block.free();
    }
    // SAFETY: all other threads have been joined.
    block.freed.with(|freed| unsafe { assert_eq!(*freed, 1) });
}

#[test]
fn a_block_is_freed_once_and_never_while_it_is_read_in_place() {
    let model = |broken| match broken {
        Broken::NoFenceBehindThePin => freeing::<false, true>(),
        Broken::NoFenceBeforeLookingAtPins => freeing::<true, false>(),
        _ => freeing::<true, true>(),
    };
    explore_with_canaries(
        "pins::a_block_is_freed_once_and_never_while_it_is_read_in_place",
        model,
        &[
            Broken::NoFenceBehindThePin,
            Broken::NoFenceBeforeLookingAtPins,
        ],
    );
}
