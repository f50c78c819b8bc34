//! Arguments of a script that are numbers or words.
//!
//! Numbers become integers as C on x86-64 makes them: everything is an integer, and no arithmetic of a function is done in
//! fewer than 64 bits.

use std::ffi::{CStr, c_int};

use crate::state::State;
use crate::values::numbers::truncated;

impl State<'_> {
    /// An argument that has to be a number, as an integer.
    pub(crate) fn check_integer(&self, index: c_int) -> i64 {
        truncated(self.check_number(index))
    }

    /// The same, or a default where it is missing or nil.
    pub(crate) fn optional_integer(&self, index: c_int, default: i64) -> i64 {
        match self.is_none_or_nil(index) {
            true => default,
            false => self.check_integer(index),
        }
    }

    /// An argument that Lua keeps in 32 bits: the higher ones are cut off.
    pub(crate) fn check_int(&self, index: c_int) -> i64 {
        i64::from(self.check_integer(index) as i32)
    }

    /// The same, or a default where it is missing or nil.
    pub(crate) fn optional_int(&self, index: c_int, default: i64) -> i64 {
        match self.is_none_or_nil(index) {
            true => default,
            false => self.check_int(index),
        }
    }

    /// Which of some words an argument is.
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
