//! Parses commands as a server receives them.
//!
//! - `error`: the protocol errors for which a server closes a connection.
//! - `inline`: inline commands: lines of words and quoted strings, as typed into a terminal.
//! - `parser`: the incremental request parser.
//! - `span`: the position of an argument in a request.

mod error;
mod inline;
mod parser;
mod span;

pub use error::ProtocolError;
pub use inline::{UnbalancedQuotes, split_args};
pub use parser::{Args, Limits, Parsed, RequestParser};
pub use span::Span;
