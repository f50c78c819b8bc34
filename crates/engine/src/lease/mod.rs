//! One computation of a cached value in all processes: leases, and what is noted of the value. Only `lib.rs` uses it.
//!
//! A caller that finds a value missing takes its *lease*, an ordinary string at a key of its own beside the value's
//! ([`lease_key`]), with a term. It names the process that has it, so that another caller takes the
//! lease over as soon as it finds that process dead; a holder that is only stopped or slow loses it with the term. The
//! term's end stands in it by the clock of the boot, which all processes of the machine share and no step of the system's
//! time changes. All
//! change it in transactions that compare what is in it, so that exactly one has it. A value is stored for a lease only
//! while that is the one in the store ([`Store::set_leased`](crate::Store::set_leased)): a holder that lost its lease
//! comes too late.
//!
//! Those who wait sleep at a seat's word in the entry of the process that computes. It wakes them when it gives the
//! lease back. Nothing depends on that (M4): they look by themselves, at first every 10 ms.
//!
//! A client of a server takes the same lease by `SET key token NX PX term`. It names no process, and ends with its
//! term.
//!
//! - `cached`: what stands in front of a value that is refreshed before it expires.
//! - `holding`: taking, keeping and giving back a lease, and waiting for one.

mod cached;
mod holding;

pub use cached::Cached;
pub use holding::{Lease, Leased};

/// The key of the lease of a key's value. Both lie in one slot of a Redis Cluster.
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

/// How a client of a server stores a value for a lease and gives that back: as a script. KEYS: the key, that of the
/// lease. ARGV: what is stored of the lease; the value, and the milliseconds until it expires, or 0; without these two
/// the lease is only given back. Returns 1, or 0 where the lease is over.
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
