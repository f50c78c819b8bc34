//! An interpreter's memory.
//!
//! Lua constantly allocates and frees small blocks, many at a time. They are cut from chunks by
//! size, and a freed block goes onto the free list of its size, which takes a few instructions.
//! Chunks are freed with the interpreter. Larger blocks come from the system allocator.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sizes and addresses of small blocks are multiples of this.
const GRAIN: usize = 16;
/// The size of the largest small block. Fuzzing builds have no small blocks, so that a sanitizer
/// knows where each block ends.
const SMALL_MAX: usize = if cfg!(fuzzing) { 0 } else { 512 };
/// The size of a chunk, in bytes.
const CHUNK: usize = 16 * 1024;

/// Bytes in use by the pools of all threads, as last published by each.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Returns the bytes in use by the interpreters of all threads, each counted after its last script.
pub(crate) fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// An interpreter's allocator, which also counts the memory in use.
pub(crate) struct Pool {
    /// Free lists by block size. The first word of a free block points to the next one.
    free: [Cell<*mut u8>; SMALL_MAX / GRAIN],
    chunks: Cell<Vec<*mut u8>>,
    /// The unused rest of the last chunk.
    next: Cell<*mut u8>,
    left: Cell<usize>,
    /// Bytes in use.
    pub(crate) used: Cell<usize>,
    /// Bytes in use elsewhere that count toward the limit.
    pub(crate) extra: Cell<usize>,
    /// The maximum of bytes in use.
    pub(crate) limit: Cell<usize>,
    /// This pool's share of [`IN_USE`].
    published: Cell<usize>,
}

const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK, GRAIN) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

/// Returns the index of the free list for a small block's size.
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

    /// Publishes this pool's memory use to the total of all threads.
    pub(crate) fn publish(&self) {
        self.publish_as(self.used.get());
    }

    fn publish_as(&self, used: usize) {
        // The difference may wrap around, but the sum is correct.
        IN_USE.fetch_add(used.wrapping_sub(self.published.get()), Ordering::Relaxed);
        self.published.set(used);
    }

    /// Allocates, resizes or frees a block, as `lua_Alloc` does. Returns null if there is no
    /// memory, and then leaves the block unchanged.
    ///
    /// # Safety
    /// `place` must be null, or a block of this pool of `old` bytes.
    #[inline]
    pub(super) unsafe fn resize(&self, place: *mut u8, old: usize, new: usize) -> *mut u8 {
        if new == 0 {
            if !place.is_null() {
                // SAFETY: the caller guarantees that `place` is a block of this pool of `old`
                // bytes.
                unsafe { self.give_back(place, old) };
                self.used.set(self.used.get() - old);
            }
            return null_mut();
        }
        if !place.is_null() {
            // SAFETY: the caller guarantees that `place` is a block of this pool of `old` bytes,
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

    /// Resizes a block.
    ///
    /// # Safety
    /// `place` must be a block of this pool of `old` bytes, and `new` must not be 0.
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
                // SAFETY: the two blocks are distinct, and each holds at least `old.min(new)`
                // bytes.
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

    /// Allocates a block of `size` bytes, at least one. Returns null if there is no memory.
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

    /// Cuts a small block from the last chunk, or from a new one.
    #[inline(never)]
    fn cut(&self, size: usize) -> *mut u8 {
        let size = (size_class(size) + 1) * GRAIN;
        if self.left.get() < size && !self.add_chunk() {
            return null_mut();
        }
        let taken = self.next.get();
        // SAFETY: the chunk has at least `size` bytes left.
        self.next.set(unsafe { taken.add(size) });
        self.left.set(self.left.get() - size);
        taken
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `place` must be a block of this pool of `size` bytes that nothing uses any more.
    #[inline]
    unsafe fn give_back(&self, place: *mut u8, size: usize) {
        if size > SMALL_MAX {
            // SAFETY: the caller guarantees that `place` is an unused block of this pool of `size`
            // bytes.
            return unsafe { give_back_large(place, size) };
        }
        let free = &self.free[size_class(size)];
        // SAFETY: every block has room for a pointer, and is aligned for it.
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

/// The size of the largest block, because a larger layout could not be rounded up to its alignment.
const BLOCK_MAX: usize = isize::MAX as usize - GRAIN;

/// Returns the layout of a large block, of at most [`BLOCK_MAX`] bytes.
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

/// Returns a block to the system allocator.
///
/// # Safety
/// [`take_large`] must have allocated the block with this size, and nothing may use it any more.
#[inline(never)]
unsafe fn give_back_large(place: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that `take_large` allocated the block with this size.
    unsafe { dealloc(place, large_layout(size)) };
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.publish_as(0);
        for chunk in self.chunks.take() {
            // SAFETY: the chunk was allocated with this layout, and the interpreter that used it is
            // closed.
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
        // The blocks, each filled with one byte value.
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
            // SAFETY: the pool allocated these blocks with the recorded sizes, and the test has
            // filled them.
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
        // SAFETY: a null block asks for a new one.
        assert!(unsafe { pool.resize(null_mut(), 0, 1) }.is_null());
        for (place, size, _) in blocks {
            // SAFETY: the pool allocated these blocks with the recorded sizes.
            unsafe { pool.resize(place, size, 0) };
        }
        assert_eq!(pool.used.get(), 0);
    }
}
