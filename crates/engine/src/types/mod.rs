//! The types of values. Each has a folder; what a command does to a value of a type is a call there. The folders from
//! `keyspace` upwards use it.
//!
//! - `collection`: objects that are a dictionary of elements and nothing else.
//! - `contract`: what every type answers.
//! - `feed`: values of one size with attributes, and a mark that hides them.
//! - `hash`: fields with their values.
//! - `limits`: up to where collections stay in one piece.
//! - `list`: items by position.
//! - `registry`: what answers for each type.
//! - `set`: members, and the operations on several sets.
//! - `sorted`: members in the order of their scores.
//! - `stream`: entries in the order of their ids, and groups of consumers.
//! - `string`: texts, integers and bits.
//! - `value_type`: the types, each with its number.
//! - `value`: what is done to a value of any type: finding it, storing it, getting rid of it.

pub(crate) mod collection;
pub(crate) mod contract;
pub(crate) mod feed;
pub(crate) mod hash;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod registry;
pub(crate) mod set;
pub(crate) mod sorted;
pub(crate) mod stream;
pub(crate) mod string;
pub(crate) mod value;
pub(crate) mod value_type;
