//! Tests `rename-command`, compared with a real Redis 7.0.

use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server as Remote, Settings};

use crate::judged::Both;
use crate::support::{Place, Server, wait_until};

const RENAMES: &str = "rename-command FLUSHALL \"\"\nrename-command CONFIG myconfig\nrename-command GET fetch\n\
                       rename-command fetch Take\nrename-command INCR incr\nrename-command DEL GET\n";

#[test]
fn clients_see_the_new_names_as_in_redis() {
    let both = Both::start(RENAMES, None);
    both.same(
        "
        FLUSHALL
        CONFIG GET port
        config
        MYCONFIG
        myconfig GET
        MYCONFIG GET maxmemory-samples
        SET a 1
        fetch a
        TAKE a
        take
        take a b
        INCR a
        DEL a
        MULTI
        take a
        get a
        EXEC
        MULTI
        flushall
        EXEC
        take a
        SET a 1
        EVAL \"return redis.call('take','a')\" 0
        EVAL \"return redis.pcall('fetch','a').err\" 0
        EVAL \"return redis.acl_check_cmd('take','a')\" 0
        COMMAND INFO fetch flushall config myconfig|get config|get
        COMMAND DOCS fetch flushall
        COMMAND GETKEYS take a
        COMMAND GETKEYS fetch a
        COMMAND LIST FILTERBY PATTERN flush*
        COMMAND LIST FILTERBY PATTERN *take*
        COMMAND LIST FILTERBY PATTERN config
        ACL SETUSER v on nopass ~* -@all +set +config|get
        ACL SETUSER v +take
        ACL SETUSER v +myconfig
        ACL SETUSER v +flushall
        ACL DRYRUN v get a
        ACL DRYRUN v fetch a
        ACL DRYRUN v take a
        ACL DRYRUN v myconfig get maxmemory
        ACL DRYRUN v set a b
        AUTH v x
        take a
        myconfig get maxmemory-samples
        myconfig set maxmemory-samples 3
        fetch a",
    );
    // Each count leaves out the removed command.
    let count = |server: &Remote, line: &str| {
        let mut client = Client::connect(server.address()).expect("it accepts");
        client
            .call(Command::parse(line).expect("sound").0)
            .expect("a reply")
    };
    let all = Server::start(&Place::new(), "")
        .connect()
        .call("COMMAND COUNT");
    let Reply::Integer(left) = count(&both.ours, "COMMAND COUNT") else {
        panic!("expected a number");
    };
    assert_eq!(all, format!(":{}", left + 1));
}

#[test]
fn faulty_renames_prevent_the_start() {
    let place = Place::new();
    for (line, reason) in [
        (
            "rename-command nosuch x",
            "line 5: there is no command 'nosuch'",
        ),
        (
            "rename-command config|get x",
            "there is no command 'config|get'",
        ),
        (
            "rename-command incr decr",
            "'decr' is the name of another command",
        ),
        ("rename-command incr", "expected a command and its new name"),
        (
            "user u on +myconfig\nrename-command config myconfig",
            "myconfig",
        ),
    ] {
        let refused = place.refuse(line);
        assert!(refused.contains(reason), "{line}: {refused}");
    }
}

#[test]
fn long_values_are_received_under_a_new_name_only() {
    let place = Place::new();
    let server = Server::start(&place, "rename-command SET put");
    let mut client = server.connect();
    let value = "v".repeat(3_000_000);
    for (name, reply) in [("SET", "-ERR unknown command 'SET'"), ("put", "+OK")] {
        let head = format!("*3\r\n${}\r\n{name}\r\n$1\r\nk\r\n", name.len());
        client.send(format!("{head}${}\r\n{value}\r\n", value.len()).as_bytes());
        let got = client.reply();
        assert!(
            got.starts_with(reply),
            "{name}: {}",
            &got[..got.len().min(80)]
        );
    }
    assert_eq!(client.call("STRLEN k"), format!(":{}", value.len()));
    assert!(client.call("SET k v").starts_with("-ERR unknown command"));
}

#[test]
fn replicas_and_sources_use_the_true_names() {
    let place = Place::new();
    let source = Remote::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let address = source.address().to_string();
    let (host, port) = address.rsplit_once(':').expect("a port");
    let source_says = |line: &str| {
        let mut client = Client::connect(source.address()).expect("it accepts");
        client
            .call(Command::parse(line).expect("sound").0)
            .expect("a reply")
    };
    // The source's stream contains SET and DEL, which clients of the replica cannot call.
    let lines = "rename-command SET put\nrename-command DEL \"\"\nrename-command GET fetch";
    let mut command = place.serve(&format!("{lines}\nreplicaof {host} {port}"));
    command.args(["--writes", "forward"]);
    let server = Server::of(&place, command);
    source_says("SET a 1");
    source_says("SET b 2");
    source_says("DEL b");
    let mut client = server.connect();
    wait_until("the changes arrive", || client.call("fetch a") == "1");
    wait_until("the removal arrives", || client.call("EXISTS b") == ":0");
    // A forwarded command has its true name.
    assert_eq!(client.call("put c 3"), "+OK");
    assert_eq!(source_says("GET c"), Reply::Bulk(b"3".to_vec()));
    assert_eq!(client.call("fetch c"), "3");
    // A process that maps the store uses the true names.
    let store = place.path("served");
    let output = crate::support::command(&["exec", "--store", &store, "GET", "a"]).output();
    assert_eq!(output.expect("the binary runs").stdout, b"1\n");
}
