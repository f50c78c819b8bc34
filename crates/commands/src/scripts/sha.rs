//! Computes SHA-1 digests, which identify scripts in EVALSHA, and provides maps keyed by digests.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use sha1_smol::Sha1;

/// A SHA-1 digest as 40 lowercase hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha([u8; 40]);

impl Hash for Sha {
    /// Hashes only 32 bits of the digest, because digests are already uniformly distributed.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let (first, _) = self.0.as_chunks();
        hasher.write_u64(u64::from_ne_bytes(first[0]));
    }
}

/// A hash map keyed by SHA-1 digests.
pub type ShaMap<T> = HashMap<Sha, T, ShaBuildHasher>;

/// A hasher for maps keyed only by SHA-1 digests. Digests are already uniformly distributed, so
/// this hasher only mixes in a seed that differs in each process.
#[derive(Clone)]
pub struct ShaBuildHasher(u64);

impl Default for ShaBuildHasher {
    fn default() -> ShaBuildHasher {
        ShaBuildHasher(RandomState::new().hash_one(()))
    }
}

impl BuildHasher for ShaBuildHasher {
    type Hasher = ShaHasher;

    fn build_hasher(&self) -> ShaHasher {
        ShaHasher(self.0)
    }
}

/// The hasher that [`ShaBuildHasher`] builds.
pub struct ShaHasher(u64);

impl Hasher for ShaHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let words = bytes.iter().map(|byte| u64::from(*byte));
        words.for_each(|word| self.write_u64(word));
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Sha {
    /// Returns the SHA-1 digest of a text.
    pub fn of(text: &[u8]) -> Sha {
        Sha::read(&Sha1::from(text))
    }

    pub(super) fn read(hashed: &Sha1) -> Sha {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bytes = hashed.digest().bytes();
        let mut digits = [0; 40];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Sha(digits)
    }

    /// Parses a digest that a client sent, in upper or lower case. Returns `None` unless it has
    /// exactly 40 bytes.
    pub fn parse(text: &[u8]) -> Option<Sha> {
        let mut digits: [u8; 40] = text.try_into().ok()?;
        digits.make_ascii_lowercase();
        Some(Sha(digits))
    }

    /// Returns the 40 hexadecimal digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// Computes the SHA-1 digest of a text that arrives in pieces.
#[derive(Default)]
pub struct IncrementalSha(Sha1);

impl IncrementalSha {
    /// Adds a piece of the text.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Returns the digest of all pieces added so far.
    pub fn end(&self) -> Sha {
        Sha::read(&self.0)
    }
}
