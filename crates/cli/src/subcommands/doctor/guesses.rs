//! Guesses passwords of which only the hash is known.

use sha2::{Digest, Sha256};

/// Passwords of lists of common passwords, and those of examples for Redis.
const COMMON: &[&str] = &[
    "",
    "123",
    "1234",
    "12345",
    "123456",
    "1234567",
    "12345678",
    "123456789",
    "1234567890",
    "111111",
    "000000",
    "123123",
    "654321",
    "abc123",
    "admin",
    "administrator",
    "changeme",
    "default",
    "dev",
    "development",
    "foobared",
    "guest",
    "hello",
    "letmein",
    "master",
    "mypass",
    "p1pp0",
    "pass",
    "passw0rd",
    "password",
    "Password",
    "password1",
    "password123",
    "prod",
    "production",
    "qwerty",
    "redis",
    "root",
    "secret",
    "staging",
    "test",
    "test123",
    "toor",
    "undercroft",
    "user",
    "valkey",
    "welcome",
];
/// Endings of passwords that begin with the user's name.
const ENDINGS: &[&str] = &[
    "",
    "1",
    "12",
    "123",
    "1234",
    "!",
    "pass",
    "password",
    "-password",
];

/// Returns the password of a user if it is one of the first that an attacker tries. `hash` is its
/// SHA-256 hash in hexadecimal, as ACL LIST shows it. O(guesses).
pub(super) fn guess(user: &str, hash: &str) -> Option<String> {
    let common = COMMON.iter().map(|word| (*word).to_owned());
    let named = ENDINGS.iter().map(|ending| format!("{user}{ending}"));
    common.chain(named).find(|password| {
        let digest = Sha256::digest(password);
        let shown: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        shown.eq_ignore_ascii_case(hash)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_passwords_are_guessed() {
        // The hashes come from `sha256sum`.
        let foobared = "1b58ee375b42e41f0e48ef2ff27d10a5b1f6924a9acdcdba7cae868e7adce6bf";
        assert_eq!(guess("ann", foobared).as_deref(), Some("foobared"));
        let named = "e652a79163e2f96c804049213629c965a7289f7b3dda6dbf7bb17e55708c4f90";
        assert_eq!(guess("ann", named).as_deref(), Some("ann123"));
        assert_eq!(guess("bob", named), None);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(guess("ann", empty).as_deref(), Some(""));
        assert_eq!(guess("ann", &"0".repeat(64)), None);
    }
}
