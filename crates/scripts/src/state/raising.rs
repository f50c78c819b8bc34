//! Raises errors in Redis' form: tables whose `err` field is the message, which starts with an
//! error code.
//!
//! Functions that raise an error do not return: Lua jumps to the innermost protected call.

use std::ffi::{CStr, c_int};
use std::fmt::{Arguments, Write};

use super::stack::{State, lua};

/// The field that marks an error as counted in the statistics, as in Redis.
pub(crate) const COUNTED: &CStr = c"ignore_error_stats_update";

/// Methods that create and raise error tables.
impl State<'_> {
    /// Pushes an error table with `text` as the message.
    pub(crate) fn push_error(&self, text: &[u8]) {
        self.push_table(0, 4);
        self.push_bytes(text);
        lua!(self, lua_setfield, -2, c"err".as_ptr());
    }

    /// Marks the error on top of the stack as counted.
    pub(crate) fn mark_counted(&self) {
        self.push_boolean(true);
        lua!(self, lua_setfield, -2, COUNTED.as_ptr());
    }

    /// Raises an error table with `text` as the message.
    #[cold]
    pub(crate) fn raise(&self, text: &[u8]) -> ! {
        self.push_error(text);
        self.raise_top()
    }
}

/// Methods that raise strings, like the errors of Lua's own libraries.
impl State<'_> {
    /// Raises the value on top of the stack.
    #[cold]
    pub(crate) fn raise_top(&self) -> ! {
        lua!(self, lua_error)
    }

    /// Raises a message without adding the location.
    #[cold]
    pub(crate) fn raise_text(&self, text: &[u8]) -> ! {
        self.push_bytes(text);
        self.raise_top()
    }

    /// Raises a message that starts with the location of the calling line.
    #[cold]
    pub(crate) fn raise_here(&self, text: &[u8]) -> ! {
        self.raise_joined(&[text])
    }

    /// Raises a message that starts with the location of the calling line, followed by `parts`.
    #[cold]
    pub(crate) fn raise_joined(&self, parts: &[&[u8]]) -> ! {
        self.push_location(1);
        for part in parts {
            self.push_bytes(part);
        }
        lua!(self, lua_concat, parts.len() as c_int + 1);
        self.raise_top()
    }

    /// Raises a message of at most [`LINE_MAX`] bytes, preceded by the location of the calling
    /// line.
    #[cold]
    pub(crate) fn raise_formatted(&self, text: Arguments<'_>) -> ! {
        self.raise_here(Line::of(text).bytes())
    }

    /// Raises an error that names an argument.
    #[cold]
    pub(crate) fn raise_argument(&self, index: c_int, problem: &CStr) -> ! {
        lua!(self, luaL_argerror, index, problem.as_ptr());
        unreachable!("raised");
    }

    /// Raises an error that names an argument. The message is the concatenation of the top `parts`
    /// values of the stack.
    #[cold]
    pub(crate) fn raise_argument_joined(&self, index: c_int, parts: c_int) -> ! {
        lua!(self, lua_concat, parts);
        let problem = lua!(self, lua_tolstring, -1, std::ptr::null_mut());
        lua!(self, luaL_argerror, index, problem);
        unreachable!("raised");
    }

    /// Raises an error that names an argument, with a message of at most [`LINE_MAX`] bytes.
    #[cold]
    pub(crate) fn raise_argument_formatted(&self, index: c_int, problem: Arguments<'_>) -> ! {
        let line = Line::of(problem);
        self.raise_argument(index, line.c_text())
    }

    /// Pushes a formatted string of at most [`LINE_MAX`] bytes.
    pub(crate) fn push_formatted(&self, text: Arguments<'_>) {
        self.push_bytes(Line::of(text).bytes());
    }
}

/// The maximum length of a formatted message, in bytes. Longer messages are truncated.
const LINE_MAX: usize = 255;

/// A formatted message on the thread's stack. On the heap, it would leak when an error is raised.
struct Line {
    text: [u8; LINE_MAX + 1],
    length: usize,
}

impl Line {
    fn of(text: Arguments<'_>) -> Line {
        let mut line = Line {
            text: [0; LINE_MAX + 1],
            length: 0,
        };
        // Writing to a `Line` cannot fail.
        let _ = line.write_fmt(text);
        line
    }

    fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Returns the text up to its first zero byte.
    fn c_text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.text).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let length = part.len().min(LINE_MAX - self.length);
        self.text[self.length..][..length].copy_from_slice(&part.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_truncated() {
        let line = Line::of(format_args!("{} of {}", 1, "two"));
        assert_eq!(line.bytes(), b"1 of two");
        assert_eq!(line.c_text(), c"1 of two");
        let line = Line::of(format_args!("{0}{0}", "x".repeat(200)));
        assert_eq!(line.bytes(), "x".repeat(LINE_MAX).as_bytes());
        assert_eq!(line.c_text().to_bytes(), line.bytes());
    }
}
