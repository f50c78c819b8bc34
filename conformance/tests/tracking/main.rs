//! Tests CLIENT TRACKING: the server tells clients which keys have changed, for their caches.
//!
//! - `cases`: the cases of Redis' own tests.
//! - `checker`: clients with caches, while several processes change keys at random.
//! - `random`: compares the invalidations of random commands with those of a real Redis 7.0.
//! - `sources`: changes by other servers, other processes, and the store itself.
//! - `support`: connections that separate invalidations from replies.

mod cases;
mod checker;
mod random;
mod sources;
mod support;
