//! Provides a thread-local buffer for items that are read from feeds.

use std::cell::Cell;

use undercroft_engine::ThreadCached;
use undercroft_engine::feeds::FoundItems;

/// The maximum size, in bytes, of a buffer that the next call reuses.
const KEPT: usize = 64 * 1024;

thread_local! {
    static ITEMS: Cell<FoundItems> = const { Cell::new(FoundItems::new()) };
}

/// Calls `body` with a thread-local buffer for feed items, which saves an allocation in each call.
pub fn with_feed_buffer<R>(body: impl FnOnce(&mut FoundItems) -> R) -> R {
    let mut items = ITEMS.take_cached();
    let done = body(&mut items);
    if items.capacity() <= KEPT {
        items.clear();
        ITEMS.put_back(items);
    }
    done
}
