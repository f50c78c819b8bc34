//! Tries on `undercroft serve` what the security advisories of Redis and Valkey since 2020 describe, class by
//! class. The server must reply as documented, survive, and serve others.

use std::io::{Read, Write};
use std::net::TcpStream;

use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::replication::{PATIENCE, host_and_port};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Server, Settings, private_memory, start_undercroft};

/// Starts a server with these lines of configuration, or returns `None` without a program.
fn start(lines: &str) -> Option<Server> {
    let settings = Settings {
        files: vec![("undercroft.conf".into(), lines.as_bytes().to_vec())],
        ..Settings::default()
    };
    start_undercroft(settings).expect("undercroft starts")
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address()).expect("it accepts")
}

/// Checks that a server still serves, and that nothing panicked in it.
fn check(server: &Server) {
    let reply = connect(server).call(["PING"]).expect("it lives");
    assert_eq!(reply, Reply::Simple(b"PONG".to_vec()));
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Runs commands whose words are separated by spaces, each with the beginning of its reply as text. An
/// empty text stands for any reply.
fn run(client: &mut Client, commands: &[(&str, &str)]) {
    for (command, expected) in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let reply = client
            .call(words)
            .unwrap_or_else(|error| panic!("{command}: {error}"));
        let lines = reply.lines().join(" ");
        assert!(
            lines.starts_with(expected),
            "{command}: expected {expected}, got {lines}"
        );
    }
}

/// Opens a connection without a protocol.
fn raw(server: &Server) -> TcpStream {
    let (host, port) = host_and_port(server.address());
    let socket = TcpStream::connect(format!("{host}:{port}")).expect("it accepts");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket
}

/// CVE-2021-21309, -29477, -29478, -32625, -32627, -32628, -32687, -32761, -41099; CVE-2022-35951, -35977;
/// CVE-2023-22458, -25155.
#[test]
fn huge_counts_offsets_and_limits_do_not_overflow() {
    let Some(server) = start("") else { return };
    let mut client = connect(&server);
    run(
        &mut client,
        &[
            ("SADD s 1 2 3", ""),
            ("HSET h a 1 b 2", ""),
            ("ZADD z 1 a 2 b", ""),
            (
                "SRANDMEMBER s -9223372036854775808",
                "-ERR value is out of range",
            ),
            (
                "HRANDFIELD h -9223372036854775808 WITHVALUES",
                "-ERR value is out of range",
            ),
            (
                "HRANDFIELD h -4611686018427387905 WITHVALUES",
                "-ERR value is out of range",
            ),
            (
                "ZRANDMEMBER z -9223372036854775808 WITHSCORES",
                "-ERR value is out of range",
            ),
            (
                "ZRANDMEMBER z -4611686018427387905 WITHSCORES",
                "-ERR value is out of range",
            ),
            (
                "SETRANGE t 9223372036854775807 x",
                "-ERR string exceeds maximum allowed size",
            ),
            (
                "SETRANGE t 9223372036854775800 xxxxxxxxx",
                "-ERR string exceeds maximum allowed size",
            ),
            ("APPEND t x", ""),
            (
                "SETBIT t 9223372036854775807 1",
                "-ERR bit offset is not an integer or out of range",
            ),
            (
                "BITFIELD t SET u8 9223372036854775800 1",
                "-ERR bit offset is not an integer or out of range",
            ),
            (
                "BITFIELD t SET u8 #9223372036854775800 1",
                "-ERR bit offset is not an integer or out of range",
            ),
            ("BITCOUNT t -9223372036854775808 9223372036854775807", ":"),
            (
                "BITPOS t 1 -9223372036854775808 9223372036854775807 BIT",
                ":",
            ),
            ("GETRANGE t -9223372036854775808 9223372036854775807", "$"),
            ("SORT s LIMIT 9223372036854775807 9223372036854775807", "*0"),
            ("SORT s LIMIT -9223372036854775808 9223372036854775807", "*"),
            ("RPUSH l a b c", ""),
            ("LPOS l a RANK -9223372036854775808", ":0"),
            ("LRANGE l -9223372036854775808 9223372036854775807", "*3"),
            ("XADD x 1-1 f v", ""),
            ("XGROUP CREATE x g 0", ""),
            ("XREADGROUP GROUP g c STREAMS x >", ""),
            (
                "XAUTOCLAIM x g c 0 0 COUNT 9223372036854775807",
                "-ERR COUNT must be > 0",
            ),
            ("XAUTOCLAIM x g c 0 0 COUNT 4611686018427387904", ""),
            ("XADD x MAXLEN 9223372036854775807 2-1 f v", ""),
            (
                "CONFIG SET set-max-intset-entries 9223372036854775807",
                "+OK",
            ),
            (
                "CONFIG SET hash-max-listpack-entries 9223372036854775807 hash-max-listpack-value 9223372036854775807",
                "+OK",
            ),
            (
                "CONFIG SET zset-max-listpack-entries 9223372036854775807 zset-max-listpack-value 9223372036854775807",
                "+OK",
            ),
            ("CONFIG SET stream-node-max-bytes 9223372036854775807", ""),
            ("COPY s s2", ":1"),
            ("COPY h h2", ":1"),
            ("CONFIG SET proto-max-bulk-len 9223372036854775807", "+OK"),
            (
                "SETRANGE t 9223372036854775806 x",
                "-ERR string exceeds maximum allowed size",
            ),
            ("SCAN 0 COUNT 9223372036854775807", ""),
            ("EXPIRE s 9223372036854775807", "-ERR invalid expire time"),
            ("GETEX t EX 9223372036854775807", "-ERR invalid expire time"),
            ("RESTORE r 9223372036854775807 x", "-ERR"),
        ],
    );
    let (long, other) = ("a".repeat(40_000), "b".repeat(60_000));
    for (key, value) in [("one", &long), ("two", &other)] {
        client.call(["SET", key, value]).expect("a reply");
    }
    // The table of this comparison would have 2.4 billion entries.
    let reply = client.call(["LCS", "one", "two"]).expect("a reply");
    assert!(
        matches!(&reply, Reply::Error(_) | Reply::Bulk(_)),
        "{reply:?}"
    );
    check(&server);
}

