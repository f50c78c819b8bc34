//! Tests real servers as replicas of `undercroft serve`: after random commands of every family, they
//! have the same data, also when connections are cut, the backlog is lost, the server is killed, and
//! other processes change the store without a server.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use undercroft_conformance::audit::audit;
use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::compare::Rules;
use undercroft_conformance::generate::{FAMILIES, Family, Generator};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{
    Kind, Server, Settings, start_undercroft, undercroft_binary,
};

/// The longest wait for an event, which only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the seed of this run: `UNDERCROFT_SEED`, or a random one.
fn seed() -> u64 {
    let named = std::env::var("UNDERCROFT_SEED").ok();
    let seed = named.map_or_else(
        || fastrand::u64(..1 << 40),
        |s| s.parse().expect("UNDERCROFT_SEED is a number"),
    );
    println!("seed {seed} (replay with UNDERCROFT_SEED={seed})");
    seed
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned()
}

/// Our server and a replica of it.
struct Pair {
    ours: Server,
    replica: Server,
    random: Generator,
    /// The connection through which the store is changed.
    writer: Client,
}

fn settings() -> Settings {
    // The address space of a snapshot is as large as the store's.
    Settings {
        memory_max: None,
        ..Settings::default()
    }
}

impl Pair {
    /// Starts a server with some data, and a server that does not follow it yet.
    fn start(seed: u64, kind: Kind, without: &[&str]) -> Option<Pair> {
        let ours = start_undercroft(settings()).expect("undercroft starts")?;
        let replica = Server::start(kind, settings()).expect("the replica starts");
        let writer = Client::connect(ours.address()).expect("it accepts");
        // Blocked clients and messages leave nothing to compare, and the source's own settings are
        // not replicated.
        let never = ["blocking", "messages", "server"];
        let families: Vec<Family> = FAMILIES
            .iter()
            .filter(|family| !never.contains(&family.name) && !without.contains(&family.name))
            .copied()
            .collect();
        let mut pair = Pair {
            ours,
            replica,
            random: Generator::new(seed, &families),
            writer,
        };
        pair.change(2000);
        Some(pair)
    }

    /// Sends random commands.
    fn change(&mut self, commands: usize) {
        for _ in 0..commands.div_ceil(100) {
            let mut batch: Vec<Command> = (0..100).map(|_| self.random.command()).collect();
            while self.random.is_amid() {
                batch.push(self.random.command());
            }
            self.writer.pipeline(&batch).expect("the server runs them");
        }
    }

    fn follow(&self) {
        self.follow_at(self.ours.address());
    }

    fn follow_at(&self, source: &Address) {
        let Address::Tcp(address) = source else {
            panic!("{source} is no port");
        };
        let (host, port) = address.rsplit_once(':').expect("a port");
        let mut client = Client::connect(self.replica.address()).expect("it accepts");
        let reply = client.call(["REPLICAOF", host, port]).expect("a reply");
        assert!(matches!(reply, Reply::Simple(_)), "{reply:?}");
    }

    /// Waits until the replica has applied everything, and compares the data.
    fn compare(&mut self) {
        self.compare_at(&self.ours.address().clone());
    }

    /// Waits until the replica of a server of the store has applied everything, and compares the
    /// data.
    fn compare_at(&mut self, source: &Address) {
        let mut ours = connect(source);
        let start = Instant::now();
        loop {
            let reply = ours.call(["WAIT", "1", "1000"]).expect("a reply");
            if reply == Reply::Integer(1) {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.describe());
        }
        let mut replica = Client::connect(self.replica.address()).expect("it accepts");
        // An encoding can depend on earlier values, which the replica never had.
        let rules = Rules {
            encodings: false,
            ..Rules::default()
        };
        let found = audit(&mut replica, &mut ours, rules).expect("both answer");
        assert_eq!(found, None, "{}", self.describe());
    }

    fn describe(&self) -> String {
        let mut client = Client::connect(self.ours.address()).expect("it accepts");
        let info = text(&client.call(["INFO", "replication"]).expect("a reply"));
        let (source, replica) = (self.ours.log(), self.replica.log());
        format!("{info}\nlog of the source:\n{source}\nlog of the replica:\n{replica}")
    }
}

