//! One connection: its received bytes, the commands in them, and the replies. Used by workers.
//!
//! - `commands`: one turn: the commands in the input are parsed and executed.
//! - `incoming`: a long value that is received from a socket directly into the store.
//! - `output`: replies that wait to be sent, and their buffers.
//! - `state`: a connection and its buffers.
//! - `writer`: replies as bytes of the protocol, appended to a connection's output.

mod commands;
mod incoming;
mod output;
pub(crate) mod state;
pub(crate) mod writer;
