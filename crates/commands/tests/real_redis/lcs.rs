//! Compares LCS and LCS IDX with a real server.

use undercroft_commands::algorithms::lcs;
use undercroft_commands::reply::Tree;

use crate::support::{RealServer, random};

#[test]
fn subsequences_and_matches_equal_those_of_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    for _ in 0..3_000 {
        let letters = random.u8(2..6);
        let mut text = || {
            (0..random.usize(..60))
                .map(|_| b'a' + random.u8(..letters))
                .collect::<Vec<u8>>()
        };
        let (a, b) = (text(), text());
        client.call(&[b"MSET", b"a", &a, b"b", &b]);
        let runs = lcs::matches(&a, &b);
        let sequence = lcs::sequence(&a, &runs);
        assert_eq!(
            client.words("LCS a b"),
            Tree::Bulk(sequence),
            "{} {}",
            a.escape_ascii(),
            b.escape_ascii()
        );
        let integer = |value: usize| Tree::Integer(value as i64);
        let items = runs.iter().map(|run| {
            let range = |start| Tree::Array(vec![integer(start), integer(start + run.length - 1)]);
            Tree::Array(vec![
                range(run.first_start),
                range(run.second_start),
                integer(run.length),
            ])
        });
        let expected = Tree::Array(vec![
            Tree::Bulk(b"matches".to_vec()),
            Tree::Array(items.collect()),
            Tree::Bulk(b"len".to_vec()),
            integer(lcs::length(&a, &b)),
        ]);
        assert_eq!(
            client.words("LCS a b IDX WITHMATCHLEN"),
            expected,
            "{} {}",
            a.escape_ascii(),
            b.escape_ascii()
        );
    }
}

#[test]
fn rejected_lcs_sizes_equal_redis() {
    const LIMIT: u64 = 1024 * 1024;
    let Some(server) = RealServer::start(&["--proto-max-bulk-len", "1mb"]) else {
        return;
    };
    let mut client = server.connect();
    let mut refused = 0;
    for length in [
        0, 1, 254, 255, 256, 257, 509, 510, 511, 512, 513, 1022, 1023, 1024,
    ] {
        for other in [255, 510, 511, 512, 1023] {
            client.call(&[b"MSET", b"a", &vec![b'x'; length], b"b", &vec![b'x'; other]]);
            let expected = match lcs::check_size(length, other, LIMIT) {
                Ok(()) => Tree::Integer(length.min(other) as i64),
                Err(error) => Tree::Error(error.message().into()),
            };
            refused += u32::from(matches!(expected, Tree::Error(_)));
            assert_eq!(
                client.words("LCS a b LEN"),
                expected,
                "{length} and {other}"
            );
        }
    }
    assert!(refused > 0);
}
