//! One connection: what it has received, the commands in that, and its replies. Workers use it.
//!
//! - `commands`: one turn: the commands in the input, parsed and run.
//! - `incoming`: a long value on its way from a socket straight into the store.
//! - `output`: replies on their way to a client, and the memory that they wait in.
//! - `state`: a connection and its buffers.
//! - `writer`: replies as bytes of the protocol, appended to a connection's output.

mod commands;
mod incoming;
mod output;
pub(crate) mod state;
pub(crate) mod writer;
