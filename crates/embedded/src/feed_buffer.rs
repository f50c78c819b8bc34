//! A buffer for each thread, for items of feeds on their way to the caller.

use std::cell::Cell;

use undercroft_engine::FoundItems;

/// Buffers up to this many bytes are kept for the next call.
const KEPT: usize = 64 * 1024;

thread_local! {
    static ITEMS: Cell<FoundItems> = const { Cell::new(FoundItems::new()) };
}

/// Lends a buffer of this thread's for items on their way to the caller, so that a call allocates nothing for them.
pub fn with_feed_buffer<R>(body: impl FnOnce(&mut FoundItems) -> R) -> R {
    // A thread that ends has no buffer any more; a call within a call has one of its own.
    let mut items = ITEMS.try_with(Cell::take).unwrap_or_default();
    let done = body(&mut items);
    if items.capacity() <= KEPT {
        items.clear();
        let _ = ITEMS.try_with(|kept| kept.set(items));
    }
    done
}