#[test]
fn replicas_have_the_data_of_the_store() {
    // Later versions report scores of sorted sets and consumers of streams differently.
    let later = &[
        "sorted",
        "geo",
        "sort",
        "lua",
        "keys",
        "expire",
        "scripting",
        "streams",
        "transactions",
        "locks",
    ][..];
    for (kind, without) in [
        (Kind::Redis, &[][..]),
        (Kind::Undercroft, &[]),
        (Kind::Valkey, later),
        (Kind::Redis8, later),
    ] {
        println!("{kind:?}");
        let Some(mut pair) = Pair::start(seed(), kind, without) else {
            return;
        };
        pair.follow();
        pair.compare();
        for _ in 0..5 {
            pair.change(3000);
            pair.compare();
        }
    }
}

#[test]
fn cut_connection_of_a_replica_continues_with_the_next_change() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    let mut control = Client::connect(pair.ours.address()).expect("it accepts");
    let set = ["CONFIG", "SET", "repl-backlog-size", "64mb"];
    control.call(set).expect("a reply");
    pair.follow();
    pair.compare();
    for _ in 0..8 {
        pair.change(500);
        let kill = ["CLIENT", "KILL", "TYPE", "replica"];
        assert_eq!(control.call(kill).expect("a reply"), Reply::Integer(1));
        pair.change(500);
        pair.compare();
    }
}

/// Connects to a server that may still be starting.
fn connect(address: &Address) -> Client {
    let start = Instant::now();
    loop {
        match Client::connect(address) {
            Ok(client) => return client,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{address}: {error}"),
        }
        std::thread::yield_now();
    }
}

/// A further server of a store, which is killed at the end.
struct Further(Child);

impl Further {
    fn start(store: &Path, port: u16) -> Further {
        let program = undercroft_binary().expect("the program");
        let mut process = Process::new(program);
        process.arg("serve").arg("--store").arg(store);
        process.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        let quiet = process.stdout(Stdio::null());
        Further(quiet.spawn().expect("it starts"))
    }
}

impl Drop for Further {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spare_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn killed_server_continues_the_stream_of_another_process_changes() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    let store = pair.ours.store();
    let port = spare_port();
    let source = Address::Tcp(format!("127.0.0.1:{port}"));
    let mut random = fastrand::Rng::with_seed(seed());
    let mut sender = Further::start(&store, port);
    drop(connect(&source));
    pair.follow_at(&source);
    pair.compare_at(&source);
    for _ in 0..12 {
        // Changes are made while the server sends, is dead, and starts.
        pair.change(random.usize(1..500));
        drop(sender);
        pair.change(random.usize(1..500));
        sender = Further::start(&store, port);
        pair.change(random.usize(1..500));
        if random.bool() {
            pair.compare_at(&source);
        }
    }
    pair.compare_at(&source);
    let mut replica = Client::connect(pair.replica.address()).expect("it accepts");
    let info = text(&replica.call(["INFO", "replication"]).expect("a reply"));
    assert!(info.contains("master_link_status:up"), "{info}");
}

#[test]
fn redis_cli_receives_data_sets_and_changes() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    let Address::Tcp(address) = pair.ours.address().clone() else {
        panic!("no port");
    };
    let (_, port) = address.rsplit_once(':').expect("a port");
    let load = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    let loaded = pair.writer.call(["FUNCTION", "LOAD", "REPLACE", load]);
    assert!(matches!(loaded, Ok(Reply::Bulk(_))), "{loaded:?}");
    let directory = pair.replica.directory().to_owned();
    for option in ["--rdb", "--functions-rdb"] {
        let file = directory.join("received.rdb");
        let mut cli = Process::new("redis-cli");
        let cli = cli.args(["-p", port, option]).arg(&file);
        let output = cli.output().expect("redis-cli runs");
        assert!(output.status.success(), "{output:?}");
        let check = Process::new("redis-check-rdb").arg(&file).output();
        let check = check.expect("redis-check-rdb runs");
        let printed = String::from_utf8_lossy(&check.stdout).into_owned();
        assert!(printed.contains("RDB looks OK"), "{option}: {printed}");
        let keys = printed
            .lines()
            .find_map(|line| line.strip_suffix(" keys read"));
        let none = keys.is_some_and(|line| line.ends_with(" 0"));
        assert_eq!(none, option == "--functions-rdb", "{printed}");
    }
    let mut cli = Process::new("redis-cli");
    let cli = cli.args(["-p", port, "--replica"]);
    let mut cli = cli
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-cli runs");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(cli.stdout.take().expect("a pipe")));
    let start = Instant::now();
    loop {
        let reply = pair.writer.call(["ROLE"]).expect("a reply");
        if format!("{reply:?}").matches("Array").count() > 1 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{}", pair.describe());
    }
    pair.writer.call(["SET", "told", "now"]).expect("a reply");
    let told = lines.any(|line| line.expect("text").contains("\"SET\",\"told\",\"now\""));
    assert!(told);
    let _ = cli.kill();
    let _ = cli.wait();
}

