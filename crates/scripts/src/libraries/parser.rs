//! The parser of programs, which is C: it gets them in small pieces, and the host is asked before each one.
//!
//! The parser's time can grow with the square of a program, as of a long chain of conditions; the host is asked all the
//! same. Its levels are those of Lua, 200.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;

use mlua_sys::{
    LUA_TFUNCTION, LUA_TNIL, lua_State, lua_call, lua_insert, lua_isstring, lua_load, lua_pushnil,
    lua_pushstring_, lua_pushvalue, lua_remove, lua_replace, lua_settop, lua_type, luaL_checkstack,
    luaL_checktype, luaL_error, luaL_optlstring,
};

use crate::state::limits;
use crate::state::raise::raise_text;
use crate::state::stack::bytes;
use crate::state::stack::push_bytes;
use crate::state::stack::text;

/// Bytes of a program that a client sends, at most.
pub(crate) const PROGRAM_MAX: usize = 16 << 20;
/// Bytes of a program that a script makes, at most.
const CHUNK_MAX: usize = 1 << 20;
/// Bytes that the parser reads between two questions whether it may go on.
const PIECE: usize = 256;
/// With this a compiled program begins.
const COMPILED_MARK: u8 = 0x1b;

/// A part of a program that is being read.
struct ProgramReader {
    next: *const u8,
    left: usize,
    /// Nothing was read yet.
    is_first: bool,
    /// Bytes that may still come.
    allowed: usize,
}

impl ProgramReader {
    fn of(text: &[u8], allowed: usize) -> ProgramReader {
        ProgramReader {
            next: text.as_ptr(),
            left: text.len(),
            is_first: true,
            allowed,
        }
    }

    /// The next piece of the part; null at its end.
    unsafe fn next(&mut self, state: *mut lua_State, length: *mut usize) -> *const c_char {
        limits::check_time(state);
        if self.left == 0 {
            *length = 0;
            return null();
        }
        // A compiled program is none: it is read as a text.
        if std::mem::take(&mut self.is_first) && *self.next == COMPILED_MARK {
            *length = 1;
            return c" ".as_ptr();
        }
        let piece = self.next;
        *length = self.left.min(PIECE);
        if *length > self.allowed {
            raise_text(state, b"the program is too long");
        }
        self.allowed -= *length;
        self.next = piece.add(*length);
        self.left -= *length;
        piece.cast()
    }
}

unsafe extern "C-unwind" fn next_of_text(
    state: *mut lua_State,
    reader: *mut c_void,
    length: *mut usize,
) -> *const c_char {
    (*reader.cast::<ProgramReader>()).next(state, length)
}

/// Loads a program. Leaves the function, or what is wrong with it: then the status is not 0.
pub(crate) unsafe fn load_program(
    state: *mut lua_State,
    program: &[u8],
    name: *const c_char,
    longest: usize,
) -> c_int {
    if program.len() > longest {
        push_bytes(state, b"the program is too long");
        return mlua_sys::LUA_ERRSYNTAX;
    }
    let mut reader = ProgramReader::of(program, longest);
    // The parser does not keep the name, which the collector of garbage would take away.
    lua_pushstring_(state, name);
    let status = lua_load(state, next_of_text, (&raw mut reader).cast(), name);
    lua_remove(state, -2);
    status
}

/// Leaves the function that was compiled, or nil and what is wrong.
unsafe fn push_outcome(state: *mut lua_State, status: c_int) -> c_int {
    if status == 0 {
        return 1;
    }
    limits::check_caught(state, status);
    lua_pushnil(state);
    lua_insert(state, -2);
    2
}

/// `loadstring`.
pub(super) unsafe extern "C-unwind" fn load_string(state: *mut lua_State) -> c_int {
    /// Of a program without a name, its beginning is the name.
    const NAME: usize = 4096;
    let program = text(state, 1);
    let name = luaL_optlstring(state, 2, null(), std::ptr::null_mut());
    let name = match name.is_null() {
        false => name,
        true => {
            push_bytes(state, &program[..program.len().min(NAME)]);
            mlua_sys::lua_tolstring(state, -1, std::ptr::null_mut())
        }
    };
    let status = load_program(state, program, name, CHUNK_MAX);
    push_outcome(state, status)
}

/// `load`: a function gives the program part by part.
pub(super) unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    const DEFAULT: &CStr = c"=(load)";
    let name = luaL_optlstring(state, 2, DEFAULT.as_ptr(), std::ptr::null_mut());
    luaL_checktype(state, 1, LUA_TFUNCTION);
    limits::check_stack(state);
    // Where the last part lies while it is read.
    lua_settop(state, 3);
    // As above: the function that gives the parts may collect garbage.
    lua_pushstring_(state, name);
    let mut reader = ProgramReader::of(b"", CHUNK_MAX);
    let status = lua_load(state, next_of_parts, (&raw mut reader).cast(), name);
    push_outcome(state, status)
}

/// The next piece of a program; null at its end.
unsafe extern "C-unwind" fn next_of_parts(
    state: *mut lua_State,
    reader: *mut c_void,
    length: *mut usize,
) -> *const c_char {
    const PART: c_int = 3;
    let reader = reader.cast::<ProgramReader>();
    if (*reader).left == 0 {
        luaL_checkstack(state, 2, c"too many nested functions".as_ptr());
        limits::check_time(state);
        lua_pushvalue(state, 1);
        lua_call(state, 0, 1);
        if lua_type(state, -1) == LUA_TNIL {
            *length = 0;
            return null();
        }
        if lua_isstring(state, -1) == 0 {
            luaL_error(state, c"reader function must return a string".as_ptr());
        }
        lua_replace(state, PART);
        let part = bytes(state, PART);
        (*reader).next = part.as_ptr();
        (*reader).left = part.len();
    }
    (*reader).next(state, length)
}
