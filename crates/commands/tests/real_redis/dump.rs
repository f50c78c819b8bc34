//! DUMP's bytes, and RESTORE's acceptance in both directions.

use undercroft_commands::dump::{dump_string, restore_string};
use undercroft_commands::reply::Tree;

use crate::support::{RealServer, random};

const LIMIT: usize = 512 << 20;

/// Values of every encoding: integers, noise, and text with repetitions near and far.
fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = match random.u8(..4) {
        0 => random.usize(..30),
        1 => random.usize(..300),
        2 => random.usize(..5_000),
        _ => random.usize(..40_000),
    };
    match random.u8(..6) {
        0 => (random.i64(..) >> random.u32(..64))
            .to_string()
            .into_bytes(),
        1 => (0..length).map(|_| random.u8(..)).collect(),
        2 => vec![random.u8(..); length],
        3 => {
            let letters = random.u8(1..=30);
            (0..length).map(|_| random.u8(..letters)).collect()
        }
        _ => {
            let words: Vec<Vec<u8>> = (0..random.usize(1..40))
                .map(|_| (0..random.usize(1..12)).map(|_| random.u8(..)).collect())
                .collect();
            let mut text = Vec::new();
            while text.len() < length {
                text.extend(&words[random.usize(..words.len())]);
            }
            text
        }
    }
}

#[test]
fn payloads_equal_a_real_servers() {
    const VALUES: usize = 4_000;
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    let mut different = 0;
    for _ in 0..VALUES {
        let value = value(&mut random);
        client.call(&[b"SET", b"k", &value]);
        let Tree::Bulk(theirs) = client.words("DUMP k") else {
            panic!("DUMP answers a string")
        };
        let ours = dump_string(&value);
        assert_eq!(
            restore_string(&theirs, LIMIT).as_deref(),
            Ok(&value[..]),
            "their payload of {}",
            value.escape_ascii()
        );
        let restored = client.call(&[b"RESTORE", b"r", b"0", &ours, b"REPLACE"]);
        assert_eq!(
            restored,
            Tree::Simple("OK".into()),
            "our payload of {}",
            value.escape_ascii()
        );
        assert_eq!(client.words("GET r"), Tree::Bulk(value));
        different += usize::from(ours != theirs);
    }
    assert_eq!(
        different, 0,
        "of {VALUES} payloads differ in the matches chosen"
    );
}

#[test]
fn of_damaged_payloads_no_more_are_taken_than_redis_takes() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    // A valid checksum around damaged content reaches the decoder itself.
    let seal = |body: &[u8]| {
        let crc = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);
        let mut payload = [body, &10u16.to_le_bytes()].concat();
        let checksum = crc.checksum(&payload);
        payload.extend(checksum.to_le_bytes());
        payload
    };
    let mut refused = 0;
    for round in 0..3_000 {
        let text: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..3)).collect();
        let mut payload = dump_string(&text);
        let position = random.usize(1..payload.len());
        payload[position] ^= 1 << random.u8(..8);
        // Mostly sealed again; lengths beyond the payload would make the real server allocate them, or stop.
        if round % 4 > 0 {
            let body = payload.len() - 10;
            payload = seal(&payload[..body]);
            if payload
                .get(1)
                .is_some_and(|byte| *byte == 0x81 || *byte == 0x80)
            {
                continue;
            }
        }
        let theirs = client.call(&[b"RESTORE", b"r", b"0", &payload, b"REPLACE"]);
        match restore_string(&payload, LIMIT) {
            Ok(value) => {
                assert_eq!(
                    theirs,
                    Tree::Simple("OK".into()),
                    "{}",
                    payload.escape_ascii()
                );
                assert_eq!(
                    client.words("GET r"),
                    Tree::Bulk(value),
                    "{}",
                    payload.escape_ascii()
                );
            }
            // Redis also takes some damage for values: a length that reaches into the footer, an integer's marker
            // in the place of a length.
            Err(error) => {
                let expected = [
                    Tree::Error(error.message().into()),
                    Tree::Simple("OK".into()),
                ];
                assert!(
                    expected.contains(&theirs),
                    "{theirs:?} for {}",
                    payload.escape_ascii()
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 500, "{refused}");
}
