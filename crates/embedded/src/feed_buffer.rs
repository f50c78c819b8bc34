//! A buffer for each thread, for items of feeds on their way to the caller.

use std::cell::Cell;

use undercroft_engine::ThreadCached;
use undercroft_engine::feeds::FoundItems;

/// Buffers up to this many bytes are kept for the next call.
const KEPT: usize = 64 * 1024;

thread_local! {
    static ITEMS: Cell<FoundItems> = const { Cell::new(FoundItems::new()) };
}

/// Lends a buffer of this thread's for items on their way to the caller, so that a call allocates nothing for them.
pub fn with_feed_buffer<R>(body: impl FnOnce(&mut FoundItems) -> R) -> R {
    let mut items = ITEMS.take_cached();
    let done = body(&mut items);
    if items.capacity() <= KEPT {
        items.clear();
        ITEMS.put_back(items);
    }
    done
}
