//! Commands as a server receives them.
//!
//! - `error`: what a server says before it closes the connection of a client that does not speak the protocol.
//! - `inline`: inline commands: a line of words with quotes, as typed into a terminal.
//! - `parser`: the incremental request parser.
//! - `span`: the place of an argument.

mod error;
mod inline;
mod parser;
mod span;

pub use error::ProtocolError;
pub use inline::{UnbalancedQuotes, split_args};
pub use parser::{Args, Limits, Parsed, RequestParser};
pub use span::Span;
