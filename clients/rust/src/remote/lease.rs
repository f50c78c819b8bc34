//! Leases on a server.

use undercroft_engine::{LEASE_SCRIPT, lease_key};

/// The words of a command, for who outlives the call that it belongs to.
pub(crate) type Words = Vec<Vec<u8>>;

/// What is stored of a lease: nobody else's is the same.
pub(crate) fn token() -> Vec<u8> {
    format!("{:032x}", fastrand::u128(..)).into_bytes()
}

/// Stores a value for a lease, with milliseconds until it expires, or 0.
pub(crate) fn set(key: &[u8], token: &[u8], value: &[u8], time: &[u8]) -> Words {
    let mut words = release(key, token);
    words.extend([value.to_vec(), time.to_vec()]);
    words
}

/// Gives a lease back.
pub(crate) fn release(key: &[u8], token: &[u8]) -> Words {
    let words: [&[u8]; 4] = [b"EVAL", LEASE_SCRIPT.as_bytes(), b"2", key];
    let mut words: Words = words.map(<[u8]>::to_vec).into();
    words.extend([lease_key(key), token.to_vec()]);
    words
}