/// CVE-2022-31144; CVE-2023-28425, -28856, -36824; CVE-2024-31227, -51741; issue 14163 of Redis.
#[test]
fn malformed_commands_are_refused_without_a_crash() {
    let Some(server) = start("") else { return };
    let mut client = connect(&server);
    run(
        &mut client,
        &[
            ("MSETNX k v k v", ":1"),
            ("MSETNX a 1 k 2 a 3", ":0"),
            ("HSET h f 1", ""),
            ("HINCRBYFLOAT h f nan", "-ERR"),
            ("HINCRBYFLOAT h f inf", "-ERR"),
            ("HINCRBYFLOAT h f 1.1e4932", ""),
            (
                "HINCRBYFLOAT h f 1.1e4932",
                "-ERR increment would produce NaN or Infinity",
            ),
            ("HGETALL h", "*2"),
            ("INCRBYFLOAT k 1e5000", "-ERR"),
            ("COMMAND GETKEYS EVAL script 4294967297 k", "*0"),
            ("COMMAND GETKEYS EVAL script -1 k", "*0"),
            (
                "COMMAND GETKEYS ZUNIONSTORE target 9223372036854775807 k",
                "-ERR",
            ),
            ("COMMAND GETKEYS XREADGROUP GROUP g c STREAMS", "-ERR"),
            ("COMMAND GETKEYS SORT", "-ERR"),
            ("COMMAND GETKEYSANDFLAGS MIGRATE h 1 KEYS", "-ERR"),
            ("ACL SETUSER u (", "-ERR"),
            ("ACL SETUSER u ()", ""),
            ("ACL SETUSER u (%", "-ERR"),
            ("ACL SETUSER u %", "-ERR"),
            ("ACL SETUSER u %~a", "-ERR"),
            ("ACL SETUSER u %RW", "+OK"),
            ("ACL SETUSER u %RWRWRWRWRWRWRWRW~", ""),
            ("ACL SETUSER u (%R~", "-ERR"),
            ("ACL SETUSER u +get|", "-ERR"),
            ("ACL SETUSER u ( ( )", "+OK"),
            ("XADD x 1-1 f v", ""),
            ("XADD x 2-1 f v", ""),
            ("XGROUP CREATE x g 0", ""),
            ("XREADGROUP GROUP g c STREAMS x >", ""),
            ("XDEL x 1-1 2-1", ":2"),
            ("XAUTOCLAIM x g d 0 0 COUNT 1", "*3"),
            ("XAUTOCLAIM x g d 0 0", "*3"),
            ("EVAL return{err={}} 0", ""),
            ("EVAL error({}) 0", "-"),
            ("EVAL return{err=''} 0", ""),
            ("EVAL error() 0", "-"),
            ("CLIENT KILL LADDR x", ""),
            ("OBJECT FREQ k", "-ERR"),
            ("FUNCTION RESTORE x", "-ERR"),
            ("SENTINEL SET a b", "-ERR"),
        ],
    );
    check(&server);
}

