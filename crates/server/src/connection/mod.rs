//! Implements a connection: its received bytes, the commands in them, and the replies. Used by
//! workers.
//!
//! - `commands`: runs one turn, in which the commands in the input are parsed and executed.
//! - `identity`: logs a connection in as the user that the client's certificate names.
//! - `incoming`: receives a long value from a socket directly into the store.
//! - `output`: the unsent replies and their buffers.
//! - `proxied`: gives a connection through a proxy the address of its client.
//! - `state`: a connection and its buffers.
//! - `writer`: encodes replies, and appends their bytes to a connection's output.

mod commands;
mod identity;
mod incoming;
mod output;
pub(crate) mod proxied;
pub(crate) mod state;
pub(crate) mod writer;
