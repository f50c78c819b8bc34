//! Values in RDB form, as DUMP gives them and RESTORE takes them: a value, the RDB version, a checksum. Each type of value
//! knows its own forms; here is what they have in common. Types and `keyspace/dump` use it.
//!
//! ```text
//! type (1) | value | RDB version (2, little-endian) | CRC-64 of all before (8, little-endian)
//! ```
//!
//! A string value is a length and that many bytes, an integer of one, two or four bytes, or an LZF stream. A collection
//! is a number of such strings, or one string that is a structure of Redis' memory.
//!
//! - `form`: how lengths, strings and integers are written.
//! - `input`: reading values.
//! - `libraries`: libraries of functions.
//! - `listpack`: listpacks, in which Redis 7.0 keeps small collections.
//! - `lzf`: the compression of strings.
//! - `output`: writing values.
//! - `payload`: the footer of a payload.
//! - `ziplist`: ziplists, in which Redis before 7.0 kept small collections: read only.

pub(crate) mod form;
mod input;
mod libraries;
mod listpack;
mod lzf;
mod output;
pub(crate) mod payload;
mod ziplist;

pub(crate) use input::Input;
pub use libraries::{dump_libraries, restore_libraries};
pub(crate) use output::Output;
pub use payload::RestoreError;
