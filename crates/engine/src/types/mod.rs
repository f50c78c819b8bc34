//! The types of values. Each has a folder; what a command does to a value of a type is a call there.
//!
//! - `hash`: fields with their values.
//! - `list`: items by position.
//! - `set`: members, and the operations on several sets.
//! - `sorted`: members in the order of their scores.
//! - `string`: texts, integers and bits.
//! - `value`: what is done to a value of any type: finding it, storing it, getting rid of it.

pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod sorted;
pub(crate) mod string;
pub(crate) mod value;
