//! Checks arguments that must be numbers or words.
//!
//! Numbers are converted to integers as C does on x86-64: every number has an integer value, and
//! functions compute with at least 64 bits.

use std::ffi::{CStr, c_int};

use crate::state::State;
use crate::values::numbers::truncated;

impl State<'_> {
    /// Returns an argument as an integer. Raises an error if the argument is not a number.
    pub(crate) fn check_integer(&self, index: c_int) -> i64 {
        truncated(self.check_number(index))
    }

    /// Returns an argument as an integer, or `default` if the argument is missing or nil.
    pub(crate) fn optional_integer(&self, index: c_int, default: i64) -> i64 {
        match self.is_none_or_nil(index) {
            true => default,
            false => self.check_integer(index),
        }
    }

    /// Returns an argument truncated to 32 bits, the size of integers in Lua's own functions.
    pub(crate) fn check_int(&self, index: c_int) -> i64 {
        i64::from(self.check_integer(index) as i32)
    }

    /// Returns an argument truncated to 32 bits, or `default` if the argument is missing or nil.
    pub(crate) fn optional_int(&self, index: c_int, default: i64) -> i64 {
        match self.is_none_or_nil(index) {
            true => default,
            false => self.check_int(index),
        }
    }

    /// Returns the position of an argument in a list of words. Raises an error if the argument is
    /// not in the list.
    pub(crate) fn check_word(&self, index: c_int, words: &[&CStr]) -> usize {
        self.check_bytes(index);
        let given = self.c_bytes(index);
        match words.iter().position(|word| word.to_bytes() == given) {
            Some(number) => number,
            None => self.raise_invalid_option(index),
        }
    }

    fn raise_invalid_option(&self, index: c_int) -> ! {
        self.push_bytes(b"invalid option '");
        self.push_bytes(self.c_bytes(index));
        self.push_bytes(b"'");
        self.raise_argument_joined(index, 3)
    }
}
