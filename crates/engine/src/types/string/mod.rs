//! Implements strings: texts and integers, stored in an entry or in a separate block, and the bits
//! in them. `types/registry` uses `contract`; commands call the other modules.
//!
//! - `bits`: strings as arrays of bits.
//! - `contract`: the implementation of the type interface.
//! - `exchange`: removes a string and returns it, or replaces it and returns the old string.
//! - `hot`: the functions that embedded clients call most often, such as GET and SET.
//! - `in_place`: long strings that are read in place in the store, or removed from it without a
//!   copy.
//! - `mget`: atomic reads of several strings.
//! - `text`: the text of a string value.
//! - `write`: set, increment, append and change in place.

pub(crate) mod bits;
mod contract;
mod exchange;
pub(crate) mod hot;
pub(crate) mod in_place;
pub(crate) mod mget;
pub(crate) mod text;
pub(crate) mod write;

pub(crate) use contract::Strings;