#[test]
fn migrate_moves_keys_to_a_redis_and_back() {
    let target = Server::start(Kind::Redis, settings()).expect("the target starts");
    let Address::Tcp(address) = target.address().clone() else {
        panic!("no port");
    };
    let (host, port) = address.rsplit_once(':').expect("a port");
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    // The operator has allowed no host.
    let refused = pair.writer.call(["MIGRATE", host, port, "no", "0", "0"]);
    assert_eq!(refused.expect("a reply"), Reply::Simple(b"NOKEY".to_vec()));
    pair.writer
        .call(["SET", "moved", "value"])
        .expect("a reply");
    let refused = pair.writer.call(["MIGRATE", host, port, "moved", "0", "0"]);
    assert!(matches!(refused, Ok(Reply::Error(_))), "{refused:?}");
    let allowed = Settings {
        files: vec![(
            "undercroft.conf".into(),
            format!("migrate-hosts {host}\n").into_bytes(),
        )],
        ..settings()
    };
    let ours = start_undercroft(allowed).expect("undercroft starts");
    let ours = ours.expect("it is built");
    let mut client = Client::connect(ours.address()).expect("it accepts");
    for command in [
        &["SET", "a", "1", "PX", "100000"][..],
        &["HSET", "b", "f", "v", "g", "w"],
        &["ZADD", "c", "1.5", "m"],
        &["XADD", "d", "1-1", "f", "v"],
    ] {
        client.call(command.iter().copied()).expect("a reply");
    }
    let ok = Reply::Simple(b"OK".to_vec());
    let moved = [
        "MIGRATE", host, port, "", "3", "5000", "KEYS", "a", "b", "c", "d", "none",
    ];
    assert_eq!(client.call(moved).expect("a reply"), ok);
    assert_eq!(client.call(["DBSIZE"]).expect("a reply"), Reply::Integer(0));
    let mut there = Client::connect(target.address()).expect("it accepts");
    there.call(["SELECT", "3"]).expect("a reply");
    assert_eq!(there.call(["DBSIZE"]).expect("a reply"), Reply::Integer(4));
    let left = there.call(["PTTL", "a"]).expect("a reply");
    assert!(matches!(left, Reply::Integer(1..=100_000)), "{left:?}");
    // A key that exists there is an error without REPLACE, and stays here.
    client.call(["SET", "a", "2"]).expect("a reply");
    let busy = client.call(["MIGRATE", host, port, "a", "3", "5000"]);
    let text = "ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    assert_eq!(
        busy.expect("a reply"),
        Reply::Error(text.as_bytes().to_vec())
    );
    let copied = ["MIGRATE", host, port, "a", "3", "5000", "COPY", "REPLACE"];
    assert_eq!(client.call(copied).expect("a reply"), ok);
    assert_eq!(client.call(["DBSIZE"]).expect("a reply"), Reply::Integer(1));
    // And back.
    let Address::Tcp(address) = ours.address().clone() else {
        panic!("no port");
    };
    let (host, port) = address.rsplit_once(':').expect("a port");
    let back = ["MIGRATE", host, port, "b", "0", "5000"];
    assert_eq!(there.call(back).expect("a reply"), ok);
    let got = client.call(["HGET", "b", "f"]).expect("a reply");
    assert_eq!(got, Reply::Bulk(b"v".to_vec()));
}

