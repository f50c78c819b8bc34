//! Leases: only one client, among all processes, computes a cached value at a time. Only `lib.rs`
//! uses this module.
//!
//! A caller that finds a value missing takes its *lease* for a term. The lease is an ordinary
//! string at a separate key ([`lease_key`]). It names the process of its holder, so that another
//! caller takes the lease over as soon as it finds that process dead. A holder that is only stopped
//! or slow loses the lease when the term ends. The lease contains the end of the term by the boot
//! clock, which all processes of the machine share and which no step of the system clock changes.
//! Every transaction that changes a lease compares its contents first, so exactly one client holds
//! it. A value is stored only while the caller's lease is the one in the store
//! ([`Store::set_leased`](crate::Store::set_leased)): a holder that lost its lease comes too late.
//!
//! Waiters sleep at a seat in the process entry of the holder, which wakes them when it releases
//! the lease. Correctness does not depend on that wake (M4): waiters also check the lease by
//! themselves, at first every 10 ms.
//!
//! A client of a server takes the same lease with `SET key token NX PX term`. That lease names no
//! process and ends with its term.
//!
//! - `cached`: the header of a value that is refreshed before it expires.
//! - `holding`: taking, holding and releasing a lease, and waiting for one.

mod cached;
mod holding;

pub use cached::Cached;
pub use holding::{Lease, Leased};

/// Returns the key of the lease of a key's value. Both keys lie in one slot of a Redis Cluster.
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
/// KEYS: the key, and the key of the lease. ARGV: the stored lease, the value, and the milliseconds
/// until the value expires, or 0. Without the last two arguments, the script only releases the
/// lease. Returns 1, or 0 if the lease has ended.
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
