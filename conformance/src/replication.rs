//! Sources and replicas in tests: random changes, links, and a Sentinel that watches them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Address, Client};
use crate::command::Command;
use crate::generate::{FAMILIES, Family, Generator};
use crate::resp::Reply;
use crate::servers::Kind;

/// The longest wait for an event, which only a hang exceeds.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Random changes of a source: keys of every type in every database.
pub struct Changes {
    random: Generator,
    writer: Client,
}

impl Changes {
    /// Makes changes through a new connection. `without` names families of commands to leave out.
    ///
    /// # Panics
    /// Panics if the source does not accept connections.
    pub fn new(seed: u64, source: &Address, without: &[&str]) -> Self {
        Changes {
            random: Generator::new(seed, &replicated_families(without)),
            writer: Client::connect(source).expect("the source accepts connections"),
        }
    }

    /// Runs random commands on the source.
    ///
    /// # Panics
    /// Panics if the source closes the connection.
    pub fn make(&mut self, commands: usize) {
        for _ in 0..commands.div_ceil(100) {
            let mut batch: Vec<Command> = (0..100).map(|_| self.random.command()).collect();
            while self.random.is_amid() {
                batch.push(self.random.command());
            }
            self.writer.pipeline(&batch).expect("the source runs them");
        }
    }

    /// Returns the connection through which the changes are made.
    pub fn writer(&mut self) -> &mut Client {
        &mut self.writer
    }
}

/// Returns the families of commands whose effects replicas show. `without` names further families to
/// leave out.
pub fn replicated_families(without: &[&str]) -> Vec<Family> {
    // Blocked clients and messages leave nothing to compare, and the source's own settings are not
    // replicated.
    let never = ["blocking", "messages", "server"];
    FAMILIES
        .iter()
        .filter(|family| !never.contains(&family.name) && !without.contains(&family.name))
        .copied()
        .collect()
}

/// Makes a server a replica of another.
///
/// # Panics
/// Panics if the replica refuses.
pub fn replicate(source: &Address, replica: &Address) {
    let (host, port) = host_and_port(source);
    let mut client = Client::connect(replica).expect("the replica accepts connections");
    let reply = client.call(["REPLICAOF", host, port]).expect("a reply");
    assert!(matches!(reply, Reply::Simple(_)), "{reply:?}");
}

/// Returns the host and the port of an address.
///
/// # Panics
/// Panics if the address is a Unix domain socket.
pub fn host_and_port(address: &Address) -> (&str, &str) {
    let Address::Tcp(text) = address else {
        panic!("{address} is no port");
    };
    text.rsplit_once(':').expect("an address with a port")
}

/// Returns the text of a reply: its string, or the strings of an array separated by spaces.
pub fn text(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => items.iter().map(|item| text(item) + " ").collect(),
        reply => String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned(),
    }
}

/// Returns a field of a section of INFO, or an empty string.
///
/// # Panics
/// Panics if the connection ends.
pub fn field(client: &mut Client, section: &str, name: &str) -> String {
    let reply = client.call(["INFO", section]).expect("a reply");
    let all = text(&reply);
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_default().trim().to_owned()
}

/// Returns a port that no process uses. Another process can bind it first, and the test then fails.
///
/// # Panics
/// Panics if all ports are used.
pub fn spare_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Connects to a server that may still be starting.
///
/// # Panics
/// Panics if the server does not start within [`PATIENCE`].
pub fn connect(address: &Address) -> Client {
    let start = Instant::now();
    loop {
        match Client::connect(address) {
            Ok(client) => return client,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{address}: {error}"),
        }
        std::thread::yield_now();
    }
}

/// A Sentinel that watches one master, and the messages that it publishes. It is killed on drop.
pub struct Sentinel {
    child: Child,
    address: Address,
    log: PathBuf,
    /// A connection that has subscribed to all messages.
    messages: Client,
}

impl Sentinel {
    /// Starts a Sentinel that watches a master under a name. Its files are written to `directory`.
    ///
    /// # Panics
    /// Panics if redis-server is not installed.
    pub fn start(directory: &Path, name: &str, master: &Address) -> Self {
        let [config, log] = ["sentinel.conf", "sentinel.log"].map(|name| directory.join(name));
        let address = Address::Tcp(format!("127.0.0.1:{}", spare_port()));
        let (_, port) = host_and_port(&address);
        let (host, master_port) = host_and_port(master);
        let lines = [
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", directory.display()),
            format!("logfile {}", log.display()),
            format!("sentinel monitor {name} {host} {master_port} 1"),
            // A Sentinel connects again only once a second, so less makes it give up living servers.
            format!("sentinel down-after-milliseconds {name} 3000"),
            format!("sentinel failover-timeout {name} 10000"),
        ];
        std::fs::write(&config, lines.join("\n")).expect("space for a file");
        let program = Kind::Redis.program().expect("redis-server is installed");
        let child = Process::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .arg(&config)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .spawn()
            .expect("setpriv is installed");
        let mut messages = connect(&address);
        messages.call(["PSUBSCRIBE", "*"]).expect("a reply");
        Sentinel {
            child,
            address,
            log,
            messages,
        }
    }

    /// Returns the address of the Sentinel.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the log of the Sentinel.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the Sentinel has reported an event that concerns a text, as an address.
    ///
    /// # Panics
    /// Panics with the log if the Sentinel reports nothing for a minute.
    pub fn expect(&mut self, event: &str, concerned: &str) {
        let event = format!(" {event} ");
        // The Sentinel writes to its log before it publishes, also while there is no subscriber yet.
        while !(self.log().lines()).any(|line| line.contains(&event) && line.contains(concerned)) {
            if let Err(error) = self.messages.receive() {
                panic!("{event} {concerned}: {error}\n{}", self.log());
            }
        }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
