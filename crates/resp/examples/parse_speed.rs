//! Measures how long the request parser takes per command, and how long the encoder and the reply
//! parser take per reply.
//!
//! `cargo run --release -p undercroft-resp --example parse_speed` prints medians of interleaved
//! rounds. The input is that of `redis-benchmark -P 64`: pipelines of 64 commands, parsed from one
//! receive buffer.

use std::hint::black_box;
use std::time::Instant;
use undercroft_resp::{Parsed, ReplyParser, RequestParser, encode};

const PIPELINE: usize = 64;
const ROUNDS: usize = 41;
const PASSES: usize = 500;

/// Runs one round. Returns the time per item in nanoseconds.
fn round(work: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..PASSES {
        work();
    }
    start.elapsed().as_nanos() as f64 / (PASSES * PIPELINE) as f64
}

fn pipeline(args: &[&[u8]]) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..PIPELINE {
        encode::command(&mut input, args);
    }
    input
}

/// Parses an entire buffer as a server does, and reads each argument.
fn parse_all(parser: &mut RequestParser, input: &[u8]) -> usize {
    let mut start = 0;
    let mut commands = 0;
    while let Ok(Parsed::Command(len)) = parser.parse(&input[start..]) {
        for arg in parser.args(&input[start..]).iter() {
            black_box(arg);
        }
        start += len;
        commands += 1;
    }
    commands
}

fn main() {
    let key = b"key:000000000001";
    let value = [b'x'; 64];
    let inputs = [
        ("parse GET, 2 arguments", pipeline(&[b"GET", key])),
        ("parse SET, 3 arguments", pipeline(&[b"SET", key, &value])),
        (
            "parse SET EX, 5 arguments",
            pipeline(&[b"SET", key, &value, b"EX", b"100"]),
        ),
        (
            "parse GET, inline",
            b"GET key:000000000001\r\n".repeat(PIPELINE),
        ),
    ];
    let (mut bulks, mut integers) = (Vec::new(), Vec::new());
    encode::array(&mut integers, PIPELINE);
    for integer in 0..PIPELINE as i64 {
        encode::bulk(&mut bulks, &value);
        encode::integer(&mut integers, integer * 1_234_567);
    }
    let mut parser = RequestParser::default();
    let mut out = Vec::new();
    let mut names = Vec::new();
    let mut times: Vec<Vec<f64>> = Vec::new();
    for number in 0..ROUNDS {
        let mut results = Vec::new();
        for (name, input) in &inputs {
            let time = round(&mut || {
                assert_eq!(parse_all(&mut parser, black_box(input)), PIPELINE);
            });
            results.push((*name, time));
        }
        let time = round(&mut || {
            out.clear();
            for _ in 0..PIPELINE {
                encode::bulk(&mut out, black_box(&value));
            }
            black_box(&out);
        });
        results.push(("encode a bulk of 64 bytes", time));
        let time = round(&mut || {
            out.clear();
            for integer in 0..PIPELINE as i64 {
                encode::integer(&mut out, black_box(integer * 1_234_567));
            }
            black_box(&out);
        });
        results.push(("encode an integer", time));
        let mut replies = ReplyParser::default();
        let mut read = |input: &[u8]| {
            let mut rest = input;
            while let Ok(Some(event)) = replies.next(&mut rest) {
                black_box(event);
            }
            assert!(rest.is_empty() && replies.between_replies());
        };
        results.push(("read a bulk of 64 bytes", round(&mut || read(&bulks))));
        results.push(("read an array's integer", round(&mut || read(&integers))));
        if number == 0 {
            names = results.iter().map(|(name, _)| *name).collect();
            times = vec![Vec::new(); results.len()];
        }
        for (column, (_, time)) in times.iter_mut().zip(&results) {
            column.push(*time);
        }
    }
    for (name, column) in names.iter().zip(&mut times) {
        column.sort_by(f64::total_cmp);
        println!(
            "{name:28} {:7.1} ns (fastest round {:.1})",
            column[ROUNDS / 2],
            column[0]
        );
    }
}
