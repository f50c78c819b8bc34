//! Hashes and compares passwords.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The SHA-256 of a password, in lowercase hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PasswordHash([u8; 64]);

impl PasswordHash {
    /// Returns the hash of a password. O(length).
    pub(super) fn of(password: &[u8]) -> PasswordHash {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digest = Sha256::digest(password);
        let mut text = [0; 64];
        for (pair, byte) in text.as_chunks_mut().0.iter_mut().zip(digest) {
            *pair = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
        }
        PasswordHash(text)
    }

    /// Parses a hash. Returns `None` if the text is not 64 lowercase hexadecimal digits.
    pub(super) fn parse(text: &[u8]) -> Option<PasswordHash> {
        let text: [u8; 64] = text.try_into().ok()?;
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.iter().all(is_digit).then_some(PasswordHash(text))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns whether a list contains a hash. The time depends only on the length of the list.
pub(super) fn contains(hashes: &[PasswordHash], wanted: &PasswordHash) -> bool {
    let none = subtle::Choice::from(0);
    let found = hashes
        .iter()
        .fold(none, |found, hash| found | hash.0.ct_eq(&wanted.0));
    found.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_redis() {
        let hash = PasswordHash::of(b"p");
        let text = b"148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940";
        assert_eq!(hash.as_bytes(), text);
        assert_eq!(PasswordHash::parse(text), Some(hash));
        assert_eq!(PasswordHash::parse(&text.to_ascii_uppercase()), None);
        assert_eq!(PasswordHash::parse(b"148d"), None);
        assert!(contains(&[PasswordHash::of(b"x"), hash], &hash));
        assert!(!contains(&[PasswordHash::of(b"x")], &hash) && !contains(&[], &hash));
    }
}
