//! Values in the RDB format, as DUMP returns them and RESTORE accepts them: a value, the RDB
//! version and a checksum. Each value type implements its own encodings, and this module contains
//! the common parts. The types and `keyspace/dump` use it.
//!
//! ```text
//! type (1) | value | RDB version (2, little-endian) | CRC-64 of all bytes before (8, little-endian)
//! ```
//!
//! A string is stored as its length and its bytes, as an integer of one, two or four bytes, or as
//! an LZF stream. A collection is stored either as a count and that many strings, or as a single
//! string that contains the memory image of a Redis structure.
//!
//! - `expiring`: hashes whose fields expire, which RDB files contain since Redis 7.4 and Valkey 9.
//! - `form`: the encodings of lengths, strings and integers, and the versions of the format.
//! - `input`: decoding values.
//! - `libraries`: the payload of function libraries.
//! - `listpack`: listpacks, the encoding of small collections in Redis 7.0.
//! - `lzf`: the compression of strings.
//! - `output`: encoding values.
//! - `payload`: the footer of a payload.
//! - `ziplist`: ziplists, the encoding of small collections before Redis 7.0, which are only
//!   decoded.
//! - `zipmap`: zipmaps, the encoding of small hashes before Redis 2.6, which are only decoded.

mod expiring;
pub(crate) mod form;
mod input;
mod libraries;
mod listpack;
mod lzf;
mod output;
pub(crate) mod payload;
mod ziplist;
mod zipmap;

pub use expiring::{ExpiringHash, decode_expiring_hash};
pub use form::RdbVersion;
pub(crate) use input::Input;
pub use libraries::{dump_libraries, restore_libraries};
pub(crate) use output::Output;
pub use payload::RestoreError;
