//! After random commands of every family, replicas have the data of the store, also when connections are
//! cut, the backlog is lost, the server is killed, and other processes change the store without a server.

use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::Instant;

use undercroft_conformance::audit::audit;
use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::compare::Rules;
use undercroft_conformance::replication::{
    Changes, PATIENCE, Sentinel, connect, host_and_port, replicate, spare_port, text,
};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{
    Kind, Server, Settings, start_undercroft, undercroft_binary,
};

/// Our server and a replica of it.
pub(crate) struct Pair {
    pub(crate) ours: Server,
    pub(crate) replica: Server,
    pub(crate) changes: Changes,
}

pub(crate) fn settings() -> Settings {
    // The address space of a snapshot is as large as the store's.
    Settings {
        memory_max: None,
        ..Settings::default()
    }
}

impl Pair {
    /// Starts a server with some data, and a server that does not follow it yet.
    pub(crate) fn start(seed: u64, kind: Kind, without: &[&str]) -> Option<Pair> {
        let ours = start_undercroft(settings()).expect("undercroft starts")?;
        let replica = Server::start(kind, settings()).expect("the replica starts");
        let changes = Changes::new(seed, ours.address(), without);
        let mut pair = Pair {
            ours,
            replica,
            changes,
        };
        pair.change(2000);
        Some(pair)
    }

    pub(crate) fn change(&mut self, commands: usize) {
        self.changes.make(commands);
    }

    pub(crate) fn follow(&self) {
        self.follow_at(self.ours.address());
    }

    pub(crate) fn follow_at(&self, source: &Address) {
        replicate(source, self.replica.address());
    }

    /// Waits until the replica has applied everything, and compares the data.
    pub(crate) fn compare(&mut self) {
        self.compare_at(&self.ours.address().clone());
    }

    /// Waits until the replica of a server of the store has applied everything, and compares the
    /// data.
    pub(crate) fn compare_at(&mut self, source: &Address) {
        let mut ours = connect(source);
        let start = Instant::now();
        loop {
            let reply = ours.call(["WAIT", "1", "1000"]).expect("a reply");
            if reply == Reply::Integer(1) {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{reply:?}\n{}", self.describe());
        }
        let mut replica = Client::connect(self.replica.address()).expect("it accepts");
        // An encoding can depend on earlier values, which the replica never had.
        let rules = Rules {
            encodings: false,
            ..Rules::default()
        };
        let found = audit(&mut replica, &mut ours, rules).expect("both answer");
        assert_eq!(found, None, "{}", self.describe());
        self.expect_no_failed_command();
    }

    /// Redis and Valkey log each command of their source that fails.
    pub(crate) fn expect_no_failed_command(&self) {
        assert!(
            !self.replica.log().contains("CRITICAL"),
            "{}",
            self.describe()
        );
    }

    pub(crate) fn describe(&self) -> String {
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
    for kind in [Kind::Redis, Kind::Undercroft] {
        let Some(mut pair) = Pair::start(seed(), kind, &[]) else {
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
}

/// A further server of a store, which is killed at the end.
pub(crate) struct Further(Child);

impl Further {
    pub(crate) fn start(store: &Path, port: u16) -> Further {
        Further::start_with(store, port, &[])
    }

    /// Starts a server with further options.
    pub(crate) fn start_with(store: &Path, port: u16, options: &[&str]) -> Further {
        let program = undercroft_binary().expect("the program");
        let mut process = Process::new(program);
        process.arg("serve").arg("--store").arg(store);
        process.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        let quiet = process.args(options).stdout(Stdio::null());
        Further(quiet.spawn().expect("it starts"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Further {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let (_, port) = host_and_port(pair.ours.address());
    pair.changes
        .writer()
        .call(["SET", "one", "key"])
        .expect("a reply");
    let load = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    let loaded = pair
        .changes
        .writer()
        .call(["FUNCTION", "LOAD", "REPLACE", load]);
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
        let reply = pair.changes.writer().call(["ROLE"]).expect("a reply");
        // An array of the role, the offset and the array of the replicas that are online.
        if format!("{reply:?}").matches("Array").count() > 2 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{}", pair.describe());
    }
    pair.changes
        .writer()
        .call(["SET", "told", "now"])
        .expect("a reply");
    let told = lines.any(|line| line.expect("text").contains("\"SET\",\"told\",\"now\""));
    assert!(told);
    let _ = cli.kill();
    let _ = cli.wait();
}

#[test]
fn migrate_moves_keys_to_a_redis_and_back() {
    let target = Server::start(Kind::Redis, settings()).expect("the target starts");
    let (host, port) = host_and_port(target.address());
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    // The operator has allowed no host.
    let refused = pair
        .changes
        .writer()
        .call(["MIGRATE", host, port, "no", "0", "0"]);
    assert_eq!(refused.expect("a reply"), Reply::Simple(b"NOKEY".to_vec()));
    pair.changes
        .writer()
        .call(["SET", "moved", "value"])
        .expect("a reply");
    let refused = pair
        .changes
        .writer()
        .call(["MIGRATE", host, port, "moved", "0", "0"]);
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
    let (host, port) = host_and_port(ours.address());
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
    let (_, replica_port) = host_and_port(replica.address());
    let mut there = Client::connect(replica.address()).expect("it accepts");
    let follow = ["REPLICAOF", "127.0.0.1", &port.to_string()];
    there.call(follow).expect("a reply");
    let mut sentinel = Sentinel::start(directory.path(), "data", &source);
    sentinel.expect("+slave", replica_port);
    client.call(["SET", "last", "2"]).expect("a reply");
    let waited = client.call(["WAIT", "1", "60000"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(1));
    let mut there = (replica.address().clone(), there);
    drop(server);
    // Until the Sentinel has completed the failover, a master that returns stays the master.
    sentinel.expect("+switch-master", replica_port);
    assert!(text(&ask(&mut there, &["ROLE"])).starts_with("master"));
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
