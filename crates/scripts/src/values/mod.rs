//! Converts between Lua values and numbers, strings and replies. Used by the libraries and the
//! modules above them.
//!
//! - `arguments`: checks arguments that must be numbers or words.
//! - `buffer`: implements the buffer in which library functions build strings.
//! - `display`: converts values to strings, like `tostring`.
//! - `numbers`: formats numbers, and converts numbers to integers as C does.
//! - `reply_writer`: writes a script's result as a reply.
//! - `tape_player`: pushes a command's recorded reply as a Lua value.

pub(crate) mod arguments;
pub(crate) mod buffer;
pub(crate) mod display;
pub(crate) mod numbers;
pub(crate) mod reply_writer;
pub(crate) mod tape_player;
