//! The parser of programs, which is C: it gets them in small pieces, and the host is asked before each one.
//!
//! The parser's time can grow with the square of a program, as of a long chain of conditions; the host is asked all the
//! same. Its levels are those of Lua, 200.

use std::ffi::c_int;

use crate::state::{Kind, ProgramText, State, Status};

/// Bytes of a program that a client sends, at most.
pub(crate) const PROGRAM_MAX: usize = 16 << 20;
/// Bytes of a program that a script makes, at most.
const CHUNK_MAX: usize = 1 << 20;
/// Bytes that the parser reads between two questions whether it may go on.
const PIECE: usize = 256;
/// The first byte of a compiled program.
const COMPILED_MARK: u8 = 0x1b;

/// A text that is read in pieces.
struct Pieces<'t> {
    rest: &'t [u8],
    /// Whether nothing was read yet.
    is_first: bool,
    /// Bytes that may still come.
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
        // A compiled program could crash Lua. It is read as a text, which is a syntax error.
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

/// Compiles a program whose name is on top. Leaves the function in the place of the name; or what is wrong, and then the
/// status says so.
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

/// Returns the function that was compiled, or nil and what is wrong.
fn return_loaded(state: &mut State<'_>, status: Status) -> c_int {
    if status == Status::DONE {
        return 1;
    }
    state.check_caught(status);
    state.push_nil();
    state.insert(-2);
    2
}

/// `loadstring`.
pub(super) fn load_string(state: &mut State<'_>) -> c_int {
    /// Bytes of a program that are its name where it has none.
    const NAME: usize = 4096;
    // SAFETY: the first argument stays on the stack.
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

/// A program that a function, the first argument, gives part by part.
struct Parts {
    /// What is left of the last part.
    part: Pieces<'static>,
}

/// Where the last part lies while it is read.
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
            // SAFETY: it stays there until all of it is read.
            self.part.rest = unsafe { state.anchored() }.bytes(PART);
        }
        self.part.next(state)
    }
}

/// `load`: a function gives the program part by part.
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