/// Sends a command, and connects again if the connection was closed: a Sentinel that changes the role
/// of a server closes the connections of all clients.
fn ask((address, client): &mut (Address, Client), words: &[&str]) -> Reply {
    let start = Instant::now();
    loop {
        match client.call(words.iter().copied()) {
            Ok(reply) => return reply,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        *client = connect(address);
    }
}

/// Returns all strings of a reply, separated by spaces.
fn strings(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => items.iter().map(|item| strings(item) + " ").collect(),
        reply => text(reply),
    }
}

/// A Sentinel, and the messages that it publishes.
struct Sentinel {
    _process: Further,
    log: PathBuf,
    /// A connection that has subscribed to all messages.
    messages: Client,
}

impl Sentinel {
    /// Starts a Sentinel for the master `data` at a port of this machine.
    fn start(directory: &Path, master: u16) -> Sentinel {
        let [config, log] = ["sentinel.conf", "sentinel.log"].map(|name| directory.join(name));
        let port = spare_port();
        let lines = [
            format!("port {port}"),
            format!("dir {}", directory.display()),
            format!("logfile {}", log.display()),
            format!("sentinel monitor data 127.0.0.1 {master} 1"),
            // A Sentinel connects again only once a second, so less makes it give up living servers.
            "sentinel down-after-milliseconds data 3000".to_owned(),
            "sentinel failover-timeout data 10000".to_owned(),
        ];
        std::fs::write(&config, lines.join("\n")).expect("space");
        let mut command = Process::new("redis-server");
        command.arg(&config).arg("--sentinel");
        let process = Further(command.spawn().expect("redis-server is installed"));
        let mut messages = connect(&Address::Tcp(format!("127.0.0.1:{port}")));
        messages.call(["PSUBSCRIBE", "*"]).expect("a reply");
        Sentinel {
            _process: process,
            log,
            messages,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the Sentinel has published a message that contains a text.
    fn expect(&mut self, event: &str, contained: &str) {
        loop {
            let message = self.messages.receive();
            let message = message
                .unwrap_or_else(|error| panic!("{event} {contained}: {error}\n{}", self.log()));
            let message = strings(&message);
            if message.contains(&format!(" {event} ")) && message.contains(contained) {
                return;
            }
        }
    }
}

#[test]
fn sentinel_promotes_a_replica_and_makes_the_store_its_replica() {
    if undercroft_binary().is_none() {
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let store = directory.path().join("store");
    let port = spare_port();
    let source = Address::Tcp(format!("127.0.0.1:{port}"));
    let server = Further::start(&store, port);
    let mut client = connect(&source);
    client.call(["SET", "before", "1"]).expect("a reply");
    let replica = Server::start(Kind::Redis, settings()).expect("the replica starts");
    let Address::Tcp(replica_address) = replica.address().clone() else {
        panic!("no port");
    };
    let (_, replica_port) = replica_address.rsplit_once(':').expect("a port");
    let mut there = Client::connect(replica.address()).expect("it accepts");
    let follow = ["REPLICAOF", "127.0.0.1", &port.to_string()];
    there.call(follow).expect("a reply");
    let mut sentinel = Sentinel::start(directory.path(), port);
    sentinel.expect("+slave", replica_port);
    client.call(["SET", "last", "2"]).expect("a reply");
    let waited = client.call(["WAIT", "1", "60000"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(1));
    let mut there = (replica.address().clone(), there);
    drop(server);
    // Until the Sentinel has completed the failover, a master that returns stays the master.
    sentinel.expect("+switch-master", replica_port);
    assert!(strings(&ask(&mut there, &["ROLE"])).starts_with("master"));
    let got = ask(&mut there, &["GET", "last"]);
    assert_eq!(got, Reply::Bulk(b"2".to_vec()));
    ask(&mut there, &["SET", "after", "3"]);
    // The store comes back, and the Sentinel makes it a replica of the new master.
    let _server = Further::start(&store, port);
    sentinel.expect("+convert-to-slave", &port.to_string());
    let waited = ask(&mut there, &["WAIT", "1", "60000"]);
    assert_eq!(waited, Reply::Integer(1), "{}", sentinel.log());
    let mut client = (source.clone(), connect(&source));
    let got = ask(&mut client, &["GET", "after"]);
    assert_eq!(got, Reply::Bulk(b"3".to_vec()));
    let refused = ask(&mut client, &["SET", "own", "4"]);
    assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
}
