//! Implements a thread of the server. Used only by `server`.
//!
//! - `accepting`: rejects new connections or assigns them to threads.
//! - `bell`: notifies a thread of messages for its connections.
//! - `blocked`: connections that are blocked on keys.
//! - `changing`: switches to the store that now has the served store's name.
//! - `delayed`: connections whose login waits because earlier logins have failed, or that wait for replicas.
//! - `delivery`: delivers messages, MONITOR lines, answers and invalidations to connections.
//! - `durable_replies`: sends the replies of connections whose changes have become durable.
//! - `event_loop`: the loop that runs commands on the thread that receives them.
//! - `invalidations`: the state of a thread that concerns the invalidations of keys.
//! - `mailbox`: passes connections from one thread to another.
//! - `own_thread`: runs each long script on a separate thread.
//! - `parked`: connections whose next command is waiting for a lock.
//! - `slots`: the connections of a thread, by token.
//! - `state`: the state of a thread, and the next steps of connections after their turns.
//! - `sync_thread`: the thread that syncs the journal for the connections of all threads.
//! - `turns`: runs turns of connections with unexecuted commands.
//! - `unsynced`: lists the connections of one thread whose changes are not durable yet.
//! - `upkeep`: the first thread's periodic work for the store and for INFO.
//! - `users`: closes connections whose users were deleted or restricted.

mod accepting;
mod bell;
mod blocked;
mod changing;
mod delayed;
mod delivery;
mod durable_replies;
mod event_loop;
mod invalidations;
pub(crate) mod mailbox;
mod own_thread;
mod parked;
mod slots;
pub(crate) mod state;
pub(crate) mod sync_thread;
mod turns;
mod unsynced;
mod upkeep;
mod users;
