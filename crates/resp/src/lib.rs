//! The Redis wire format, RESP2 and RESP3: encoding and decoding, no I/O.
//!
//! Everything here works on byte slices that the caller owns:
//!
//! * [`RequestParser`] finds the commands in what a client sent, as byte ranges into the receive buffer;
//! * [`encode`] appends replies and commands to a `Vec<u8>`;
//! * [`ReplyParser`] turns what a server sent into a sequence of [`Event`]s, of which a client builds objects of its own
//!   language, and [`ReplyReader`] turns those into
//!   owned [`Value`]s.
//!
//! Both parsers take input in pieces of any size, stop where the bytes end and go on from that very byte: the work is
//! linear in the bytes received, whatever their arrival looks like. Neither recurses, neither allocates for a length
//! that a peer merely announced, and neither panics on any input.
//!
//! - `encode`: appends replies (RESP2 and RESP3) and commands to a `Vec<u8>`.
//! - `event`: what a reply consists of, and what can be wrong with one.
//! - `number`: numbers in replies, as clients read them.
//! - `reply`: the incremental reply parser: bytes in, events out.
//! - `request`: commands as a server receives them.
//! - `value`: whole replies as owned values, for tools and tests.

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

/// Protocol version of a connection: RESP2 until the client says `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// What every connection starts with.
    #[default]
    Resp2,
    /// Maps, sets, doubles, booleans, pushes and one null.
    Resp3,
}
