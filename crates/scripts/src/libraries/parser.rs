//! Compiles programs with Lua's own parser. The parser reads a program in small pieces, and the
//! host can stop it before each piece.
//!
//! The parsing time can grow with the square of a program's length, for example for a long chain of
//! conditions. Nesting is limited to Lua's own 200 levels.

use std::ffi::c_int;

use crate::state::{Kind, ProgramText, State, Status};

/// The maximum length, in bytes, of a program that a client sends.
pub(crate) const PROGRAM_MAX: usize = 16 << 20;
/// The maximum length, in bytes, of a program that a script compiles.
const CHUNK_MAX: usize = 1 << 20;
/// The number of bytes that the parser reads before it asks the host again whether to continue.
const PIECE: usize = 256;
/// The first byte of compiled bytecode.
const COMPILED_MARK: u8 = 0x1b;

/// The text of a program, which the parser reads in pieces.
struct Pieces<'t> {
    rest: &'t [u8],
    /// Whether the parser has not yet read a piece.
    is_first: bool,
    /// The number of bytes that the parser can still read before the program is too long.
    allowed: usize,
}

impl<'t> Pieces<'t> {
    fn of(rest: &'t [u8], allowed: usize) -> Pieces<'t> {
        Pieces {
            rest,
            is_first: true,
            allowed,
        }
    }

    fn next(&mut self, state: &State<'_>) -> Option<&'t [u8]> {
        state.check_time();
        let first = *self.rest.first()?;
        // Malformed bytecode can crash Lua. Replace it with a space, so that it is parsed as text
        // and fails with a syntax error.
        if std::mem::take(&mut self.is_first) && first == COMPILED_MARK {
            return Some(b" ");
        }
        let (piece, rest) = self.rest.split_at(self.rest.len().min(PIECE));
        if piece.len() > self.allowed {
            state.raise_text(TOO_LONG);
        }
        self.allowed -= piece.len();
        self.rest = rest;
        Some(piece)
    }
}

const TOO_LONG: &[u8] = b"the program is too long";

impl ProgramText for Pieces<'_> {
    fn next_piece<'p>(&'p mut self, state: &'p mut State<'_>) -> Option<&'p [u8]> {
        self.next(state)
    }
}

/// Compiles a program whose name is on top of the stack. Replaces the name with the compiled
/// function or, on failure, with the error message.
pub(crate) fn load_program(state: &mut State<'_>, program: &[u8], longest: usize) -> Status {
    let status = match program.len() > longest {
        true => {
            state.push_bytes(TOO_LONG);
            Status::SYNTAX
        }
        false => state.load(&mut Pieces::of(program, longest), -1),
    };
    state.remove(-2);
    status
}

/// Leaves a function that compiled as the result, or nil and the error message on failure.
fn return_loaded(state: &mut State<'_>, status: Status) -> c_int {
    if status == Status::DONE {
        return 1;
    }
    state.check_caught(status);
    state.push_nil();
    state.insert(-2);
    2
}

/// Implements `loadstring`.
pub(super) fn load_string(state: &mut State<'_>) -> c_int {
    /// The number of leading bytes of an unnamed program that serve as its name.
    const NAME: usize = 4096;
    // SAFETY: the first argument stays on the stack until this function returns, so its bytes stay
    // alive.
    let program = unsafe { state.anchored() }.check_bytes(1);
    match state.is_none_or_nil(2) {
        true => state.push_bytes(&program[..program.len().min(NAME)]),
        false => {
            state.check_bytes(2);
            state.push_value(2);
        }
    }
    let status = load_program(state, program, CHUNK_MAX);
    return_loaded(state, status)
}

/// A program whose parts are the results of repeated calls to the first argument, a function.
struct Parts {
    /// The bytes of the current part that the parser has not yet read.
    part: Pieces<'static>,
}

/// The stack index of the part that the parser is reading.
const PART: c_int = 3;

impl ProgramText for Parts {
    fn next_piece<'p>(&'p mut self, state: &'p mut State<'_>) -> Option<&'p [u8]> {
        if self.part.rest.is_empty() {
            state.check_room_for(2, c"too many nested functions");
            state.check_time();
            state.push_value(1);
            state.call(0, 1);
            if state.kind(-1) == Kind::NIL {
                return None;
            }
            if !state.is_string(-1) {
                state.raise_here(b"reader function must return a string");
            }
            state.replace(PART);
            // SAFETY: the part stays on the stack at `PART` until the parser has read all of its
            // bytes.
            self.part.rest = unsafe { state.anchored() }.bytes(PART);
        }
        self.part.next(state)
    }
}

/// Implements `load`, which obtains a program in parts by calling a function.
pub(super) fn load(state: &mut State<'_>) -> c_int {
    let has_name = !state.is_none_or_nil(2);
    if has_name {
        state.check_bytes(2);
    }
    state.check_kind(1, Kind::FUNCTION);
    state.check_stack();
    state.set_top(PART);
    match has_name {
        true => state.push_value(2),
        false => state.push_bytes(b"=(load)"),
    }
    let mut parts = Parts {
        part: Pieces::of(b"", CHUNK_MAX),
    };
    let status = state.load(&mut parts, -1);
    return_loaded(state, status)
}
