//! Messages between processes, and waking those who wait for them. The floors above may call it, and none below.
//!
//! From the lowest file to the highest:
//!
//! - `ring`: the ring of messages: its words, and the order in which they are stored.
//! - `ring_reader`: reading the ring, in pieces and without a lock.
//! - `ring_writer`: appending to the ring, under a lock of its own.
//! - `polling`: how long a waiter looks again and again before it sleeps.
//! - `seat`: a waiter's word, which wakers look at, and its name.
//! - `bell`: descriptors for event loops.
//! - `waiters`: taking a seat, sleeping there, waking.

pub(crate) mod bell;
pub(crate) mod polling;
pub(crate) mod ring;
pub(crate) mod ring_reader;
pub(crate) mod ring_writer;
pub(crate) mod seat;
pub(crate) mod waiters;