/// CVE-2022-36021; CVE-2024-31228.
#[test]
fn hostile_patterns_take_bounded_time_and_stack() {
    let Some(server) = start("") else { return };
    let mut client = connect(&server);
    let name = "a".repeat(100_000);
    client.call(["SET", &name, "v"]).expect("a reply");
    let patterns = [
        "a*".repeat(50_000) + "b",
        "*".repeat(500_000),
        "*?".repeat(100_000),
        "[a-z".repeat(50_000),
        "\\*".repeat(50_000),
        "a*".repeat(20) + "b",
    ];
    for pattern in &patterns {
        for command in [
            &["KEYS", pattern][..],
            &["SCAN", "0", "MATCH", pattern],
            &["CONFIG", "GET", pattern],
            &["PUBSUB", "CHANNELS", pattern],
            &["FUNCTION", "LIST", "LIBRARYNAME", pattern],
            &["ACL", "SETUSER", "u", "resetkeys", &format!("~{pattern}")],
            &["ACL", "DRYRUN", "u", "GET", &name],
        ] {
            client.call(command).expect("a reply");
        }
        let mut subscriber = connect(&server);
        subscriber.call(["PSUBSCRIBE", pattern]).expect("a reply");
        client.call(["PUBLISH", &name, "message"]).expect("a reply");
    }
    check(&server);
}

