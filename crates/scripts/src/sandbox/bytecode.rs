//! Parses compiled bytecode to find the globals that a program reads and sets.

use std::ffi::{CStr, c_int};

use crate::state::State;

/// The globals that an unguarded script can name in addition to `KEYS` and `ARGV`. None of these
/// functions sets a field of its arguments.
pub(super) const NAMES: [&CStr; 22] = [
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

/// Whether an unguarded script reads `KEYS` and `ARGV`.
#[derive(Clone, Copy, Default)]
pub(crate) struct GlobalReads {
    pub(crate) keys: bool,
    pub(crate) arguments: bool,
}

/// Returns whether the function on top of the stack reads `KEYS` and `ARGV`. Returns `None` if it
/// sets a global or a table field, or names a global that is not in [`NAMES`]. Raises no Lua error.
pub(crate) fn find_reads(state: &State<'_>) -> Option<GlobalReads> {
    let mut written = Vec::new();
    if !state.dump(&mut |piece| written.extend_from_slice(piece)) {
        return None;
    }
    let mut program = Program(&written);
    program.take(HEADER)?;
    let mut reads = GlobalReads::default();
    program.function(&mut reads)?;
    Some(reads)
}

/// The size, in bytes, of the bytecode header, which precedes the first function.
const HEADER: usize = 12;
/// The opcodes of Lua 5.1 that matter here.
const GET_GLOBAL: u32 = 5;
const SET_GLOBAL: u32 = 7;
const SET_TABLE: u32 = 9;

/// The unparsed rest of a compiled program, in the format that `luaU_dump` of Lua 5.1 writes on
/// this machine.
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

    /// Parses a string, and strips its terminating zero byte.
    fn string(&mut self) -> Option<&'a [u8]> {
        let (length, left) = self.0.split_first_chunk()?;
        self.0 = left;
        let text = self.take(usize::from_ne_bytes(*length))?;
        Some(text.split_last().map_or(text, |(_, text)| text))
    }

    /// Records in `reads` whether a function and its nested functions read `KEYS` and `ARGV`.
    /// Returns `None` if the script requires guards.
    fn function(&mut self, reads: &mut GlobalReads) -> Option<()> {
        self.string()?;
        // Skip the first line number, the last line number, and four one-byte counts, such as those
        // of upvalues and parameters.
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

    /// Parses a constant. Returns its bytes if it is a string, otherwise an empty slice.
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
