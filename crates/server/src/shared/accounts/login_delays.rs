//! Delays logins from addresses from which logins have failed, so that passwords cannot be guessed
//! quickly.
//!
//! The first failures are free. After that, each failure doubles the time in which no login from the
//! address is tried. Failures are forgotten one by one.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The number of failures that cause no delay.
const FREE: u32 = 8;
/// The delay after the next failure, in milliseconds.
const FIRST: i64 = 50;
/// The longest delay, in milliseconds.
const LONGEST: i64 = 5_000;
/// After this time without a failure, in milliseconds, one failure is forgotten.
const FORGOTTEN: i64 = 10_000;
/// The number of failures above which failures are no longer counted, so that an address is forgotten
/// within a few minutes.
const MOST_FAILURES: u32 = 24;
/// The maximum number of addresses.
const MOST_ADDRESSES: usize = 4096;

/// An address, or `None` for all clients of the Unix socket. IPv6 clients usually have a network of
/// 2^64 addresses, so only the network counts.
type Address = Option<IpAddr>;

/// The failed logins from one address. Times are in Unix milliseconds.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: i64,
    until: i64,
}

impl Failures {
    /// Returns the number of failures that are not forgotten.
    fn remembered(&self, now: i64) -> u32 {
        let forgotten = (now - self.last).max(0) / FORGOTTEN;
        self.count
            .saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

/// The failed logins of a server.
#[derive(Debug, Default)]
pub(crate) struct LoginDelays {
    /// Whether any address is in the table, so that most logins need not look into it.
    has_any: AtomicBool,
    addresses: Mutex<HashMap<Address, Failures>>,
}

fn address_of(peer: &str) -> Address {
    let ip = peer.parse::<SocketAddr>().ok()?.ip().to_canonical();
    Some(match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => {
            let network = ip.to_bits() >> 64 << 64;
            IpAddr::V6(network.into())
        }
    })
}

impl LoginDelays {
    /// Records a failed login. O(1), or O(addresses) if the table is full.
    pub(crate) fn fail(&self, peer: &str, now: i64) {
        let mut addresses = self.lock();
        let address = address_of(peer);
        if addresses.len() >= MOST_ADDRESSES && !addresses.contains_key(&address) {
            addresses.retain(|_, failures| failures.remembered(now) > 0);
            let least = addresses.iter().min_by_key(|(_, failures)| failures.until);
            if addresses.len() >= MOST_ADDRESSES
                && let Some(least) = least.map(|(address, _)| *address)
            {
                addresses.remove(&least);
            }
        }
        let old = addresses.get(&address);
        let count = old.map_or(0, |old| old.remembered(now)) + 1;
        let doublings = count.checked_sub(FREE + 1);
        let delay = doublings.map_or(0, |doublings| (FIRST << doublings.min(20)).min(LONGEST));
        addresses.insert(
            address,
            Failures {
                count: count.min(MOST_FAILURES),
                last: now,
                until: now + delay,
            },
        );
        self.has_any.store(true, Ordering::Relaxed);
    }

    /// Returns how long a login from an address must wait, or `None` if it need not.
    pub(crate) fn delay(&self, peer: &str, now: i64) -> Option<Duration> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        let addresses = self.lock();
        let until = addresses.get(&address_of(peer))?.until;
        let left = u64::try_from(until - now).ok().filter(|&left| left > 0)?;
        // The clock may have been set back.
        Some(Duration::from_millis(left.min(LONGEST.unsigned_abs())))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Address, Failures>> {
        // Every change is a single insertion or removal, so the table is sound after a panic.
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_by_address_and_are_forgotten() {
        let delays = LoginDelays::default();
        let (one, same, other) = ("10.0.0.1:5", "10.0.0.1:6", "10.0.0.2:5");
        for _ in 0..FREE {
            delays.fail(one, 0);
        }
        assert_eq!(delays.delay(one, 0), None);
        delays.fail(same, 0);
        assert_eq!(delays.delay(one, 0), Some(Duration::from_millis(50)));
        assert_eq!(delays.delay(one, 50), None);
        delays.fail(one, 50);
        assert_eq!(delays.delay(same, 60), Some(Duration::from_millis(90)));
        assert_eq!(delays.delay(other, 60), None);
        for _ in 0..100 {
            delays.fail(one, 100);
        }
        assert_eq!(delays.delay(one, 100), Some(Duration::from_secs(5)));
        let later = 100 + FORGOTTEN * i64::from(MOST_FAILURES);
        delays.fail(one, later);
        assert_eq!(delays.delay(one, later), None);
    }

    #[test]
    fn network_of_an_ipv6_address_counts() {
        assert_eq!(
            address_of("[2001:db8::1]:5"),
            address_of("[2001:db8::ffff:1]:6")
        );
        assert_ne!(
            address_of("[2001:db8::1]:5"),
            address_of("[2001:db8:0:1::1]:5")
        );
        assert_eq!(address_of("[::ffff:10.0.0.1]:5"), address_of("10.0.0.1:5"));
        assert_eq!(address_of("/run/socket:0"), None);
    }

    #[test]
    fn table_of_addresses_is_bounded() {
        let delays = LoginDelays::default();
        let guessed = "9.9.9.9:1";
        for _ in 0..50 {
            delays.fail(guessed, 0);
        }
        for number in 0..10_000_u32 {
            let ip = std::net::Ipv4Addr::from_bits(number);
            delays.fail(&format!("{ip}:1"), 0);
        }
        assert_eq!(delays.lock().len(), MOST_ADDRESSES);
        assert!(delays.delay(guessed, 0).is_some());
    }
}
