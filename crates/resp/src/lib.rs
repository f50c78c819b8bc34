//! The Redis wire format, RESP2 and RESP3: encoding and decoding without I/O.
//!
//! All functions work on byte slices that the caller owns:
//!
//! * [`RequestParser`] finds the commands in a client's bytes and returns them as byte ranges of
//!   the receive buffer;
//! * [`encode`] appends replies and commands to a `Vec<u8>`;
//! * [`ReplyParser`] turns a server's bytes into [`Event`]s, from which a client builds objects in
//!   its own language, and [`ReplyReader`] turns them into owned [`Value`]s.
//!
//! Both parsers accept input in fragments of any size, and resume at the byte where the last
//! fragment ended. The work is linear in the number of bytes received, however they are fragmented.
//! Neither parser recurses, allocates memory based on an announced length alone, or panics on any
//! input.
//!
//! - `encode`: appends replies (RESP2 and RESP3) and commands to a `Vec<u8>`.
//! - `event`: the events that make up a reply, and the errors that parsing a reply can return.
//! - `number`: parses numbers in replies.
//! - `reply`: the incremental reply parser, which turns bytes into events.
//! - `request`: parses commands as a server receives them.
//! - `value`: complete replies as owned values, for tools and tests.

pub mod encode;
mod event;
mod number;
mod reply;
mod request;
mod value;

pub use event::{Aggregate, Event, NullForm, ReplyError, ReplyLimits};
pub use reply::ReplyParser;
pub use request::{
    Args, Limits, Parsed, ProtocolError, RequestParser, Span, UnbalancedQuotes, split_args,
};
pub use value::{ReplyReader, Value};

/// The protocol version of a connection, which is RESP2 until the client sends `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// The initial version of every connection.
    #[default]
    Resp2,
    /// The version with maps, sets, doubles, Booleans, pushes and a single null.
    Resp3,
}
