//! Tests the records that carry data: values of every size, a replica, and connections in whose middle
//! bytes are cut, damaged or repeated.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command as Process, Stdio};

use undercroft_conformance::client::Client;
use undercroft_conformance::replication::field;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings};

use crate::support::{Encrypted, until};

#[test]
fn redis_cli_reads_and_writes_values_of_every_size() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    assert_eq!(server.ask(&["PING"]), "PONG");
    let file = server.authority.path("value");
    for size in [0, 1, 4095, 4096, 16_384, 70_000, 3_000_000] {
        let value: Vec<u8> = (0..size).map(|at| b'a' + (at % 23) as u8).collect();
        std::fs::write(&file, &value).expect("space");
        let ca = server.authority.text("ca.pem");
        let set = Process::new("redis-cli")
            .args([
                "--tls",
                "-h",
                "localhost",
                "-p",
                &server.port.to_string(),
                "--cacert",
                &ca,
            ])
            .args(["-x", "SET", "key"])
            .stdin(std::fs::File::open(&file).expect("the file"))
            .output()
            .expect("redis-cli runs");
        assert_eq!(set.stdout, b"OK\n", "{set:?}");
        let got = server.cli(&[], &["GET", "key"]).stdout;
        assert!(got.strip_suffix(b"\n") == Some(&value), "{size} bytes");
        // The other port has the same value.
        let plain = server.plain().call(["GET", "key"]).expect("a reply");
        assert!(plain == Reply::Bulk(value), "{size} bytes");
    }
    // Messages and blocked commands arrive without a request.
    let mut staying = server.stay();
    staying.ping();
    staying
        .input
        .write_all(b"BLPOP list 0\r\n")
        .expect("it lives");
    let mut plain = server.plain();
    until(&server, || {
        field(&mut plain, "clients", "blocked_clients") == "1"
    });
    plain.call(["RPUSH", "list", "item"]).expect("a reply");
    let mut reply = [0; 24];
    staying.output.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply, b"*2\r\n$4\r\nlist\r\n$4\r\nitem\r\n");
}

#[test]
fn real_replica_receives_changes_over_tls() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let mut plain = server.plain();
    plain.call(["SET", "before", "1"]).expect("a reply");
    let [ca, certificate, key] =
        ["ca.pem", "client.pem", "client.key"].map(|name| server.authority.text(name));
    let port = server.port.to_string();
    let arguments = [
        ["--tls-ca-cert-file", &ca],
        ["--tls-cert-file", &certificate],
        ["--tls-key-file", &key],
        ["--tls-replication", "yes"],
    ];
    let arguments = [
        &arguments.concat()[..],
        &["--replicaof", "localhost", &port],
    ]
    .concat();
    let settings = Settings {
        arguments: arguments.into_iter().map(str::to_owned).collect(),
        ..Settings::default()
    };
    let replica = Server::start(Kind::Redis, settings).expect("redis-server starts");
    let mut there = Client::connect(replica.address()).expect("it accepts");
    until(&server, || {
        field(&mut there, "replication", "master_link_status") == "up"
    });
    plain.call(["SET", "after", "2"]).expect("a reply");
    let waited = plain.call(["WAIT", "1", "60000"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(1), "{}", replica.log());
    for (key, value) in [("before", "1"), ("after", "2")] {
        let got = there.call(["GET", key]).expect("a reply");
        assert_eq!(got, Reply::Bulk(value.into()), "{key}");
    }
}

/// The way in which a proxy treats the bytes that it passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// All bytes arrive, in pieces of at most this many bytes.
    Pieces(usize),
    /// The connection ends after a number of bytes.
    Cut,
    /// A bit is inverted.
    Inverted,
    /// Random bytes are inserted.
    Inserted,
    /// The bytes of one piece arrive twice.
    Repeated,
    /// The bytes of one piece are left out.
    LeftOut,
    /// The header of a record of the greatest length, or of a forbidden one, is inserted.
    Announced,
}

/// Passes bytes on until one side ends. Damages them once, after `position` bytes, and then passes no more
/// on, so that neither side waits for the rest.
fn pass_on(
    mut from: TcpStream,
    mut to: TcpStream,
    treatment: Treatment,
    position: usize,
    random: &mut fastrand::Rng,
) {
    let mut buffer = vec![0; 8192];
    let mut passed = 0;
    loop {
        let arrived = from.read(&mut buffer).unwrap_or(0);
        if arrived == 0 {
            break;
        }
        let mut bytes = buffer[..arrived].to_vec();
        if let Treatment::Pieces(most) = treatment {
            while !bytes.is_empty() {
                let length = random.usize(1..=most).min(bytes.len());
                let piece: Vec<u8> = bytes.drain(..length).collect();
                if to.write_all(&piece).is_err() {
                    return;
                }
            }
            continue;
        }
        if passed + arrived <= position {
            passed += arrived;
            if to.write_all(&bytes).is_err() {
                return;
            }
            continue;
        }
        let at = position - passed;
        match treatment {
            Treatment::Cut => bytes.truncate(at),
            Treatment::Inverted => bytes[at] ^= 1 << random.u32(..8),
            Treatment::Inserted => {
                let more: Vec<u8> = (0..random.usize(1..100)).map(|_| random.u8(..)).collect();
                bytes.splice(at..at, more);
            }
            Treatment::Repeated => bytes.extend_from_within(at..),
            Treatment::LeftOut => {
                bytes.drain(at..arrived.min(at + random.usize(1..50)));
            }
            Treatment::Announced => {
                let kind = *random
                    .choice(&[20, 21, 22, 23, 24, 0, 255])
                    .expect("not empty");
                let length = *random
                    .choice(&[0, 1, 0x4000, 0x4100, 0xffff_u16])
                    .expect("not empty");
                let [high, low] = length.to_be_bytes();
                bytes.splice(at..at, [kind, 3, 3, high, low]);
            }
            Treatment::Pieces(_) => {}
        }
        // The other side may have ended already.
        let _ = to.write_all(&bytes);
        break;
    }
    let _ = to.shutdown(Shutdown::Write);
    // Read the rest, so that the sender gets no error before it has read what arrived.
    while from.read(&mut buffer).is_ok_and(|arrived| arrived > 0) {}
}

