//! loom models of the code in which the order of stores between processes matters: the lock with
//! takeover, the counter with fallback to the lock, the reuse of a slot, the ring of messages, the
//! seat of a waiter, and pins. The models run the code of `lock.rs`, `counter.rs`, `ring.rs`,
//! `seat.rs` and `pins.rs` on loom's atomics, over every interleaving with a bounded number of
//! preemptions. No other folder uses them.
//!
//! Each model has broken variants, which loom must reject: a model that accepts anything proves
//! nothing.
//!
//! - `parts`: a lock word with sleepers, a version counter, and the exploration.
//! - `locks`: the lock with takeover, the reuse of a slot, the version counter.
//! - `messages`: the ring of messages, and the seat of a subscriber.
//! - `pins`: a pin against the freeing of its block.

mod locks;
mod messages;
mod parts;
mod pins;
