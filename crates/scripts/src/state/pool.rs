//! Memory of an interpreter.
//!
//! Lua makes and frees small blocks all the time, and frees them in crowds. They are cut from chunks, by sizes, and go
//! onto a list of their size when they are freed: a few instructions each. The chunks are given back with the
//! interpreter. What is larger is the system's.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sizes of small blocks are multiples of this, and so are their addresses.
const GRAIN: usize = 16;
/// The largest small block. Where code is fuzzed there are none, so that a sanitizer knows where each block ends.
const SMALL_MAX: usize = if cfg!(fuzzing) { 0 } else { 512 };
/// Bytes of a chunk.
const CHUNK: usize = 16 * 1024;

/// Bytes in use by the pools of all threads, as each published it last.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Bytes in use by the interpreters of all threads, after the last script of each.
pub(crate) fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// Where an interpreter's memory comes from, and how much it has taken.
pub(crate) struct Pool {
    /// Freed blocks of each size; in the first word of each is the next one.
    free: [Cell<*mut u8>; SMALL_MAX / GRAIN],
    chunks: Cell<Vec<*mut u8>>,
    /// What is left of the last chunk.
    next: Cell<*mut u8>,
    left: Cell<usize>,
    /// Bytes that are in use.
    pub(crate) used: Cell<usize>,
    /// Bytes in use elsewhere that count, too.
    pub(crate) extra: Cell<usize>,
    /// Bytes that may be.
    pub(crate) limit: Cell<usize>,
    /// The part of [`IN_USE`] that is this pool's.
    published: Cell<usize>,
}

const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK, GRAIN) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

/// The number of a small block's size.
fn size_class(size: usize) -> usize {
    (size - 1) / GRAIN
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool {
            free: [const { Cell::new(null_mut()) }; SMALL_MAX / GRAIN],
            chunks: Cell::default(),
            next: Cell::new(null_mut()),
            left: Cell::new(0),
            used: Cell::new(0),
            extra: Cell::new(0),
            limit: Cell::new(usize::MAX),
            published: Cell::new(0),
        }
    }

    /// Whether a block of so many bytes can be had.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let taken = self.used.get().saturating_add(self.extra.get());
        taken.saturating_add(bytes) <= self.limit.get()
    }

    /// Brings the sum over all threads up to date.
    pub(crate) fn publish(&self) {
        self.publish_as(self.used.get());
    }

    fn publish_as(&self, used: usize) {
        // The sum wraps around on its way, and ends where it belongs.
        IN_USE.fetch_add(used.wrapping_sub(self.published.get()), Ordering::Relaxed);
        self.published.set(used);
    }

    /// Gives, resizes and takes back a block, as `lua_Alloc` does: null where there is no memory, and then the block
    /// stays as it is.
    ///
    /// # Safety
    /// `place` is null, or a block of this pool of `old` bytes.
    #[inline]
    pub(super) unsafe fn resize(&self, place: *mut u8, old: usize, new: usize) -> *mut u8 {
        if new == 0 {
            if !place.is_null() {
                // SAFETY: as the caller says.
                unsafe { self.give_back(place, old) };
                self.used.set(self.used.get() - old);
            }
            return null_mut();
        }
        if !place.is_null() {
            // SAFETY: as the caller says.
            return unsafe { self.move_block(place, old, new) };
        }
        if new > BLOCK_MAX || !self.has_room(new) {
            return null_mut();
        }
        let found = self.take(new);
        if !found.is_null() {
            self.used.set(self.used.get() + new);
        }
        found
    }

    /// Resizes a block.
    ///
    /// # Safety
    /// `place` is a block of this pool of `old` bytes, and `new` is not 0.
    #[inline(never)]
    unsafe fn move_block(&self, place: *mut u8, old: usize, new: usize) -> *mut u8 {
        if new > BLOCK_MAX || new > old && !self.has_room(new - old) {
            return null_mut();
        }
        let (was_small, is_small) = (old <= SMALL_MAX, new <= SMALL_MAX);
        let found = if was_small && is_small && size_class(old) == size_class(new) {
            place
        } else if !was_small && !is_small {
            // SAFETY: `take` has it from `alloc`, with this layout; `new` is not 0 and not too large.
            unsafe { realloc(place, large_layout(old), new) }
        } else {
            let found = self.take(new);
            if !found.is_null() {
                // SAFETY: the blocks are of these sizes at least, and are not the same.
                unsafe {
                    place.copy_to_nonoverlapping(found, old.min(new));
                    self.give_back(place, old);
                }
            }
            found
        };
        if !found.is_null() {
            self.used.set(self.used.get() - old + new);
        }
        found
    }

    /// A block of so many bytes, at least one; null where there is no memory.
    #[inline]
    fn take(&self, size: usize) -> *mut u8 {
        if size > SMALL_MAX {
            return take_large(size);
        }
        let free = &self.free[size_class(size)];
        let first = free.get();
        if first.is_null() {
            return self.cut(size);
        }
        // SAFETY: in the first word of a free block is the next one.
        free.set(unsafe { first.cast::<*mut u8>().read() });
        first
    }

    /// Cuts a small block from the last chunk, or a new one.
    #[inline(never)]
    fn cut(&self, size: usize) -> *mut u8 {
        let size = (size_class(size) + 1) * GRAIN;
        if self.left.get() < size && !self.add_chunk() {
            return null_mut();
        }
        let taken = self.next.get();
        // SAFETY: so much is left of the chunk.
        self.next.set(unsafe { taken.add(size) });
        self.left.set(self.left.get() - size);
        taken
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// It is one of this pool, of so many bytes, and nothing uses it any more.
    #[inline]
    unsafe fn give_back(&self, place: *mut u8, size: usize) {
        if size > SMALL_MAX {
            // SAFETY: as the caller says.
            return unsafe { give_back_large(place, size) };
        }
        let free = &self.free[size_class(size)];
        // SAFETY: a block has room for a pointer, and is aligned for it.
        unsafe { place.cast::<*mut u8>().write(free.get()) };
        free.set(place);
    }

    #[cold]
    fn add_chunk(&self) -> bool {
        // SAFETY: the layout is not empty.
        let chunk = unsafe { alloc(CHUNK_LAYOUT) };
        if chunk.is_null() {
            return false;
        }
        let mut chunks = self.chunks.take();
        chunks.push(chunk);
        self.chunks.set(chunks);
        self.next.set(chunk);
        self.left.set(CHUNK);
        true
    }
}

