//! Scripts that only read what they find, as their compiled program tells.
//!
//! What is in front of the globals and the libraries (see `sandbox`) makes each look into them two, and most scripts do
//! nothing that it guards against: they set no global and no field of any table, and name only globals of a short list,
//! none of which gives a way to set one. Such a script sees the libraries themselves, and no other script can see what
//! it was given: so the tables of its keys and its arguments are used again.

use std::ffi::{CStr, c_int, c_void};

use mlua_sys::{
    LUA_REGISTRYINDEX, lua_State, lua_createtable, lua_dump, lua_getfield_, lua_pop, lua_pushnil,
    lua_pushvalue, lua_rawgeti_, lua_rawseti_, lua_replace, lua_setfenv, lua_setfield,
};

use crate::libraries::workspace::Workspace;
use crate::state::stack::{keep, push_bytes};

/// The globals that it may name, beside `KEYS` and `ARGV`. None of them sets a field of a table that it is given.
pub(crate) const NAMES: [&CStr; 22] = [
    c"redis",
    c"cjson",
    c"cmsgpack",
    c"struct",
    c"bit",
    c"string",
    c"math",
    c"tonumber",
    c"tostring",
    c"type",
    c"ipairs",
    c"pairs",
    c"next",
    c"unpack",
    c"select",
    c"error",
    c"assert",
    c"pcall",
    c"xpcall",
    c"rawequal",
    c"gcinfo",
    c"_VERSION",
];

/// A table of more texts is used once only.
const REUSED_MAX: usize = 64;

/// What such scripts see, in the registry.
#[derive(Clone, Copy, Default)]
pub(crate) struct UnguardedGlobals {
    all: c_int,
    keys: TextTable,
    arguments: TextTable,
}

#[cfg(test)]
impl UnguardedGlobals {
    /// Where the registry holds the globals.
    pub(crate) fn place(&self) -> c_int {
        self.all
    }
}

/// A table of texts.
#[derive(Clone, Copy, Default)]
struct TextTable {
    /// Where the registry holds it.
    place: c_int,
    /// Texts that are in it, at most.
    length: usize,
}

/// Makes the globals of such scripts.
pub(crate) unsafe fn prepare(state: *mut lua_State, workspace: *mut Workspace) -> UnguardedGlobals {
    lua_createtable(state, 0, NAMES.len() as c_int + 2);
    (*workspace).proxies.push_globals(state);
    for name in NAMES {
        lua_getfield_(state, 2, name.as_ptr());
        if let Some(original) = (*workspace).proxies.original(state, 3) {
            lua_rawgeti_(state, LUA_REGISTRYINDEX, original);
            lua_replace(state, 3);
        }
        lua_setfield(state, 1, name.as_ptr());
    }
    lua_pop(state, 1);
    let mut globals = UnguardedGlobals::default();
    for texts in [&mut globals.keys, &mut globals.arguments] {
        lua_createtable(state, 0, 0);
        texts.place = keep(state);
    }
    globals.all = keep(state);
    renew(state, globals.all, c"KEYS", &mut globals.keys, 0);
    renew(state, globals.all, c"ARGV", &mut globals.arguments, 0);
    globals
}

/// Makes the globals of the function on top those of such scripts.
pub(crate) unsafe fn use_globals(state: *mut lua_State, globals: &UnguardedGlobals) {
    lua_rawgeti_(state, LUA_REGISTRYINDEX, globals.all);
    lua_setfenv(state, -2);
}

/// Gives a script its keys and its arguments, as far as it reads them.
pub(crate) unsafe fn set_texts(
    state: *mut lua_State,
    globals: &mut UnguardedGlobals,
    reads: GlobalReads,
    keys: &[&[u8]],
    arguments: &[&[u8]],
) {
    if reads.keys {
        fill(state, globals.all, c"KEYS", &mut globals.keys, keys);
    }
    if reads.arguments {
        fill(
            state,
            globals.all,
            c"ARGV",
            &mut globals.arguments,
            arguments,
        );
    }
}

/// Puts texts in the place of those in a table.
unsafe fn fill(
    state: *mut lua_State,
    globals: c_int,
    name: &CStr,
    table: &mut TextTable,
    texts: &[&[u8]],
) {
    if table.length.max(texts.len()) > REUSED_MAX {
        renew(state, globals, name, table, texts.len());
    }
    let before = table.length;
    lua_rawgeti_(state, LUA_REGISTRYINDEX, table.place);
    // There may be no memory for any of them.
    table.length = before.max(texts.len());
    for (index, text) in texts.iter().enumerate() {
        push_bytes(state, text);
        lua_rawseti_(state, -2, index as c_int + 1);
    }
    for index in texts.len()..before {
        lua_pushnil(state);
        lua_rawseti_(state, -2, index as c_int + 1);
    }
    table.length = texts.len();
    lua_pop(state, 1);
}

