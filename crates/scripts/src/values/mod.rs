//! Conversions between Lua values and numbers, strings and replies. Used by the libraries and the
//! modules above them.
//!
//! - `arguments`: arguments that are numbers or words.
//! - `buffer`: a text buffer for functions.
//! - `display`: converts values to text, like `tostring`.
//! - `numbers`: formats numbers and converts them to integers as C does.
//! - `reply_writer`: writes the result of a script as a reply.
//! - `tape_player`: pushes the recorded reply of a command as a Lua value.

pub(crate) mod arguments;
pub(crate) mod buffer;
pub(crate) mod display;
pub(crate) mod numbers;
pub(crate) mod reply_writer;
pub(crate) mod tape_player;
