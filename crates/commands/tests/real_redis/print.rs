//! Compares printed replies with those of redis-cli.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;

use undercroft_commands::reply::{Tree, print};

use crate::support::{encode, random};

/// Returns a random scalar. Big numbers are excluded, because redis-cli 7.0 fails on them with
/// "Unknown reply type".
fn scalar(random: &mut fastrand::Rng) -> Tree {
    match random.u8(..9) {
        0 => Tree::Simple("OK".into()),
        1 => Tree::Error("ERR something happened".into()),
        2 => Tree::Integer(random.i64(..)),
        3 => Tree::Null,
        4 => Tree::NullArray,
        5 => Tree::Double([1.5, -0.0, f64::INFINITY, 1e-9, 1e300][random.usize(..5)]),
        6 => Tree::Boolean(random.bool()),
        7 => Tree::Verbatim {
            format: "txt".into(),
            text: b"two\nlines\x01".to_vec(),
        },
        _ => Tree::Bulk((0..random.usize(..12)).map(|_| random.u8(..)).collect()),
    }
}

fn tree(random: &mut fastrand::Rng, depth: u32) -> Tree {
    if depth == 0 || random.u8(..3) == 0 {
        return scalar(random);
    }
    let length = if random.u8(..4) == 0 {
        random.usize(9..13)
    } else {
        random.usize(..4)
    };
    let kind = random.u8(..4);
    let mut items = |count: usize| {
        (0..count)
            .map(|_| tree(random, depth - 1))
            .collect::<Vec<Tree>>()
    };
    match kind {
        0 | 1 => Tree::Array(items(length)),
        2 => Tree::Set(items(length)),
        _ => Tree::Map(items(length).into_iter().zip(items(length)).collect()),
    }
}

/// Reads and discards one RESP command. Returns `false` at the end of the connection.
fn skip_command(reader: &mut impl BufRead) -> bool {
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return false;
    }
    let count: usize = line[1..].trim_end().parse().expect("an array of arguments");
    for _ in 0..count {
        line.clear();
        reader.read_line(&mut line).expect("a length");
        let length: usize = line[1..].trim_end().parse().expect("a bulk string");
        reader
            .read_exact(&mut vec![0; length + 2])
            .expect("an argument");
    }
    true
}

#[test]
fn random_replies_print_as_redis_cli_prints_them() {
    let version = Command::new("redis-cli").arg("--version").output();
    if !version.is_ok_and(|output| output.stdout.starts_with(b"redis-cli 7.0.")) {
        println!("skipped: redis-cli 7.0 is not installed");
        return;
    }
    let mut random = random();
    let mut trees: Vec<Tree> = (0..300).map(|_| tree(&mut random, 4)).collect();
    trees.push(Tree::Array((0..120).map(Tree::Integer).collect()));
    trees.push(Tree::Bulk((0..=255).collect()));
    // Sort the smallest replies first, so that a failure is easy to read.
    trees.sort_by_key(|tree| format!("{tree:?}").len());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a spare port");
    let port = listener
        .local_addr()
        .expect("an address")
        .port()
        .to_string();
    for tree in &trees {
        let mut answer = Vec::new();
        encode(tree, &mut answer);
        let output = std::thread::scope(|scope| {
            // Skip the first command, which is the HELLO that redis-cli sends when it connects.
            scope.spawn(|| {
                let (stream, _) = listener.accept().expect("redis-cli connects");
                let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
                let mut writer = stream;
                assert!(skip_command(&mut reader), "HELLO");
                writer.write_all(b"%0\r\n").expect("redis-cli reads");
                if skip_command(&mut reader) {
                    writer.write_all(&answer).expect("redis-cli reads");
                }
                while skip_command(&mut reader) {}
            });
            Command::new("redis-cli")
                .args(["-3", "-p", &port, "GET", "k"])
                .env("FAKETTY", "1")
                .output()
        });
        let output = output.expect("redis-cli runs");
        let (ours, theirs) = (print(tree), output.stdout);
        let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        let around = |text: &[u8]| {
            text[same.saturating_sub(300).min(text.len())..]
                .escape_ascii()
                .to_string()
        };
        assert!(
            ours == theirs,
            "ours:\n{}\nredis-cli's:\n{}\n{tree:?}",
            around(&ours),
            around(&theirs)
        );
    }
}
