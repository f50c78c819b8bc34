//! Commands as a server receives them.

mod error;
mod inline;
mod parser;

pub use error::ProtocolError;
pub use inline::{UnbalancedQuotes, split_args};
pub use parser::{Args, Limits, Parsed, RequestParser, Span};
