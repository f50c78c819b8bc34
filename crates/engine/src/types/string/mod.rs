//! Strings: texts and integers in an entry or in a block of their own, and the bits in them.
//! `types/registry` asks its contract; commands make its calls.
//!
//! - `bits`: strings as arrays of bits.
//! - `contract`: what strings answer as a type of value.
//! - `exchange`: strings that are taken out of the store, or exchanged for others.
//! - `hot`: the calls that embedded clients make most: GET, SET and their like.
//! - `in_place`: long strings that are read in the store itself, or taken out of it.
//! - `mget`: the strings of several keys, as they were at one moment.
//! - `text`: the text of a string.
//! - `write`: setting, counting, changing in place.

pub(crate) mod bits;
mod contract;
mod exchange;
pub(crate) mod hot;
pub(crate) mod in_place;
pub(crate) mod mget;
pub(crate) mod text;
pub(crate) mod write;

pub(crate) use contract::Strings;