/// CVE-2020-14147; CVE-2021-32626; CVE-2022-24735, -24736, -24834; CVE-2024-31449, -46981; CVE-2025-46817,
/// -46818, -46819, -49844, -67733.
#[test]
fn scripts_cannot_leave_their_interpreter() {
    let Some(server) = start("lua-time-limit 500\n") else {
        return;
    };
    let mut client = connect(&server);
    let level = "=".repeat(100_000);
    let scripts = [
        // Integers and stacks.
        ("return {unpack({}, 0, 2147483647)}".to_owned(), "-"),
        ("return {unpack({}, -2147483648, 2147483647)}".to_owned(), "-"),
        ("return bit.tohex(1, -2147483648)".to_owned(), "$"),
        ("return bit.tohex(1, 2147483647)".to_owned(), "$"),
        ("return struct.pack('>I2147483648', 1)".to_owned(), "-"),
        ("return struct.unpack('>I18446744073709551616', 'abc')".to_owned(), "-"),
        ("return struct.unpack('!2147483647 d', 'abcdefgh')".to_owned(), "-"),
        ("return struct.pack('>' .. string.rep('i', 100000))".to_owned(), "-"),
        ("return string.rep('x', 9223372036854775807)".to_owned(), "$"),
        ("return #('x'):rep(1e10)".to_owned(), ""),
        ("local s = {} for i = 1, 8000 do s[i] = 'x' end return unpack(s, 1, 1e9)".to_owned(), "-"),
        ("local f f = function() return f() + 1 end return f()".to_owned(), "-"),
        ("return ('a'):find(string.rep('(', 1000))".to_owned(), "-"),
        ("return string.format('%99999d', 1)".to_owned(), "-"),
        // Nesting.
        ("return cjson.encode(cjson.decode(string.rep('[', 100000)))".to_owned(), "-"),
        ("local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)".to_owned(), "-"),
        ("local t = {} for i = 1, 100000 do t = {t} end return #cmsgpack.pack(t)".to_owned(), ""),
        ("return cmsgpack.unpack(string.rep('\\145', 100000))".to_owned(), ""),
        (format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000)), "-"),
        // The lexer and the collector.
        (format!("return [{level}[x]{level}]"), "$"),
        (format!("return [{level}[x]"), "-"),
        ("collectgarbage('setpause', 0) for i = 1, 1000 do loadstring('return ' .. i)() collectgarbage() end return 1"
            .to_owned(), ""),
        ("local t = setmetatable({}, {__gc = function() error('x') end}) t = nil collectgarbage() return 1".to_owned(), ""),
        ("local p = newproxy(true) getmetatable(p).__gc = function() end return 1".to_owned(), ""),
        ("return load(string.dump(function() end))".to_owned(), "-"),
        ("return loadstring('\\27Lua')()".to_owned(), "-"),
    ];
    for (script, expected) in &scripts {
        let reply = client.call(["EVAL", script, "0"]).expect("a reply");
        let lines = reply.lines().join(" ");
        let shown = &script[..script.len().min(90)];
        assert!(
            lines.starts_with(expected),
            "{shown}: expected {expected}, got {lines:.200}"
        );
    }
    // The parser must keep the name of a program, also if the collector runs in the function that returns
    // its text: such a function is called again after it has returned nothing.
    let freed = "local calls = 0
        local _, message = load(function()
            calls = calls + 1
            if calls ~= 2 then return nil end
            collectgarbage() collectgarbage()
            local taken = {}
            for i = 1, 1000 do taken[i] = ('%040d'):format(i) end
            return 'a = = 1'
        end, ('name'):rep(10) .. '\\0rest')
        return message";
    let reply = client.call(["EVAL", freed, "0"]).expect("a reply");
    let lines = reply.lines().join(" ");
    let named = format!(
        "$\"[string \\\"{}\\\"]:1: unexpected symbol",
        "name".repeat(10)
    );
    assert!(lines.starts_with(&named), "{lines}");
    // No script changes what the scripts of other users see.
    for script in [
        "getmetatable('').__index = function() return 'owned' end",
        "getmetatable('').__index.upper = function() return 'owned' end",
        "string.upper = function() return 'owned' end",
        "setmetatable(_G, {__index = function() return 'owned' end})",
        "rawset(_G, 'owned', 1)",
        "_G.owned = 1",
        "redis.call = function() return 'owned' end",
        "setmetatable(redis, {})",
        "getfenv(0).owned = 1",
        "setfenv(0, {})",
        "debug.getregistry().owned = 1",
    ] {
        let _ = client.call(["EVAL", script, "0"]).expect("a reply");
        let seen = client.call([
            "EVAL",
            "return {('x'):upper(), tostring(rawget(_G, 'owned')), type(redis.call)}",
            "0",
        ]);
        let expected = ["X", "nil", "function"].map(|text| Reply::Bulk(text.into()));
        assert_eq!(
            seen.expect("a reply"),
            Reply::Array(expected.into()),
            "{script}"
        );
    }
    // A line ending in an error does not begin another reply.
    for script in [
        r"return redis.error_reply('ERR a\r\n+OK\r\n:1')",
        r"return {err = 'ERR a\r\n$3\r\nabc'}",
        r"return redis.status_reply('a\r\n+OK')",
        r"error('ERR a\r\n+OK')",
        r"return redis.call('SET\r\n+OK', 'k')",
    ] {
        let replies = client
            .pipeline(&[
                Command::of(["EVAL", script, "0"]),
                Command::of(["ECHO", "next"]),
            ])
            .expect("two replies");
        assert_eq!(
            replies[1],
            Reply::Bulk(b"next".to_vec()),
            "{script}: {replies:?}"
        );
        assert!(
            !replies[0].lines().join("").contains("\\n"),
            "{script}: {replies:?}"
        );
    }
    check(&server);
}

