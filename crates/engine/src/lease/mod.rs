//! Leases, which ensure that only one client among all processes computes a missing cached value.
//! Only `lib.rs` uses this module.
//!
//! A caller that finds a value missing takes the *lease* on that value for a limited term. The
//! lease is an ordinary string at a separate key ([`lease_key`]). It identifies its holder's
//! process, so that another caller can take over the lease as soon as it finds that process dead. A
//! holder that is only stopped or slow loses the lease when the term ends. The lease contains the
//! end of the term by the boot clock, which all processes of the machine share and which steps of
//! the system clock do not affect. Every transaction that changes a lease first compares its
//! contents, so exactly one client holds it. A value is stored only if the caller's lease is the
//! one in the store ([`Store::set_leased`](crate::Store::set_leased)), so a holder that lost its
//! lease cannot overwrite a newer value.
//!
//! Waiters sleep on a seat (a futex slot) in the holder's entry of the process table. The holder
//! wakes them when it releases the lease. Correctness does not depend on that wake (M4), because
//! waiters also poll the lease, at first every 10 ms.
//!
//! A client of a server takes the same lease with `SET key token NX PX term`. That lease names no
//! process and lasts until its term ends.
//!
//! - `cached`: the header of a value that is refreshed before it expires.
//! - `holding`: taking, holding and releasing a lease, and waiting until a lease is free.

mod cached;
mod holding;

pub use cached::Cached;
pub use holding::{Lease, Leased};

/// Returns the key of the lease on a key's value. Both keys map to the same Redis Cluster slot.
///
/// ```
/// use undercroft_engine::leases::lease_key;
/// assert_eq!(lease_key(b"page:1"), b"undercroft:lease:{page:1}");
/// assert_eq!(lease_key(b"{user:7}:page"), b"undercroft:lease:{user:7}:page");
/// ```
pub fn lease_key(key: &[u8]) -> Vec<u8> {
    let has_tag = key
        .iter()
        .position(|&byte| byte == b'{')
        .and_then(|open| key[open + 1..].iter().position(|&byte| byte == b'}'))
        .is_some_and(|length| length > 0);
    match has_tag {
        true => [b"undercroft:lease:", key].concat(),
        false => [b"undercroft:lease:{", key, b"}"].concat(),
    }
}

/// The script with which a client of a server stores a value under a lease and releases the lease.
/// KEYS are the key and the lease's key. ARGV is the stored lease, the value, and the milliseconds
/// until the value expires, or 0. Without the last two arguments, the script only releases the
/// lease. Returns 1, or 0 if the caller no longer holds the lease.
pub const LEASE_SCRIPT: &str = "\
if redis.call('get', KEYS[2]) ~= ARGV[1] then
    return 0
end
if ARGV[3] == '0' then
    redis.call('set', KEYS[1], ARGV[2])
elseif ARGV[2] then
    redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3])
end
redis.call('del', KEYS[2])
return 1
";