/// The largest block: the layout of a larger one could not be rounded up.
const BLOCK_MAX: usize = isize::MAX as usize - GRAIN;

/// The layout of a block that is not small, of [`BLOCK_MAX`] bytes at most.
fn large_layout(size: usize) -> Layout {
    match Layout::from_size_align(size, GRAIN) {
        Ok(layout) => layout,
        Err(_) => unreachable!("refused"),
    }
}

#[inline(never)]
fn take_large(size: usize) -> *mut u8 {
    // SAFETY: the layout is not empty.
    unsafe { alloc(large_layout(size)) }
}

/// Gives a block back to the system.
///
/// # Safety
/// [`take_large`] has given it, with this size, and nothing uses it any more.
#[inline(never)]
unsafe fn give_back_large(place: *mut u8, size: usize) {
    // SAFETY: as the caller says.
    unsafe { dealloc(place, large_layout(size)) };
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.publish_as(0);
        for chunk in self.chunks.take() {
            // SAFETY: it was made with this layout, and the interpreter that used it is closed.
            unsafe { dealloc(chunk, CHUNK_LAYOUT) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_bytes_and_are_counted() {
        let mut random = fastrand::Rng::with_seed(5);
        let pool = Pool::new();
        // Each block with its bytes, all of which are the same.
        let mut blocks: Vec<(*mut u8, usize, u8)> = Vec::new();
        for round in 0..20_000_u32 {
            let at = random.usize(..=blocks.len());
            let (place, old, byte) = match at < blocks.len() {
                true => blocks.swap_remove(at),
                false => (null_mut(), 0, 0),
            };
            let new = match random.u8(..4) {
                0 => 0,
                1 => random.usize(1..3 * SMALL_MAX),
                _ => random.usize(1..=SMALL_MAX),
            };
            // SAFETY: the blocks are the pool's, of the sizes they were last given, and filled.
            unsafe {
                let found = pool.resize(place, old, new);
                assert_eq!(found.is_null(), new == 0);
                if new == 0 {
                    continue;
                }
                assert_eq!(found.addr() % GRAIN, 0);
                for index in 0..old.min(new) {
                    assert_eq!(found.add(index).read(), byte);
                }
                found.write_bytes(round as u8, new);
                blocks.push((found, new, round as u8));
            }
        }
        assert_eq!(
            pool.used.get(),
            blocks.iter().map(|block| block.1).sum::<usize>()
        );
        pool.limit.set(pool.used.get());
        // SAFETY: nothing is given.
        assert!(unsafe { pool.resize(null_mut(), 0, 1) }.is_null());
        for (place, size, _) in blocks {
            // SAFETY: as above.
            unsafe { pool.resize(place, size, 0) };
        }
        assert_eq!(pool.used.get(), 0);
    }
}