/// Puts an empty table in the place of one.
unsafe fn renew(
    state: *mut lua_State,
    globals: c_int,
    name: &CStr,
    table: &mut TextTable,
    length: usize,
) {
    lua_rawgeti_(state, LUA_REGISTRYINDEX, globals);
    lua_createtable(state, length.min(1 << 20) as c_int, 0);
    lua_pushvalue(state, -1);
    lua_rawseti_(state, LUA_REGISTRYINDEX, table.place);
    lua_setfield(state, -2, name.as_ptr());
    lua_pop(state, 1);
    table.length = 0;
}

/// Which of its texts such a script reads.
#[derive(Clone, Copy, Default)]
pub(crate) struct GlobalReads {
    pub(crate) keys: bool,
    pub(crate) arguments: bool,
}

/// Adds a piece of a compiled program to a vector of bytes.
unsafe extern "C-unwind" fn append(
    _: *mut lua_State,
    piece: *const c_void,
    length: usize,
    program: *mut c_void,
) -> c_int {
    if length > 0 {
        let piece = std::slice::from_raw_parts(piece.cast::<u8>(), length);
        (*program.cast::<Vec<u8>>()).extend_from_slice(piece);
    }
    0
}

/// What the function on top of the stack reads, if it is the program of such a script. To write a program raises nothing.
pub(crate) unsafe fn find_reads(state: *mut lua_State) -> Option<GlobalReads> {
    let mut written = Vec::<u8>::new();
    if lua_dump(state, append, (&raw mut written).cast(), 0) != 0 {
        return None;
    }
    let mut program = Program(&written);
    program.take(HEADER)?;
    let mut reads = GlobalReads::default();
    program.function(&mut reads)?;
    Some(reads)
}

/// Bytes before the first function of a compiled program.
const HEADER: usize = 12;
/// The instructions that say whether a script is one of these; their numbers in Lua 5.1.
const GET_GLOBAL: u32 = 5;
const SET_GLOBAL: u32 = 7;
const SET_TABLE: u32 = 9;

/// What is left of a compiled program, as `luaU_dump` of Lua 5.1 writes it on this machine.
struct Program<'a>(&'a [u8]);

impl<'a> Program<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }

    fn int(&mut self) -> Option<usize> {
        let (int, left) = self.0.split_first_chunk()?;
        self.0 = left;
        usize::try_from(i32::from_ne_bytes(*int)).ok()
    }

    /// A string, without the zero at its end.
    fn string(&mut self) -> Option<&'a [u8]> {
        let (length, left) = self.0.split_first_chunk()?;
        self.0 = left;
        let text = self.take(usize::from_ne_bytes(*length))?;
        Some(text.split_last().map_or(text, |(_, text)| text))
    }

    /// Adds what a function reads, and those within it; none where it is not of these.
    fn function(&mut self, reads: &mut GlobalReads) -> Option<()> {
        self.string()?;
        // Its first and last line; the numbers of its upvalues, its parameters and its registers.
        self.take(2 * size_of::<c_int>() + 4)?;
        let instructions = self.int()?;
        let code = self.take(instructions.checked_mul(4)?)?;
        let mut names = Vec::new();
        for _ in 0..self.int()? {
            names.push(self.constant()?);
        }
        let (code, _) = code.as_chunks();
        for instruction in code {
            let instruction = u32::from_ne_bytes(*instruction);
            match instruction & 0x3f {
                SET_GLOBAL | SET_TABLE => return None,
                GET_GLOBAL => match *names.get((instruction >> 14) as usize)? {
                    b"KEYS" => reads.keys = true,
                    b"ARGV" => reads.arguments = true,
                    name if NAMES.iter().any(|known| known.to_bytes() == name) => {}
                    _ => return None,
                },
                _ => {}
            }
        }
        for _ in 0..self.int()? {
            self.function(reads)?;
        }
        let lines = self.int()?;
        self.take(lines.checked_mul(size_of::<c_int>())?)?;
        for _ in 0..self.int()? {
            self.string()?;
            self.take(2 * size_of::<c_int>())?;
        }
        for _ in 0..self.int()? {
            self.string()?;
        }
        Some(())
    }

    /// A constant that is a string; nothing of any other.
    fn constant(&mut self) -> Option<&'a [u8]> {
        const NIL: u8 = 0;
        const BOOLEAN: u8 = 1;
        const NUMBER: u8 = 3;
        match self.take(1)?[0] {
            NIL => Some(b""),
            BOOLEAN => self.take(1).map(|_| &b""[..]),
            NUMBER => self.take(size_of::<f64>()).map(|_| &b""[..]),
            _ => self.string(),
        }
    }
}
