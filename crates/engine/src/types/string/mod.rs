//! Implements strings, which are texts or integers stored in an entry or in a separate block, and
//! the operations on their bits. `types/registry` uses `contract`, and commands call the other
//! modules.
//!
//! - `bits`: treats strings as arrays of bits.
//! - `contract`: implements the type interface.
//! - `exchange`: removes a string and returns it, or replaces it and returns the old string.
//! - `hot`: provides the functions that embedded clients call most often, such as GET and SET.
//! - `in_place`: reads long strings in place in the store, or removes them without copying them.
//! - `mget`: reads several strings atomically.
//! - `text`: represents the text of a string value.
//! - `write`: sets, increments, appends to and partly overwrites strings.

pub(crate) mod bits;
mod contract;
mod exchange;
pub(crate) mod hot;
pub(crate) mod in_place;
pub(crate) mod mget;
pub(crate) mod text;
pub(crate) mod write;

pub(crate) use contract::Strings;
