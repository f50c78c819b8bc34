//! Compares glob matching with the KEYS command of a real server.

use undercroft_commands::reply::Tree;
use undercroft_engine::glob::{Case, matches};

use crate::support::{RealServer, random};

#[test]
fn random_patterns_match_the_same_keys() {
    const PATTERNS: usize = 5_000;
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    let alphabet = b"abcA*?[]^-\\\x00\x7f\x80\xff";
    let mut text = |longest: usize| -> Vec<u8> {
        (0..random.usize(..=longest))
            .map(|_| alphabet[random.usize(..alphabet.len())])
            .collect()
    };
    let keys: Vec<Vec<u8>> = (0..400).map(|_| text(5)).collect();
    for key in &keys {
        client.call(&[b"SET", key, b""]);
    }
    let mut hits = 0;
    for _ in 0..PATTERNS {
        let pattern = text(7);
        let Tree::Array(found) = client.call(&[b"KEYS", &pattern]) else {
            panic!("KEYS answers an array")
        };
        let mut found: Vec<Vec<u8>> = found
            .into_iter()
            .map(|key| match key {
                Tree::Bulk(bytes) => bytes,
                other => panic!("not a key: {other:?}"),
            })
            .collect();
        // For the pattern `*`, Redis' KEYS returns all keys without matching them.
        let ours =
            |key: &&Vec<u8>| pattern == b"*" || matches(&pattern, key, Case::Sensitive) == Ok(true);
        let mut expected: Vec<Vec<u8>> = keys.iter().filter(ours).cloned().collect();
        expected.sort();
        expected.dedup();
        found.sort();
        hits += found.len();
        assert_eq!(expected, found, "pattern {}", pattern.escape_ascii());
    }
    println!("{hits} keys found by {PATTERNS} patterns");
    assert!(hits > PATTERNS, "the patterns must find something");
}
