//! Text that is being made by a function.
//!
//! It lies on the stack while it is short, and then in memory of Lua that is counted for the limit. A function that is left
//! by an error leaves it to the collector of garbage.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use mlua_sys::{
    lua_State, lua_gettop, lua_newuserdata, lua_pushlstring_, lua_pushnil, lua_replace,
};

use crate::state::limits;

/// Bytes that lie on the stack.
const SMALL: usize = 256;
/// Bytes that are copied between two questions whether the script may go on.
const PIECE: usize = 1 << 20;

pub(crate) struct Buffer {
    state: *mut lua_State,
    /// Where on Lua's stack the memory is kept.
    slot: c_int,
    /// Null while the text is in `small`.
    large: *mut u8,
    length: usize,
    capacity: usize,
    small: [MaybeUninit<u8>; SMALL],
}

impl Buffer {
    /// An empty one. It takes a place on Lua's stack, which stays where it is until the text is pushed.
    pub(crate) unsafe fn new(state: *mut lua_State) -> Buffer {
        lua_pushnil(state);
        Buffer {
            state,
            slot: lua_gettop(state),
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

    /// Makes room for so many bytes more. Ends the script where there is none.
    pub(crate) unsafe fn reserve(&mut self, more: usize) {
        let needed = self.length.saturating_add(more);
        if needed > self.capacity {
            self.grow(needed);
        }
    }

    #[cold]
    unsafe fn grow(&mut self, needed: usize) {
        let capacity = needed.max(self.capacity.saturating_add(self.capacity / 2));
        limits::make_room(self.state, capacity);
        let place = lua_newuserdata(self.state, capacity).cast::<u8>();
        self.start().copy_to_nonoverlapping(place, self.length);
        lua_replace(self.state, self.slot);
        self.large = place;
        self.capacity = capacity;
    }

    /// Appends bytes, which lie elsewhere.
    pub(crate) unsafe fn add(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        for piece in bytes.chunks(PIECE) {
            limits::spend_bytes(self.state, piece.len());
            self.put(piece);
        }
    }

    /// Appends a byte.
    pub(crate) unsafe fn add_byte(&mut self, byte: u8) {
        self.reserve(1);
        self.put(&[byte]);
    }

    /// Appends bytes for which there is room.
    unsafe fn put(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.capacity - self.length);
        let end = self.start().add(self.length);
        end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        self.length += bytes.len();
    }

    /// Appends what a function makes of each byte.
    pub(crate) unsafe fn add_mapped(
        &mut self,
        bytes: impl ExactSizeIterator<Item = u8>,
        map: fn(u8) -> u8,
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
            limits::spend_bytes(self.state, length);
            self.put(&part[..length]);
        }
    }

    /// Appends a text so often.
    pub(crate) unsafe fn add_repeated(&mut self, text: &[u8], times: usize) {
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
            limits::raise_memory(self.state);
        };
        self.reserve(length);
        let begin = self.length;
        let end = begin + length;
        if times > 0 {
            self.add(text);
        }
        // What is there is doubled, in pieces.
        while self.length < end {
            let there = self.length - begin;
            let whole = there - there % text.len();
            let most = PIECE - PIECE % text.len();
            let piece = whole.min(most).min(end - self.length);
            limits::spend_bytes(self.state, piece);
            let start = self.start();
            let from = start.add(begin);
            from.copy_to_nonoverlapping(start.add(self.length), piece);
            self.length += piece;
        }
    }

    /// Pushes the text.
    pub(crate) unsafe fn push(&mut self) {
        limits::make_room(self.state, self.length);
        let length = self.length;
        lua_pushlstring_(self.state, self.start().cast(), length);
        // The memory is garbage from now on.
        if !self.large.is_null() {
            lua_pushnil(self.state);
            lua_replace(self.state, self.slot);
        }
    }
}
