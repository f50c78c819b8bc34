//! Allocates an interpreter's memory.
//!
//! Lua frequently allocates and frees small blocks. A small block is cut from a chunk. When the
//! block is freed, it is added to the free list for its size, which takes a few instructions.
//! Chunks are freed with the interpreter. Larger blocks come from the system allocator.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The granularity of small blocks, in bytes. Their sizes and addresses are multiples of it.
const GRAIN: usize = 16;
/// The size, in bytes, of the largest small block. Fuzzing builds have no small blocks, so that a
/// sanitizer knows where each block ends.
const SMALL_MAX: usize = if cfg!(fuzzing) { 0 } else { 512 };
/// The size of a chunk, in bytes.
const CHUNK: usize = 16 * 1024;

/// The total number of bytes in use by the pools of all threads, as of each pool's last `publish`.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of bytes in use by the interpreters of all threads. Each interpreter updates
/// the total after a script.
pub(crate) fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// An interpreter's allocator, which also tracks the memory in use.
pub(crate) struct Pool {
    /// The free lists by block size. The first word of a free block points to the next free block.
    free: [Cell<*mut u8>; SMALL_MAX / GRAIN],
    chunks: Cell<Vec<*mut u8>>,
    /// The start of the unused rest of the last chunk. `left` is its length in bytes.
    next: Cell<*mut u8>,
    left: Cell<usize>,
    /// The number of bytes in use by Lua.
    pub(crate) used: Cell<usize>,
    /// The number of bytes in use outside Lua that count toward the limit.
    pub(crate) extra: Cell<usize>,
    /// The maximum number of bytes in use.
    pub(crate) limit: Cell<usize>,
    /// This pool's share of [`IN_USE`].
    published: Cell<usize>,
}

const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK, GRAIN) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

/// Returns the index of the free list for a small block of `size` bytes.
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

    /// Returns whether a block of this many bytes fits within the limit.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let taken = self.used.get().saturating_add(self.extra.get());
        taken.saturating_add(bytes) <= self.limit.get()
    }

    /// Adds the change in this pool's memory use to the total for all threads.
    pub(crate) fn publish(&self) {
        self.publish_as(self.used.get());
    }

    fn publish_as(&self, used: usize) {
        // The difference can wrap around, but the sum is still correct.
        IN_USE.fetch_add(used.wrapping_sub(self.published.get()), Ordering::Relaxed);
        self.published.set(used);
    }

    /// Allocates, resizes or frees a block, as `lua_Alloc` requires. Returns null if memory runs
    /// out, in which case the block is unchanged.
    ///
    /// # Safety
    /// `place` must be null or a block of `old` bytes from this pool.
    #[inline]
    pub(super) unsafe fn resize(&self, place: *mut u8, old: usize, new: usize) -> *mut u8 {
        if new == 0 {
            if !place.is_null() {
                // SAFETY: the caller guarantees that `place` is a block of `old` bytes from this
                // pool.
                unsafe { self.give_back(place, old) };
                self.used.set(self.used.get() - old);
            }
            return null_mut();
        }
        if !place.is_null() {
            // SAFETY: the caller guarantees that `place` is a block of `old` bytes from this pool,
            // and `new` is not 0.
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

    /// Resizes a block. Returns null if memory runs out, in which case the block is unchanged.
    ///
    /// # Safety
    /// `place` must be a block of `old` bytes from this pool, and `new` must not be 0.
    #[inline(never)]
    unsafe fn move_block(&self, place: *mut u8, old: usize, new: usize) -> *mut u8 {
        if new > BLOCK_MAX || new > old && !self.has_room(new - old) {
            return null_mut();
        }
        let (was_small, is_small) = (old <= SMALL_MAX, new <= SMALL_MAX);
        let found = if was_small && is_small && size_class(old) == size_class(new) {
            place
        } else if !was_small && !is_small {
            // SAFETY: `take` allocated the block with this layout, and `new` is neither 0 nor above
            // `BLOCK_MAX`.
            unsafe { realloc(place, large_layout(old), new) }
        } else {
            let found = self.take(new);
            if !found.is_null() {
                // SAFETY: the two blocks are distinct, and each is at least `old.min(new)` bytes
                // long.
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

    /// Allocates a block of `size` bytes, which must not be 0. Returns null if memory runs out.
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
        // SAFETY: the first word of a free block points to the next free block.
        free.set(unsafe { first.cast::<*mut u8>().read() });
        first
    }

    /// Cuts a small block from the last chunk or, if it is too short, from a new chunk.
    #[inline(never)]
    fn cut(&self, size: usize) -> *mut u8 {
        let size = (size_class(size) + 1) * GRAIN;
        if self.left.get() < size && !self.add_chunk() {
            return null_mut();
        }
        let taken = self.next.get();
        // SAFETY: at least `size` bytes of the chunk are unused.
        self.next.set(unsafe { taken.add(size) });
        self.left.set(self.left.get() - size);
        taken
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `place` must be a block of `size` bytes from this pool that is no longer used.
    #[inline]
    unsafe fn give_back(&self, place: *mut u8, size: usize) {
        if size > SMALL_MAX {
            // SAFETY: the caller guarantees that `place` is an unused block of `size` bytes from
            // this pool.
            return unsafe { give_back_large(place, size) };
        }
        let free = &self.free[size_class(size)];
        // SAFETY: every block is large enough for a pointer and aligned for it.
        unsafe { place.cast::<*mut u8>().write(free.get()) };
        free.set(place);
    }

    #[cold]
    fn add_chunk(&self) -> bool {
        // SAFETY: the size of the layout is not 0.
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

/// The size, in bytes, of the largest block. A larger layout cannot be rounded up to its alignment.
const BLOCK_MAX: usize = isize::MAX as usize - GRAIN;

/// Returns the layout of a large block of `size` bytes, at most [`BLOCK_MAX`].
fn large_layout(size: usize) -> Layout {
    match Layout::from_size_align(size, GRAIN) {
        Ok(layout) => layout,
        Err(_) => unreachable!("refused"),
    }
}

#[inline(never)]
fn take_large(size: usize) -> *mut u8 {
    // SAFETY: the size of the layout is not 0.
    unsafe { alloc(large_layout(size)) }
}

/// Returns a block to the system allocator.
///
/// # Safety
/// [`take_large`] must have allocated the block with this size, and the block must no longer be
/// used.
#[inline(never)]
unsafe fn give_back_large(place: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that `take_large` allocated the block with this size.
    unsafe { dealloc(place, large_layout(size)) };
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.publish_as(0);
        for chunk in self.chunks.take() {
            // SAFETY: the chunk was allocated with this layout, and the interpreter that used it
            // has been closed.
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
        // The addresses and sizes of the blocks, and the byte that fills each block.
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
            // SAFETY: the pool allocated these blocks with the recorded sizes, and the test filled
            // them.
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
        // SAFETY: a null pointer requests a new block.
        assert!(unsafe { pool.resize(null_mut(), 0, 1) }.is_null());
        for (place, size, _) in blocks {
            // SAFETY: the pool allocated these blocks with the recorded sizes.
            unsafe { pool.resize(place, size, 0) };
        }
        assert_eq!(pool.used.get(), 0);
    }
}
