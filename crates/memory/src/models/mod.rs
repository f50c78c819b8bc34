//! Loom models of the code whose memory ordering between processes matters: the lock (including its
//! seizure from a dead owner), the version counter (including the fallback to the lock), slot
//! reuse, the message ring, a waiter's seat, and pins. The models run the code of `lock.rs`,
//! `counter.rs`, `ring.rs`, `seat.rs` and `pins.rs` on loom's atomics, in every interleaving with a
//! bounded number of preemptions. No other module uses them.
//!
//! Each model has broken variants, which loom must reject: a model that accepts everything proves
//! nothing.
//!
//! - `parts`: a lock word with sleepers, a version counter, and the exploration.
//! - `locks`: the lock, slot reuse, and the version counter.
//! - `messages`: the message ring, and a subscriber's seat.
//! - `pins`: a pin, while another process frees the pinned block.

mod locks;
mod messages;
mod parts;
mod pins;
