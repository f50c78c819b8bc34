//! Starts servers, and normalizes descriptions of users.

use std::time::{Duration, Instant};

use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// The time limit for events that are announced between processes.
const LONG: Duration = Duration::from_secs(30);

/// A real Redis and `undercroft serve`.
pub(crate) struct Pair {
    pub(crate) judge: Server,
    pub(crate) ours: Server,
}

impl Pair {
    /// Starts both servers. Returns `None` if the test is skipped.
    pub(crate) fn start() -> Option<Pair> {
        let ours = serve(Settings::default())?;
        let judge = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
        Some(Pair { judge, ours })
    }

    /// Opens a connection to each server.
    pub(crate) fn connect(&self) -> Both {
        Both {
            judge: connect(&self.judge),
            ours: connect(&self.ours),
        }
    }
}

/// Connections to both servers.
pub(crate) struct Both {
    pub(crate) judge: Client,
    pub(crate) ours: Client,
}

impl Both {
    /// Sends a line to both servers and checks that the replies are equal.
    pub(crate) fn call(&mut self, line: &str) -> Reply {
        let (judge, ours) = (call(&mut self.judge, line), call(&mut self.ours, line));
        assert_eq!(ours, judge, "{line}");
        ours
    }

    /// Sends each line to both servers and checks that the replies are equal.
    pub(crate) fn calls(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.call(line);
        }
    }
}

/// Starts `undercroft serve`. Returns `None` if the test is skipped.
pub(crate) fn serve(settings: Settings) -> Option<Server> {
    start_undercroft(settings).expect("our server starts")
}

pub(crate) fn connect(server: &Server) -> Client {
    Client::connect(server.address()).expect("the server accepts")
}

/// Sends a line of words, which can be quoted as in redis-cli.
pub(crate) fn call(client: &mut Client, line: &str) -> Reply {
    let command = undercroft_conformance::command::Command::parse(line).expect("a sound line");
    client.call(command.0).expect("a reply")
}

/// Returns the text of a reply.
pub(crate) fn text(reply: &Reply) -> String {
    let bytes = match reply {
        Reply::Error(text) => text,
        reply => reply.bytes().unwrap_or_default(),
    };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until the server has closed a connection.
pub(crate) fn wait_for_end(client: &mut Client) {
    let start = Instant::now();
    while client.receive().is_ok() {
        assert!(start.elapsed() < LONG, "the connection stays open");
    }
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

/// Returns whether a rule concerns only commands that Redis 7.0 does not have.
fn is_own(rule: &str) -> bool {
    const NEWER: [&str; 3] = ["client|no-touch", "client|setinfo", "waitaof"];
    let name = &rule[1..];
    name.contains('.') || name == "@feed" || NEWER.contains(&name)
}

/// Sorts the rules for single commands, whose order is random in Redis, and drops the rules for
/// commands that Redis does not have. The order of categories is kept.
fn normal_rules(text: &str) -> String {
    let (mut before, mut categories, mut single) = (Vec::new(), Vec::new(), Vec::new());
    for rule in text.split(' ') {
        match rule {
            _ if !rule.starts_with(['+', '-']) => before.push(rule),
            _ if is_own(rule) => {}
            _ if rule[1..].starts_with('@') => categories.push(rule),
            _ => single.push(rule),
        }
    }
    single.sort_unstable();
    [before, categories, single].concat().join(" ")
}

/// Normalizes a line of ACL LIST: the rules of the root and of each selector.
pub(crate) fn normal_line(line: &str) -> String {
    let parts = line.split(['(', ')']).map(|part| normal_rules(part.trim()));
    parts.collect::<Vec<_>>().join("|")
}

/// Normalizes a reply to ACL GETUSER or ACL LIST.
pub(crate) fn normal(reply: &Reply) -> Vec<String> {
    match reply.items() {
        Some(items) => items.iter().flat_map(normal).collect(),
        None => vec![normal_line(&text(reply))],
    }
}
