//! SHA-1s, by which EVALSHA calls scripts, and maps by them.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use sha1_smol::Sha1;

/// The SHA-1 of a text in 40 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha([u8; 40]);

impl Hash for Sha {
    /// By 32 of its bits, which are as good as any.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let (first, _) = self.0.as_chunks();
        hasher.write_u64(u64::from_ne_bytes(first[0]));
    }
}

/// A map by SHA-1s.
pub type ShaMap<T> = HashMap<Sha, T, ShaBuildHasher>;

/// Hashes SHA-1s for a table, and nothing else: they need only be spread, in a way that is another one in each process.
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

/// See [`ShaBuildHasher`].
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
    /// That of a text.
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

    /// One that a client sent, in any case; none where it is not 40 bytes long.
    pub fn parse(text: &[u8]) -> Option<Sha> {
        let mut digits: [u8; 40] = text.try_into().ok()?;
        digits.make_ascii_lowercase();
        Some(Sha(digits))
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// The SHA-1 of a text that comes in pieces.
#[derive(Default)]
pub struct IncrementalSha(Sha1);

impl IncrementalSha {
    /// Adds a piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// That of all pieces.
    pub fn end(&self) -> Sha {
        Sha::read(&self.0)
    }
}