/// CVE-2025-32023; CVE-2026-25243, -25589.
#[test]
fn crafted_values_are_refused_or_harmless() {
    let Some(server) = start("") else { return };
    let mut client = connect(&server);
    let seed = undercroft_conformance::seed::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..2000 {
        // A sparse HyperLogLog, whose runs of zeros can exceed the number of registers.
        let mut value = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
        for _ in 0..random.usize(..40) {
            match random.u32(..3) {
                0 => value.extend([0x40 | random.u8(..0x40), random.u8(..)]),
                1 => value.push(random.u8(..0x40)),
                _ => value.push(0x80 | random.u8(..)),
            }
        }
        if random.u32(..4) == 0 {
            value[4] = random.u8(..3);
            value.truncate(random.usize(..=value.len()));
        }
        let what = format!("round {round}, seed {seed}");
        client.call([&b"SET"[..], b"h", &value]).expect(&what);
        for command in [
            &["PFCOUNT", "h"][..],
            &["PFADD", "h", "a", "b", "c"],
            &["PFMERGE", "target", "h"],
            &["PFCOUNT", "target", "h"],
            &["PFADD", "target", "d"],
            &["DEL", "target"],
        ] {
            client.call(command).expect(&what);
        }
    }
    // Payloads of every type byte, with lengths that do not fit.
    for kind in 0..=30_u8 {
        for length in [
            &[][..],
            &[0],
            &[0x3f],
            &[0x80, 0xff, 0xff, 0xff, 0xff],
            &[0x81; 9],
            &[0xc3, 1, 1, 0],
        ] {
            let payload = [&[kind][..], length, b"\x0b\0\0\0\0\0\0\0\0\0"].concat();
            let reply = client.call([&b"RESTORE"[..], b"r", b"0", &payload, b"REPLACE"]);
            assert!(
                matches!(reply, Ok(Reply::Error(_))),
                "{kind} {length:?}: {reply:?}"
            );
        }
    }
    check(&server);
}

/// CVE-2021-32675; CVE-2025-21605, -48367; CVE-2026-27623.
#[test]
fn bytes_before_the_login_are_bounded_and_harmless() {
    let Some(server) = start("") else { return };
    connect(&server)
        .call(["ACL", "SETUSER", "default", "resetpass", ">secret"])
        .expect("a reply");
    let before = private_memory(server.pid()).expect("it runs");
    // Requests that announce much, and empty requests before others.
    for bytes in [
        &b"*1048576\r\n$16384\r\n"[..],
        b"*2147483647\r\n$536870912\r\n",
        b"*-2147483648\r\n*1\r\n$4\r\nPING\r\n",
        b"*0\r\nPING\r\n",
        b"*0\r\n*0\r\n*1\r\n$4\r\nPING\r\n\r\n\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$99999999999999999999\r\n",
        b"*1\r\n:4\r\n",
        b"$4\r\nPING\r\n",
        b"\0\xff\r\n",
    ] {
        let mut socket = raw(&server);
        socket.write_all(bytes).expect("it accepts");
        socket
            .shutdown(std::net::Shutdown::Write)
            .expect("a socket");
        let mut replies = Vec::new();
        // The server may close the connection with an error.
        let _ = socket.read_to_end(&mut replies);
    }
    // Clients that send commands and never read the replies.
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut socket = raw(&server);
        socket.set_nonblocking(true).expect("a socket");
        let requests = b"GET key\r\n".repeat(10_000);
        for _ in 0..100 {
            // The server stops reading from the client after some time.
            if socket.write(&requests).is_err() {
                break;
            }
        }
        silent.push(socket);
    }
    let mut client = connect(&server);
    assert_eq!(
        client.call(["AUTH", "secret"]).expect("a reply"),
        Reply::Simple(b"OK".to_vec())
    );
    let taken = private_memory(server.pid())
        .expect("it runs")
        .saturating_sub(before);
    println!(
        "{} KiB for each of {} silent clients",
        taken / 1024 / 50,
        silent.len()
    );
    assert!(taken < 50 * 512 * 1024, "{taken} bytes");
    drop(silent);
    check_with_password(&server);
}