/// Connects a client that is about to come with the server, through a proxy that treats one direction.
/// Returns the port for the client, and a handle to wait for the end of its connection.
fn proxy(
    server: u16,
    treatment: Treatment,
    (is_upwards, position): (bool, usize),
    seed: u64,
) -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let worker = std::thread::spawn(move || {
        let (client, _) = listener.accept().expect("a client");
        let upstream = TcpStream::connect(("127.0.0.1", server)).expect("it accepts");
        for socket in [&client, &upstream] {
            socket.set_nodelay(true).expect("a socket");
        }
        let copy = |socket: &TcpStream| socket.try_clone().expect("a descriptor");
        let whole = Treatment::Pieces(8192);
        let [up, down] = match is_upwards {
            true => [treatment, whole],
            false => [whole, treatment],
        };
        std::thread::scope(|scope| {
            let (from, to) = (copy(&client), copy(&upstream));
            scope.spawn(move || {
                pass_on(from, to, up, position, &mut fastrand::Rng::with_seed(seed));
            });
            let mut random = fastrand::Rng::with_seed(!seed);
            pass_on(upstream, client, down, position, &mut random);
        });
    });
    (port, worker)
}

#[test]
fn damaged_connections_never_deliver_wrong_data() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let seed = undercroft_conformance::seed::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut plain = server.plain();
    let (mut completed, mut ended) = (0, 0);
    for round in 0..400 {
        let treatment = match random.u32(..8) {
            0 => Treatment::Pieces(1),
            1 => Treatment::Pieces(random.usize(2..6000)),
            2 => Treatment::Cut,
            3 => Treatment::Inverted,
            4 => Treatment::Inserted,
            5 => Treatment::Repeated,
            6 => Treatment::LeftOut,
            _ => Treatment::Announced,
        };
        let length = *random.choice(&[10, 2000, 40_000]).expect("not empty");
        let (is_upwards, writes) = (random.bool(), random.bool());
        // The handshake takes about 500 bytes in each direction, at least.
        let passes = 500 + if is_upwards == writes { length } else { 0 };
        let place = (is_upwards, random.usize(..passes));
        let value = |letter: u8| vec![letter; length];
        let (old, new) = (value(b'a'), value(b'b'));
        plain.call([&b"SET"[..], b"key", &old]).expect("a reply");
        let (port, worker) = proxy(server.port, treatment, place, random.u64(..));
        let what =
            format!("round {round}, {treatment:?} at {place:?}, writes: {writes}; seed {seed}");
        let mut cli = Process::new("redis-cli")
            .args(["--tls", "-h", "localhost", "-p", &port.to_string()])
            .args(["--cacert", &server.authority.text("ca.pem")])
            .args(if writes {
                &["-x", "SET", "key"][..]
            } else {
                &["GET", "key"]
            })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("redis-cli runs");
        let mut input = cli.stdin.take().expect("a pipe");
        // It does not read its input if it cannot connect.
        let _ = input.write_all(&new);
        drop(input);
        let output = cli.wait_with_output().expect("it ends");
        worker.join().expect("no failure");
        let stored = plain.call(["GET", "key"]).expect("a reply");
        let is = |value: &[u8]| matches!(&stored, Reply::Bulk(found) if found == value);
        assert!(is(&old) || writes && is(&new), "{what}: {stored:?}");
        let answer = output.stdout.strip_suffix(b"\n").unwrap_or_default();
        let is_right = if writes {
            answer == b"OK" && is(&new)
        } else {
            answer == old
        };
        if is_right {
            completed += 1;
        } else {
            let is_error = answer.is_empty()
                || answer.starts_with(b"Error")
                || answer.starts_with(b"I/O error");
            assert!(is_error, "{what}: {output:?}");
            assert!(
                !matches!(treatment, Treatment::Pieces(_)),
                "{what}: {output:?}"
            );
            ended += 1;
        }
    }
    println!("{completed} connections were whole, {ended} ended early");
    assert!(completed > 60 && ended > 200, "{completed}, {ended}");
    until(&server, || {
        field(&mut plain, "clients", "connected_clients") == "1"
    });
    assert!(
        !server.server.log().contains("panicked"),
        "{}",
        server.server.log()
    );
}
