//! The value types. Each type has a folder, and commands call into it to work on values. Only the
//! folders from `keyspace` upwards depend on this one.
//!
//! - `collection`: the object operations that hashes and sets share.
//! - `contract`: the interface that every type implements.
//! - `feed`: fixed-size values with attributes, and a mark that hides them.
//! - `hash`: fields with their values.
//! - `limits`: size limits up to which collections stay packed.
//! - `list`: items addressed by position.
//! - `registry`: maps each type to its implementation.
//! - `set`: members, and the operations on several sets.
//! - `sorted`: members ordered by score.
//! - `stream`: entries ordered by id, and consumer groups.
//! - `string`: texts, integers and bits.
//! - `value_type`: the enum of types and their numbers.
//! - `value`: operations on values of any type: lookup, storage and disposal.

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
