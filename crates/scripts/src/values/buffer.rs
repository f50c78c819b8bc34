//! Implements the buffer in which library functions build strings.
//!
//! A short string is on the thread's stack. A longer string is in Lua's memory, which counts toward
//! the memory limit. If an error skips the rest of the function, the garbage collector frees the
//! memory.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use crate::state::{Context, State};

/// The maximum number of bytes that the buffer stores on the thread's stack.
const SMALL: usize = 256;
/// The number of bytes to copy between two checks of whether the script may continue.
const PIECE: usize = 1 << 20;

/// A buffer in which a function builds a string. It borrows the state, so that the stack slot that
/// holds its memory does not move.
pub(crate) struct Buffer<'s> {
    state: &'s State<'s>,
    context: &'s Context,
    /// The stack index of the value that keeps the memory alive.
    slot: c_int,
    /// The memory of a long string, or null while the string is in `small`.
    large: *mut u8,
    length: usize,
    capacity: usize,
    small: [MaybeUninit<u8>; SMALL],
}

impl<'s> Buffer<'s> {
    /// Returns an empty buffer. It occupies one slot of the Lua stack until the function returns.
    pub(crate) fn new(state: &'s State<'s>) -> Buffer<'s> {
        state.push_nil();
        Buffer {
            state,
            context: state.context(),
            slot: state.top(),
            large: null_mut(),
            length: 0,
            capacity: SMALL,
            small: [const { MaybeUninit::uninit() }; SMALL],
        }
    }

    fn start(&mut self) -> *mut u8 {
        match self.large.is_null() {
            true => self.small.as_mut_ptr().cast(),
            false => self.large,
        }
    }

    /// Makes room for `more` additional bytes. Ends the script if memory runs out.
    pub(crate) fn reserve(&mut self, more: usize) {
        let needed = self.length.saturating_add(more);
        if needed > self.capacity {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let capacity = needed.max(self.capacity.saturating_add(self.capacity / 2));
        self.state.make_room(capacity);
        let place = self.state.push_memory(capacity);
        // SAFETY: the new memory has room for the string, and the old memory is not used after its
        // replacement.
        unsafe {
            self.start().copy_to_nonoverlapping(place, self.length);
            self.state.replace_unused(self.slot);
        }
        self.large = place;
        self.capacity = capacity;
    }

    /// Appends bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        for piece in bytes.chunks(PIECE) {
            self.context.spend_bytes(self.state, piece.len());
            // SAFETY: `reserve` made room for the bytes of all pieces.
            unsafe { self.put(piece) };
        }
    }

    /// Appends a byte.
    pub(crate) fn add_byte(&mut self, byte: u8) {
        self.reserve(1);
        // SAFETY: `reserve` made room for the byte.
        unsafe { self.put(&[byte]) };
    }

    /// Appends bytes without checking for room.
    ///
    /// # Safety
    /// The buffer must have room for the bytes.
    unsafe fn put(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.capacity - self.length);
        // SAFETY: the caller guarantees that there is room for the bytes.
        unsafe {
            let end = self.start().add(self.length);
            end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.length += bytes.len();
    }

    /// Appends the result of a function for each byte.
    pub(crate) fn add_mapped(
        &mut self,
        bytes: impl ExactSizeIterator<Item = u8>,
        map: impl Fn(u8) -> u8,
    ) {
        const PART: usize = 4096;
        self.reserve(bytes.len());
        let (mut bytes, mut part) = (bytes, [0; PART]);
        loop {
            let mut length = 0;
            for (place, byte) in part.iter_mut().zip(&mut bytes) {
                *place = map(byte);
                length += 1;
            }
            if length == 0 {
                return;
            }
            self.context.spend_bytes(self.state, length);
            self.reserve(length);
            // SAFETY: `reserve` made room for the bytes.
            unsafe { self.put(&part[..length]) };
        }
    }

    /// Appends `text`, repeated `times` times.
    pub(crate) fn add_repeated(&mut self, text: &[u8], times: usize) {
        if text.is_empty() {
            return;
        }
        if text.len() >= PIECE {
            for _ in 0..times {
                self.add(text);
            }
            return;
        }
        let Some(length) = text.len().checked_mul(times) else {
            self.state.raise_memory();
        };
        self.reserve(length);
        let begin = self.length;
        let end = begin + length;
        if times > 0 {
            self.add(text);
        }
        // Double the copied part until it is complete, with at most `PIECE` bytes per copy.
        while self.length < end {
            let there = self.length - begin;
            let whole = there - there % text.len();
            let most = PIECE - PIECE % text.len();
            let piece = whole.min(most).min(end - self.length);
            self.context.spend_bytes(self.state, piece);
            let start = self.start();
            // SAFETY: there is room up to `end`, and the source range ends at or before the start
            // of the destination.
            unsafe {
                let from = start.add(begin);
                from.copy_to_nonoverlapping(start.add(self.length), piece);
            }
            self.length += piece;
        }
    }

    /// Pushes the buffer's contents as a Lua string.
    pub(crate) fn push(&mut self) {
        self.state.make_room(self.length);
        let (start, length) = (self.start(), self.length);
        // SAFETY: `length` bytes at `start` are initialized.
        let text = unsafe { std::slice::from_raw_parts(start, length) };
        self.state.push_bytes(text);
        // Release the memory to the garbage collector.
        if !self.large.is_null() {
            self.state.push_nil();
            // SAFETY: the string has already been pushed, so nothing borrows the memory.
            unsafe { self.state.replace_unused(self.slot) };
        }
    }
}
