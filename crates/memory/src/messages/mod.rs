//! Messages between processes, and waking the processes that wait for them. Folders above may use
//! this one, folders below may not.
//!
//! From the lowest file to the highest:
//!
//! - `ring`: the ring of messages: its words, and the order in which they are stored.
//! - `ring_reader`: reading the ring, in pieces and without a lock.
//! - `ring_writer`: appending to the ring, under the ring's own lock.
//! - `polling`: how long a waiter polls before it sleeps.
//! - `seat`: a waiter's word, which wakers check, and its name.
//! - `bell`: descriptors for event loops.
//! - `waiters`: taking a seat, sleeping there, waking.

pub(crate) mod bell;
pub(crate) mod polling;
pub(crate) mod ring;
pub(crate) mod ring_reader;
pub(crate) mod ring_writer;
pub(crate) mod seat;
pub(crate) mod waiters;
