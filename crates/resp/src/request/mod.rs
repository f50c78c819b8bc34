//! Parses commands as a server receives them.
//!
//! - `error`: the errors with which a server closes a connection that violates the protocol.
//! - `inline`: inline commands: a line of words with quotes, as typed into a terminal.
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
