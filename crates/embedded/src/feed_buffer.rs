//! A buffer for each thread that holds items of feeds on their way to the caller.

use std::cell::Cell;

use undercroft_engine::ThreadCached;
use undercroft_engine::feeds::FoundItems;

/// The maximum size in bytes of a buffer that is kept for the next call.
const KEPT: usize = 64 * 1024;

thread_local! {
    static ITEMS: Cell<FoundItems> = const { Cell::new(FoundItems::new()) };
}

/// Lends a thread-local buffer for items on their way to the caller, which saves an allocation for
/// each call.
pub fn with_feed_buffer<R>(body: impl FnOnce(&mut FoundItems) -> R) -> R {
    let mut items = ITEMS.take_cached();
    let done = body(&mut items);
    if items.capacity() <= KEPT {
        items.clear();
        ITEMS.put_back(items);
    }
    done
}
