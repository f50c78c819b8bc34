//! Parses commands as a server receives them.
//!
//! - `error`: protocol errors, after which a server closes the connection.
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
