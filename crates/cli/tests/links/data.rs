//! Data of every type and encoding, on both sides of the limits between encodings.

use undercroft_conformance::client::Client;
use undercroft_conformance::servers::Kind;

use crate::support::{call, line};

/// A time in the year 2100, in milliseconds.
const LATER: &str = "4102444800123";

/// Fills a server with data of every type and encoding that its version has.
pub(crate) fn fill(client: &mut Client, kind: Kind) {
    strings(client);
    lists(client);
    sets(client);
    hashes(client);
    sorted_sets(client);
    streams(client);
    for (key, command) in [
        ("deadline", "SET deadline v"),
        ("deadline:list", "RPUSH deadline:list 1"),
    ] {
        line(client, command);
        line(client, &format!("PEXPIREAT {key} {LATER}"));
    }
    for database in [3, 15] {
        line(client, &format!("SELECT {database}"));
        line(client, &format!("SET in:{database} {database}"));
    }
    line(client, "SELECT 0");
    if kind != Kind::Undercroft || cfg!(feature = "scripts") {
        let library =
            "#!lua name=kept\nredis.register_function('answer', function() return 42 end)";
        call(client, &["FUNCTION", "LOAD", library]);
    }
}

fn strings(client: &mut Client) {
    let compressible = b"abcdefgh".repeat(5000);
    let random: Vec<u8> = {
        let mut random = fastrand::Rng::with_seed(1);
        (0..100_000).map(|_| random.u8(..)).collect()
    };
    for (key, value) in [
        ("empty", &b""[..]),
        ("int:8", b"-7"),
        ("int:16", b"30000"),
        ("int:32", b"-2000000000"),
        ("int:64", b"9223372036854775807"),
        ("not:int", b"007"),
        (
            "embedded",
            b"forty-four bytes and not one more, embstr it is",
        ),
        ("raw", &[b'r'; 45]),
        ("compressible", &compressible),
        ("random", &random),
    ] {
        call(client, &[b"SET", key.as_bytes(), value]);
    }
    call(
        client,
        &[b"SET", &b"binary\0\xff\r\nkey"[..], b"\0\xff\r\n"],
    );
    call(client, &[b"SET", &b"12345"[..], b"key is an integer"]);
    call(client, &[b"SET", &[b'k'; 300][..], b"long key"]);
    line(client, "SETBIT bits 100001 1");
    line(client, "PFADD hll a b c d e f g");
}

/// Adds elements in one command.
fn add(client: &mut Client, command: &str, key: &str, elements: impl Iterator<Item = String>) {
    let elements: Vec<String> = elements.collect();
    for part in elements.chunks(2000) {
        let mut words = vec![command, key];
        words.extend(part.iter().map(String::as_str));
        call(client, &words);
    }
}

fn lists(client: &mut Client) {
    line(client, "RPUSH list:one x");
    line(
        client,
        "RPUSH list:small 1 two -3 400 50000 6000000 70000000000 eight",
    );
    add(
        client,
        "RPUSH",
        "list:long",
        (0..5000).map(|at| format!("item {at}")),
    );
    let long = "plain ".repeat(4000);
    add(
        client,
        "RPUSH",
        "list:plain",
        [long.clone(), "s".to_owned(), long].into_iter(),
    );
}

fn sets(client: &mut Client) {
    line(client, "SADD set:16 1 2 -3");
    line(client, "SADD set:32 1 100000");
    line(client, "SADD set:64 1 -9000000000");
    line(client, "SADD set:texts a b 3");
    add(
        client,
        "SADD",
        "set:integers",
        (0..600).map(|at| (at * 7).to_string()),
    );
    add(
        client,
        "SADD",
        "set:large",
        (0..3000).map(|at| format!("member {at}")),
    );
}

fn hashes(client: &mut Client) {
    line(client, "HSET hash:small a 1 b two c -3");
    let long = "v".repeat(100);
    line(client, &format!("HSET hash:long-value a {long}"));
    let pairs = (0..3000).map(|at| {
        if at % 2 == 0 {
            format!("f{at}")
        } else {
            at.to_string()
        }
    });
    add(client, "HSET", "hash:large", pairs);
}

fn sorted_sets(client: &mut Client) {
    line(
        client,
        "ZADD zset:small 1 a 2.5 b -3 c inf d -inf e 1e300 f 0.1 g -0.0000001 h",
    );
    let pairs = (0..2000).map(|at| match at % 2 {
        0 => format!("{}", f64::from(at) / 3.0),
        _ => format!("m{at}"),
    });
    add(client, "ZADD", "zset:large", pairs);
    line(
        client,
        "GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
    );
}

fn streams(client: &mut Client) {
    for at in 1..=300 {
        line(
            client,
            &format!("XADD stream {at}-{} f {at} g other", at % 3),
        );
    }
    line(client, "XADD stream 301-0 only one:field");
    line(client, "XADD stream 302-5 f 1 g 2 h 3");
    line(client, "XDEL stream 7-1 150-0 302-5");
    for group in [
        "XGROUP CREATE stream g 0",
        "XGROUP CREATE stream late 200-2",
    ] {
        line(client, group);
    }
    line(client, "XREADGROUP GROUP g alice COUNT 20 STREAMS stream >");
    line(client, "XREADGROUP GROUP g bob COUNT 3 STREAMS stream >");
    line(client, "XACK stream g 1-1 2-2");
    line(client, "XGROUP CREATECONSUMER stream late idle");
    line(client, "XGROUP CREATE stream:empty g $ MKSTREAM");
    line(client, "XADD stream:trimmed 1-1 a b");
    line(client, "XADD stream:trimmed 2-1 a b");
    line(client, "XTRIM stream:trimmed MAXLEN 0");
}
