//! One thread of the server. Only `server` uses it.
//!
//! - `accepting`: connections that come in.
//! - `bell`: what tells of messages for the thread's connections.
//! - `blocked`: connections whose command waits for keys.
//! - `changing`: changing to the store that the name means now.
//! - `delivery`: messages, lines of MONITOR and answers for connections.
//! - `event_loop`: the loop that runs commands right where their bytes arrive.
//! - `mailbox`: connections on their way from one thread to another.
//! - `own_thread`: scripts that take long, each on a thread of its own.
//! - `parked`: connections whose next command waits for a lock.
//! - `slots`: connections by token.
//! - `state`: what a thread has, and what a connection needs after its turn.
//! - `turns`: turns of connections that have commands left.
//! - `upkeep`: what the first thread does a few times a second for the store and for INFO.

mod accepting;
mod bell;
mod blocked;
mod changing;
mod delivery;
mod event_loop;
pub(crate) mod mailbox;
mod own_thread;
mod parked;
mod slots;
pub(crate) mod state;
mod turns;
mod upkeep;
