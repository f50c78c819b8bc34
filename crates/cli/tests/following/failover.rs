//! A failover by a real Sentinel while a store follows the master.

use std::fs;
use std::process::{Child, Command, Stdio};

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server};
use undercroft_engine::LinkStatus;

use crate::served::compare;
use crate::support::{
    Changes, Follower, Place, call, field, offset_of, place_of, redis, seed, spare_port, until,
};

/// A Sentinel that watches one master. It is killed on drop.
struct Sentinel {
    child: Child,
    port: u16,
}

impl Sentinel {
    fn start(place: &Place, master: &str) -> Sentinel {
        let port = spare_port();
        let (config, host_and_port) = (place.path("sentinel.conf"), master.replace(':', " "));
        let lines = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor main {host_and_port} 1\n\
             sentinel down-after-milliseconds main 3000\nsentinel failover-timeout main 10000\n"
        );
        fs::write(&config, lines).expect("a file");
        let program = Kind::Redis.program().expect("a program");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args([&config, "--sentinel"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is a Sentinel, too");
        Sentinel { child, port }
    }

    /// Returns the address of the master that the Sentinel names.
    fn master(&self) -> Option<String> {
        let address = Address::Tcp(format!("127.0.0.1:{}", self.port));
        let mut client = Client::connect(&address).ok()?;
        let reply = client
            .call(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"])
            .ok()?;
        let Reply::Array(words) = reply else {
            return None;
        };
        let words: Vec<String> = words
            .iter()
            .filter_map(|word| Some(String::from_utf8_lossy(word.bytes()?).into_owned()))
            .collect();
        Some(words.join(":"))
    }

    /// Returns whether the Sentinel knows one replica of the master.
    fn has_replica(&self) -> bool {
        let address = Address::Tcp(format!("127.0.0.1:{}", self.port));
        let client = Client::connect(&address);
        let info = client
            .ok()
            .and_then(|mut client| client.call(["INFO", "sentinel"]).ok());
        let text = info
            .as_ref()
            .and_then(|info| info.bytes())
            .unwrap_or_default();
        String::from_utf8_lossy(text).contains("slaves=1")
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn replica_of(master: &Server) -> Server {
    let replica = redis(&["--replica-priority", "1"]);
    let address = place_of(master);
    let (host, port) = address.split_once(':').expect("a port");
    call(&replica, &["REPLICAOF", host, port]);
    until(
        || field(&replica, "replication", "master_link_status") == "up",
        || replica.log(),
    );
    replica
}

#[test]
fn store_follows_the_successor_that_a_sentinel_promotes() {
    let master = redis(&[]);
    let mut changes = Changes::new(seed(), &master);
    changes.make(1000);
    let successor = replica_of(&master);
    let place = Place::new();
    let sentinel = Sentinel::start(&place, &place_of(&master));
    until(
        || sentinel.master() == Some(place_of(&master)),
        || "the Sentinel does not answer".into(),
    );
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let _follower = Follower::start(&url, place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    changes.make(1000);
    // The Sentinel must know the successor before the master dies. As the store does, it asks the
    // master for its replicas. The store is no candidate, because it listens on no port.
    until(|| sentinel.has_replica(), || "no replica".into());
    until(
        || offset_of(&successor) >= offset_of(&master),
        || successor.log(),
    );
    place.catch_up(&master);
    let before = field(&master, "replication", "master_replid");
    // Dropping the master kills it.
    drop((changes, master));
    until(
        || sentinel.master() == Some(place_of(&successor)),
        || "the Sentinel does not promote the replica".into(),
    );
    until(
        || field(&successor, "replication", "role") == "master",
        || successor.log(),
    );
    let mut changes = Changes::new(seed(), &successor);
    changes.make(1000);
    let after = field(&successor, "replication", "master_replid");
    assert_ne!(before, after);
    until(
        || {
            let source = place.store.source().expect("a whole store");
            source.is_some_and(|source| source.id == after.as_bytes())
        },
        || place.describe(),
    );
    place.catch_up(&successor);
    compare(&place, &successor);
}
