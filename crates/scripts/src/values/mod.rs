//! Values of Lua as numbers, texts and replies. Libraries and what is above them may call it.
//!
//! - `arguments`: numbers that a script passes.
//! - `buffer`: text that is being made.
//! - `display`: the text of a value.
//! - `numbers`: numbers as C prints them, and as it makes integers of them.
//! - `reply_tape`: what a command answers, as values of Lua.
//! - `reply_writer`: what a script returns, as a reply.

pub(crate) mod arguments;
pub(crate) mod buffer;
pub(crate) mod display;
pub(crate) mod numbers;
pub(crate) mod reply_tape;
pub(crate) mod reply_writer;
