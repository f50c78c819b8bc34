//! Compares the digits that INCRBYFLOAT returns with those of a real server.

use undercroft_commands::algorithms::extended::Extended;
use undercroft_commands::reply::Tree;

use crate::support::{RealServer, random};

const PAIRS: usize = 20_000;

/// Returns a random number in one of many forms: short and long decimals, all exponents,
/// hexadecimal numbers, and invalid forms that resemble numbers.
fn number(random: &mut fastrand::Rng) -> String {
    let digits = |random: &mut fastrand::Rng, most: usize| -> String {
        (0..random.usize(1..=most))
            .map(|_| random.digit(10))
            .collect()
    };
    let sign = ["", "-", "+"][random.usize(..3)];
    let fixed = format!("{}.{}", digits(random, 12), digits(random, 25));
    match random.u8(..12) {
        0 => format!("{sign}{}", digits(random, 20)),
        1 => format!(
            "{sign}0.{}{}",
            "0".repeat(random.usize(..20)),
            digits(random, 22)
        ),
        2 => format!("{sign}{fixed}e{}", random.i32(-30..30)),
        3 => format!("{sign}{fixed}e{}", random.i32(-4990..4960)),
        4 => format!(
            "{sign}0x{:x}.{:x}p{}",
            random.u64(..),
            random.u64(..),
            random.i32(-200..200)
        ),
        5 => format!("{sign}0x{:x}p{}", random.u64(..), random.i32(-16600..16400)),
        6 => format!("{sign}{}", f64::from_bits(random.u64(..))),
        7 => format!("{:e}", f64::from_bits(random.u64(..))),
        8 => format!(
            "{}{}",
            digits(random, 60),
            [".", "e", "", "e+3", " ", "x", "e-"][random.usize(..7)]
        ),
        9 => [
            "inf",
            "-Inf",
            "nan",
            "infinity",
            "0",
            "-0",
            "0x",
            ".",
            "0e9",
            "1e99999999999",
        ][random.usize(..10)]
        .into(),
        // A tie at the seventeenth decimal, which reveals whether ties are rounded to even.
        10 => format!(
            "{sign}{}.{:017}5",
            random.u8(..),
            random.u64(..100_000_000_000_000_000)
        ),
        _ => format!("{sign}{fixed}"),
    }
}

#[test]
fn sums_and_refusals_equal_those_of_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    let mut sums = 0;
    for _ in 0..PAIRS {
        let (left, right) = (number(&mut random), number(&mut random));
        client.send(&[b"SET", b"k", left.as_bytes()]);
        client.send(&[b"INCRBYFLOAT", b"k", right.as_bytes()]);
        client.receive();
        let expected = client.receive();
        let operands = Extended::parse(left.as_bytes()).zip(Extended::parse(right.as_bytes()));
        let got = match operands {
            None => Tree::Error("ERR value is not a valid float".into()),
            Some((left, right)) => match left.checked_add(right) {
                None => Tree::Error("ERR increment would produce NaN or Infinity".into()),
                Some(sum) => Tree::Bulk(sum.text().into_bytes()),
            },
        };
        assert_eq!(got, expected, "{left} + {right}");
        sums += usize::from(matches!(expected, Tree::Bulk(_)));
    }
    println!("{sums} sums, {} refusals", PAIRS - sums);
    assert!(sums > PAIRS / 2, "most pairs must be sums, only {sums} are");
}