fn check_with_password(server: &Server) {
    let mut client = connect(server);
    client.call(["AUTH", "secret"]).expect("it lives");
    let reply = client.call(["PING"]).expect("it lives");
    assert_eq!(reply, Reply::Simple(b"PONG".to_vec()));
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// CVE-2026-23479, -23631: clients that are killed, evicted or timed out at the moment at which they are
/// unblocked, with commands that follow in their input.
#[test]
fn blocked_clients_can_end_at_any_moment() {
    let Some(server) = start("maxmemory-clients 2mb\n") else {
        return;
    };
    let seed = undercroft_conformance::seed::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut control = connect(&server);
    for round in 0..300 {
        let what = format!("round {round}, seed {seed}");
        let mut blocked: Vec<(i64, TcpStream)> = Vec::new();
        for _ in 0..random.usize(1..6) {
            let mut socket = raw(&server);
            socket.write_all(b"CLIENT ID\r\n").expect("it accepts");
            let mut reply = Vec::new();
            let mut byte = [0];
            while !reply.ends_with(b"\r\n") {
                socket.read_exact(&mut byte).expect("a reply");
                reply.push(byte[0]);
            }
            let id = String::from_utf8_lossy(&reply[1..reply.len() - 2])
                .parse()
                .expect("a number");
            let command = *random
                .choice(&[
                    "BLPOP l 0\r\nLPUSH l again\r\nBLPOP l 0\r\n",
                    "BLMOVE l l2 LEFT RIGHT 0\r\nGET k\r\n",
                    "XREAD BLOCK 0 STREAMS x $\r\nXADD x * f v\r\n",
                    "BZPOPMIN z 0\r\nZADD z 1 m\r\nBZPOPMIN z 0.01\r\n",
                    "WAIT 1 0\r\nPING\r\n",
                    "MULTI\r\nBLPOP l 0\r\nEXEC\r\nBLPOP l 0\r\n",
                ])
                .expect("not empty");
            socket.write_all(command.as_bytes()).expect("it accepts");
            if random.u32(..4) == 0 {
                // Output that exceeds the limit of all clients, so that one of them is evicted.
                let _ = socket.write_all(&b"GET big\r\n".repeat(20));
            }
            blocked.push((id, socket));
        }
        for _ in 0..random.usize(1..6) {
            let (id, socket) = random.choice(&blocked).expect("not empty");
            let id = id.to_string();
            let command = match random.u32(..8) {
                0 => vec!["CLIENT", "KILL", "ID", &id],
                1 => vec!["CLIENT", "UNBLOCK", &id, "ERROR"],
                2 => vec!["LPUSH", "l", "a", "b", "c"],
                3 => vec!["XADD", "x", "*", "f", "v"],
                4 => vec!["ZADD", "z", "1", "m"],
                5 => vec!["DEL", "l", "z", "x"],
                6 => vec![
                    "EVAL",
                    "redis.call('LPUSH', 'l', 1) redis.call('DEL', 'l') return 1",
                    "0",
                ],
                _ => {
                    let _ = socket.shutdown(std::net::Shutdown::Both);
                    vec!["LPUSH", "l", "a"]
                }
            };
            control.call(command).expect(&what);
        }
        control
            .call(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            .expect(&what);
        control.call(["FLUSHALL"]).expect(&what);
    }
    check(&server);
}

/// CVE-2023-45145: the socket is never more accessible than configured.
#[test]
fn unix_socket_is_never_open_to_other_users() {
    use std::os::unix::fs::PermissionsExt;
    let Some(program) = undercroft_conformance::servers::undercroft_binary() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let mut child = std::process::Command::new(program)
        .args(["serve", "--port", "0", "--unixsocket"])
        .arg(&path)
        .arg(directory.path().join("store"))
        .env("UNDERCROFT_MAXMEMORY", "64mb")
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("undercroft runs");
    let start = std::time::Instant::now();
    let mode = loop {
        // The first mode that can be seen counts.
        if let Ok(found) = std::fs::metadata(&path) {
            break found.permissions().mode() & 0o777;
        }
        assert!(start.elapsed() < PATIENCE, "no socket");
        std::thread::yield_now();
    };
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    assert_eq!(mode, 0o600);
}

/// CVE-2025-27151: paths that are longer than any buffer.
#[test]
fn tools_refuse_long_paths() {
    let Some(program) = undercroft_conformance::servers::undercroft_binary() else {
        return;
    };
    for length in [255, 4095, 4096, 5000, 100_000] {
        let path = format!("/tmp/{}", "x".repeat(length));
        for words in [
            &["check", &path][..],
            &["import", &path, "undercroft://advisories"],
            &["export", &path, "/tmp/none.rdb"],
            &["stat", &path],
        ] {
            let output = std::process::Command::new(&program)
                .args(words)
                .output()
                .expect("it runs");
            let code = output.status.code();
            assert!(
                code.is_some_and(|code| code != 0 && code != 101),
                "{words:.60?}: {output:.200?}"
            );
        }
    }
}
