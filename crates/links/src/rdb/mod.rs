//! RDB files: reading them as events, and writing them.
//!
//! ```text
//! file    = header, parts, end
//! header  | REDIS and 4 digits, or VALKEY and 3 digits |
//! part    | 250 | name: string | value: string |            information about the file
//!         | 245 | text: string |                            a function library
//!         | 254 | database: length |                        the database of the following keys
//!         | 251 | keys: length | expiring keys: length |    the size of the database
//!         | 252 | Unix milliseconds, 8 |                    the expiry of the next key
//!         | 248 | seconds: length |                         the idle time of the next key
//!         | 249 | counter, 1 |                              the use counter of the next key
//!         | type, 1 | key: string | value |                 a key
//! end     | 255 | CRC-64 of all bytes before, 8 |
//! ```
//!
//! - `error`: the errors of reading a file.
//! - `reader`: reads a file as a series of events.
//! - `source`: the buffered input with the checksum.
//! - `values`: finds the end of a value.
//! - `writer`: writes a file.

mod error;
mod reader;
mod source;
mod values;
mod writer;

pub use error::ReadError;
pub(crate) use error::shown;
pub use reader::{Event, Family, HEADER, KeyEvent, Reader, Usage};
pub use values::ValueKind;
pub use writer::{EncodedKey, Writer, append_key};
