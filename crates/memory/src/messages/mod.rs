//! Messages between processes, and waking those who wait for them.
//!
//! - `bell`: descriptors for event loops.
//! - `polling`: how long a waiter looks again and again before it sleeps.
//! - `ring`: the ring of messages: records appended under a lock of its own.
//! - `ring_reader`: reading the ring, in pieces and without a lock.
//! - `seat`: waiting for messages: a word that whoever has one looks at.

pub(crate) mod bell;
pub(crate) mod polling;
pub(crate) mod ring;
pub(crate) mod ring_reader;
pub(crate) mod seat;
