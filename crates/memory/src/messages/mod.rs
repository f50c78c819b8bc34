//! Messages between processes, and waking the processes that wait for them. Only modules above this
//! one may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `ring`: the message ring: its words, and the order in which they are stored.
//! - `ring_reader`: reads the ring in pieces, without a lock.
//! - `ring_writer`: appends to the ring, under the ring's own lock.
//! - `polling`: how long a waiter polls before it sleeps.
//! - `seat`: a waiter's futex word, which wakers check, and its name.
//! - `bell`: descriptors for event loops.
//! - `waiters`: reserving a seat, sleeping at it, and waking.
//! - `changed_keys_reader`: reads the rings of changed keys.
//! - `tracked_keys`: the filter of the keys whose changes are recorded.
//! - `trackers`: the list of processes that read the changed keys.

pub(crate) mod bell;
pub(crate) mod changed_keys_reader;
pub(crate) mod polling;
pub(crate) mod ring;
pub(crate) mod ring_reader;
pub(crate) mod ring_writer;
pub(crate) mod seat;
pub(crate) mod tracked_keys;
pub(crate) mod trackers;
pub(crate) mod waiters;
