//! Implements the value types. Each type has its own folder, which contains the operations that
//! commands call. Only `keyspace` and the folders above it depend on this folder.
//!
//! - `collection`: the object operations that hashes and sets share.
//! - `contract`: the interface that every type implements.
//! - `feed`: fixed-size values with attributes, and a mark bit that hides a value.
//! - `hash`: maps of fields to values.
//! - `limits`: the size limits for packed collections.
//! - `list`: items addressed by position.
//! - `registry`: the implementation of each type.
//! - `set`: distinct members, and operations that combine sets.
//! - `sorted`: members ordered by score.
//! - `stream`: entries ordered by ID, and consumer groups.
//! - `string`: texts, integers and bits.
//! - `value_type`: the enum of types and their numbers.
//! - `value`: lookup, storage and disposal of values of any type.

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
