//! One thread of the server. Used only by `server`.
//!
//! - `accepting`: new connections.
//! - `bell`: the notification about messages for the thread's connections.
//! - `blocked`: connections whose command waits for keys.
//! - `changing`: moving to the store that now has the served store's name.
//! - `delivery`: messages, lines of MONITOR and answers for connections.
//! - `event_loop`: the loop that runs commands on the thread that receives them.
//! - `mailbox`: connections on their way from one thread to another.
//! - `own_thread`: long scripts, each on a separate thread.
//! - `parked`: connections whose next command waits for a lock.
//! - `slots`: connections by token.
//! - `state`: the state of a thread, and the next steps for connections after their turns.
//! - `turns`: turns of connections with unexecuted commands.
//! - `upkeep`: periodic work of the first thread for the store and for INFO.

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
