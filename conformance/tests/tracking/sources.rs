//! Changes by other servers, by processes that embed the store, and by the store itself.

use std::process::Command as Process;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings, start_two, undercroft_binary};

use crate::support::{Invalidated, Tracked, info, keys, on_both, redirection, serve};

/// The time limit for events that are announced between processes.
const LONG: Duration = Duration::from_secs(30);

/// Runs a command on a server's store in a process that embeds the store.
pub(crate) fn embedded(server: &Server, words: &[&str]) {
    let binary = undercroft_binary().expect("the server was started");
    let store = server.store();
    let mut process = Process::new(binary);
    process.args(["exec", "--store"]).arg(store).args(words);
    let output = process.output().expect("the program starts");
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[test]
fn changes_by_other_processes_are_told_without_a_command() {
    let Some((one, two)) = start_two().expect("our servers start") else {
        return;
    };
    let mut client = Tracked::resp3(&one);
    let mut other = Tracked::connect(&two);
    client.calls("CLIENT TRACKING on");
    for round in 0..5 {
        client.calls("GET key\nSCARD set");
        embedded(&one, &["SET", "key", &round.to_string()]);
        assert_eq!(client.next(), keys(&["key"]));
        other.calls(&format!("SADD set {round}"));
        assert_eq!(client.next(), keys(&["set"]));
    }
    // Upkeep removes an expired key, in whichever process.
    embedded(&one, &["SET", "expires", "v"]);
    client.calls("GET expires");
    embedded(&one, &["PEXPIRE", "expires", "2000"]);
    assert_eq!(client.next(), keys(&["expires"]));
    assert_eq!(client.call("GET expires"), Reply::Bulk(b"v".to_vec()));
    assert_eq!(client.next(), keys(&["expires"]));
    // Both servers track keys of one store.
    other.calls("HELLO 3\nCLIENT TRACKING on\nGET key");
    client.calls("GET key");
    embedded(&one, &["APPEND", "key", "x"]);
    assert_eq!(
        [client.next(), other.next()],
        [keys(&["key"]), keys(&["key"])]
    );
}

#[test]
fn killed_servers_leave_places_for_others() {
    let Some(one) = serve(Settings::default()) else {
        return;
    };
    let mut client = Tracked::resp3(&one);
    client.calls("CLIENT TRACKING on");
    // A store has room for 16 servers that track keys.
    for round in 0..20 {
        let settings = Settings {
            store: Some(one.store()),
            ..Settings::default()
        };
        let two = serve(settings).expect("a second server");
        let mut other = Tracked::resp3(&two);
        let mode = ["", "BCAST"][round % 2];
        other.calls(&format!("CLIENT TRACKING on {mode}\nGET key"));
        client.calls("GET key");
        let pid = Pid::from_raw(two.pid() as i32).expect("a process");
        kill_process(pid, Signal::KILL).expect("it runs");
        embedded(&one, &["SET", "key", &round.to_string()]);
        assert_eq!(client.next(), keys(&["key"]), "round {round}");
    }
}

#[test]
fn every_command_that_changes_a_key_is_told() {
    let Some(server) = serve(Settings::default()) else {
        return;
    };
    let (mut client, mut writer) = (Tracked::resp3(&server), Tracked::connect(&server));
    client.calls("CLIENT TRACKING on BCAST");
    writer.calls("SET a 1\nRPUSH list a b\nSET volatile v EX 1000");
    let payload = match writer.call("DUMP a") {
        Reply::Bulk(bytes) => bytes,
        reply => panic!("{reply:?}"),
    };
    let payload: String = payload
        .iter()
        .map(|byte| format!("\\x{byte:02x}"))
        .collect();
    let restore = format!("RESTORE restored 0 \"{payload}\"");
    client.keys();
    for (line, expected) in [
        ("RENAME a b", &["a", "b"][..]),
        ("COPY b c", &["c"]),
        ("MOVE b 1", &["b"]),
        (&restore, &["restored"]),
        ("SORT list ALPHA STORE sorted", &["sorted"]),
        ("LMOVE list list LEFT RIGHT", &["list"]),
        ("PERSIST volatile", &["volatile"]),
        ("EXPIRE volatile -1", &["volatile"]),
        ("SETBIT bits 3 1", &["bits"]),
        ("SETBIT bits 4 1", &["bits"]),
        ("XADD stream 1-1 f v", &["stream"]),
        ("XGROUP CREATE stream g $", &["stream"]),
        ("UNLINK c restored", &["c", "restored"]),
        (
            "EVAL \"redis.call('set', 'undeclared', 1)\" 0",
            &["undeclared"],
        ),
        ("SWAPDB 0 1", &["*"]),
        ("FLUSHALL", &["*"]),
    ] {
        let reply = writer.call(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
        assert_eq!(client.keys(), expected, "{line}");
    }
}

#[test]
fn transaction_with_very_many_keys_invalidates_all() {
    let Some(server) = serve(Settings::default()) else {
        return;
    };
    let mut client = Tracked::resp3(&server);
    client.calls("CLIENT TRACKING on BCAST");
    let name = "k".repeat(10_000);
    let names: Vec<String> = (0..40).map(|number| format!("{name}{number}")).collect();
    let mut words = vec!["MSET"];
    names.iter().for_each(|name| words.extend([name, "v"]));
    embedded(&server, &words);
    assert_eq!(client.next(), Invalidated::All);
}

#[test]
fn replaced_data_set_invalidates_all() {
    let Some(replica) = serve(Settings::default()) else {
        return;
    };
    let source = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let (mut client, mut writer) = (Tracked::resp3(&replica), Tracked::connect(&source));
    writer.calls("SET key 1");
    client.calls("SET key 0\nCLIENT TRACKING on\nGET key");
    let address = source.address().to_string();
    let (host, port) = address.rsplit_once(':').expect("a port");
    let start = Instant::now();
    client.calls(&format!("REPLICAOF {host} {port}"));
    loop {
        // Invalidations arrive with the new data set, or before.
        if client.text("GET key") == "1" {
            break;
        }
        assert!(
            start.elapsed() < LONG,
            "the replica did not load the data set"
        );
    }
    let told = client.all();
    assert!(told.contains(&Invalidated::All), "{told:?}");
    // Each later change of the source.
    client.calls("GET key");
    writer.calls("SET key 2");
    assert_eq!(client.next(), keys(&["key"]));
    client.call("GET key");
    writer.calls("FLUSHALL");
    assert_eq!(client.next(), Invalidated::All);
}

#[test]
fn users_learn_no_names_of_keys_that_they_may_not_read() {
    let Some(server) = serve(Settings::default()) else {
        return;
    };
    let mut admin = Tracked::connect(&server);
    admin.calls("ACL SETUSER u on nopass +@all &* %R~mine:* %W~* resetchannels &*");
    let mut client = Tracked::connect(&server);
    client.calls("HELLO 3 AUTH u x\nCLIENT TRACKING on BCAST");
    admin.calls("MSET mine:1 v secret:1 v\nSET secret:2 v\nSET mine:2 v");
    assert_eq!(client.keys(), ["mine:1", "mine:2"]);
    // Not through a connection of another user that redirects to this one, either.
    let id = client.id();
    admin.calls(&format!(
        "CLIENT TRACKING on BCAST REDIRECT {id}\nSET secret:3 v\nSET mine:3 v"
    ));
    assert_eq!(client.keys(), ["mine:3", "mine:3"]);
    // A right that is revoked ends the invalidations at once.
    admin.calls("CLIENT TRACKING off\nACL SETUSER u resetkeys %R~other:*\nMSET mine:4 v other:1 v");
    assert_eq!(client.keys(), ["other:1"]);
}

#[test]
fn commands_and_their_rights_are_those_of_redis() {
    let Some(server) = serve(Settings::default()) else {
        return;
    };
    let mut admin = Tracked::connect(&server);
    admin.calls("ACL SETUSER u on nopass ~* -@all +hello +client|trackinginfo +ping");
    let mut client = Tracked::connect(&server);
    client.calls("HELLO 3 AUTH u x\nCLIENT TRACKINGINFO");
    let denied = client.text("CLIENT TRACKING on");
    assert!(denied.starts_with("NOPERM"), "{denied}");
}

#[test]
fn tracking_begins_and_ends_inside_a_transaction() {
    on_both(|server| {
        let (mut client, mut writer) = (Tracked::resp3(server), Tracked::connect(server));
        client.calls("SET a 1\nMULTI\nCLIENT TRACKING on\nGET a");
        assert_eq!(client.call("EXEC").items().expect("replies").len(), 2);
        writer.calls("SET a 2");
        client.calls("PING");
        let mut told = client.taken();
        // Our server also tells the client at once.
        told.dedup();
        assert_eq!(told, [keys(&["a"])]);
        client.calls("GET a\nMULTI\nCLIENT TRACKING off\nGET a\nEXEC");
        writer.calls("SET a 3");
        client.calls("PING");
        assert_eq!(client.taken(), []);
        client.calls("MULTI\nCLIENT TRACKING on BCAST PREFIX b\nEXEC");
        writer.calls("SET a 4\nSET b 4");
        assert_eq!(client.next(), keys(&["b"]));
        client.calls("CLIENT TRACKING off");
        // The mode changes, and the keys of the transaction are remembered in the new one.
        client.calls("CLIENT TRACKING on OPTIN");
        client.calls("MULTI\nCLIENT TRACKING off\nCLIENT TRACKING on\nGET a\nEXEC");
        writer.calls("SET a 5");
        client.calls("PING");
        assert_eq!(client.taken().last(), Some(&keys(&["a"])));
        client.calls("MULTI\nCLIENT TRACKING off\nCLIENT TRACKING on BCAST\nGET a\nEXEC");
        writer.calls("SET a 6");
        client.calls("PING");
        assert_eq!(client.taken().last(), Some(&keys(&["a"])));
        client.calls("CLIENT TRACKING off");
    });
}

#[test]
fn closed_and_killed_clients_no_longer_track() {
    let Some(server) = serve(Settings::default()) else {
        return;
    };
    let (_other, id) = redirection(&server);
    let mut admin = Tracked::connect(&server);
    for end in ["QUIT", "kill", "RESET"] {
        let mut client = Tracked::resp3(&server);
        client.calls(&format!("CLIENT TRACKING on BCAST REDIRECT {id}"));
        assert_eq!(info(&mut admin, "tracking_clients"), 1);
        match end {
            "kill" => {
                let id = client.id();
                admin.calls(&format!("CLIENT KILL ID {id}"));
            }
            end => {
                client.call(end);
            }
        }
        let start = Instant::now();
        while info(&mut admin, "tracking_clients") != 0 {
            assert!(start.elapsed() < LONG, "{end}");
        }
        assert_eq!(info(&mut admin, "tracking_total_prefixes"), 0, "{end}");
    }
}

/// Returns the processor time that a process has used, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = text.rsplit_once(')').expect("a name in parentheses");
    let fields: Vec<&str> = fields.split_whitespace().collect();
    [11, 12]
        .iter()
        .map(|at| fields[*at].parse::<u64>().expect("a number"))
        .sum()
}

#[test]
fn server_rests_after_the_last_client_stops_to_track() {
    let Some(server) = serve(Settings::default()) else {
        return;
    };
    let mut tracked = Tracked::resp3(&server);
    tracked.calls("CLIENT TRACKING ON");
    tracked.call("GET key");
    let mut other = Tracked::connect(&server);
    other.calls("SET key value");
    tracked.calls("CLIENT TRACKING OFF");
    // The descriptor on which a thread waits for changes becomes readable within a tenth of a second.
    let before = ticks(server.pid());
    std::thread::sleep(Duration::from_secs(1));
    let used = ticks(server.pid()) - before;
    assert!(used < 15, "{used} ticks in a second");
}
