//! Values of Lua as numbers, texts and replies. Libraries and what is above them may call it.
//!
//! - `arguments`: arguments that are numbers or words.
//! - `buffer`: text that is being made.
//! - `display`: the text of a value.
//! - `numbers`: numbers as C prints them, and as it makes integers of them.
//! - `reply_writer`: the result of a script, as a reply.
//! - `tape_player`: the recorded reply of a command, pushed as a value of Lua.

pub(crate) mod arguments;
pub(crate) mod buffer;
pub(crate) mod display;
pub(crate) mod numbers;
pub(crate) mod reply_writer;
pub(crate) mod tape_player;
