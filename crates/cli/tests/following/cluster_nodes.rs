//! A real cluster on the loopback interface, and random changes of it.

use std::collections::HashMap;

use undercroft_commands::table::resolve;
use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::generate::Generator;
use undercroft_conformance::generate::payload::seal;
use undercroft_conformance::replication::{replicated_families, spare_port};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings};
use undercroft_engine::{LinkStatus, SLOTS, key_slot};

use crate::served::compare;
use crate::support::{NOT_REPLICATED, Place, call, field, offset_of, place_of, redis, until};

/// The type byte of small sets since Redis 7.2.
const SET_LISTPACK: u8 = 20;

/// The nodes of a cluster: masters, then replicas.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Option<Server>>,
}

/// Starts a node that belongs to no cluster yet.
fn node(kind: Kind, arguments: &[&str]) -> Server {
    let port = spare_port().to_string();
    let fixed = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "2000",
        "--cluster-allow-replica-migration",
        "no",
        "--repl-diskless-sync-delay",
        "0",
        // The bus of a node is otherwise at its port plus 10,000, which can be too high.
        "--cluster-port",
        &port,
    ];
    let settings = Settings {
        arguments: fixed
            .iter()
            .chain(arguments)
            .map(|&word| word.to_owned())
            .collect(),
        ..Settings::default()
    };
    Server::start(kind, settings).expect("a node starts")
}

/// Returns a node's port for the other nodes.
fn bus_port(server: &Server) -> String {
    let reply = call(server, &["CONFIG", "GET", "cluster-port"]);
    let items = reply.items().expect("an array");
    String::from_utf8_lossy(items[1].bytes().expect("a value")).into_owned()
}

pub(crate) fn id_of(server: &Server) -> String {
    let reply = call(server, &["CLUSTER", "MYID"]);
    String::from_utf8_lossy(reply.bytes().expect("an id")).into_owned()
}

impl Cluster {
    /// Starts a cluster of Redis with some masters that share all slots, and one replica for each of
    /// the first ones.
    pub(crate) fn start(masters: usize, replicas: usize) -> Cluster {
        Cluster::start_with(Kind::Redis, (masters, replicas), &[])
    }

    pub(crate) fn start_with(
        kind: Kind,
        (masters, replicas): (usize, usize),
        arguments: &[&str],
    ) -> Cluster {
        let nodes: Vec<Server> = (0..masters + replicas)
            .map(|_| node(kind, arguments))
            .collect();
        let cluster = Cluster {
            nodes: nodes.into_iter().map(Some).collect(),
        };
        for (index, node) in cluster.nodes.iter().flatten().enumerate() {
            let epoch = (index + 1).to_string();
            call(node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
        }
        for index in 1..cluster.nodes.len() {
            cluster.meet(index);
        }
        for index in 0..masters {
            let (first, last) = (SLOTS * index / masters, SLOTS * (index + 1) / masters - 1);
            let (first, last) = (first.to_string(), last.to_string());
            call(
                cluster.node(index),
                &["CLUSTER", "ADDSLOTSRANGE", &first, &last],
            );
        }
        cluster.agree(masters + replicas);
        for index in 0..replicas {
            let master = id_of(cluster.node(index));
            call(
                cluster.node(masters + index),
                &["CLUSTER", "REPLICATE", &master],
            );
        }
        for index in masters..masters + replicas {
            until(
                || field(cluster.node(index), "replication", "master_link_status") == "up",
                || cluster.node(index).log(),
            );
        }
        cluster
    }

    pub(crate) fn node(&self, index: usize) -> &Server {
        self.nodes[index].as_ref().expect("a living node")
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().flatten()
    }

    /// Introduces a node to the first living one.
    fn meet(&self, index: usize) {
        let first = self.living().next().expect("a node");
        let address = place_of(first);
        let (host, port) = address.split_once(':').expect("a port");
        let bus = bus_port(first);
        call(self.node(index), &["CLUSTER", "MEET", host, port, &bus]);
    }

    /// Waits until all living nodes see the cluster as complete.
    pub(crate) fn agree(&self, known: usize) {
        for node in self.living() {
            until(
                || {
                    let reply = call(node, &["CLUSTER", "INFO"]);
                    let text = String::from_utf8_lossy(reply.bytes().expect("text")).into_owned();
                    text.contains("cluster_state:ok")
                        && text.contains(&format!("cluster_known_nodes:{known}\r"))
                },
                || node.log(),
            );
        }
    }

    /// Adds a master without slots. Returns its number.
    pub(crate) fn grow(&mut self) -> usize {
        self.nodes.push(Some(node(Kind::Redis, &[])));
        self.meet(self.nodes.len() - 1);
        self.agree(self.living().count());
        self.nodes.len() - 1
    }

    /// Kills a node.
    pub(crate) fn kill(&mut self, index: usize) {
        self.nodes[index] = None;
    }

    /// Returns the number of the node that owns a slot, by its own word.
    pub(crate) fn owner(&self, slot: u16) -> usize {
        let owns = |server: &Server| slots_of(server).contains(&slot);
        let mut nodes = self.nodes.iter();
        let owner = nodes.position(|node| node.as_ref().is_some_and(owns));
        owner.expect("a slot has an owner")
    }

    /// Begins to move a slot.
    pub(crate) fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, from_id) = (slot.to_string(), id_of(self.node(from)));
        let to_id = id_of(self.node(to));
        call(
            self.node(to),
            &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id],
        );
        call(
            self.node(from),
            &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id],
        );
    }

    /// Moves up to `most` keys of a slot. Returns how many there were.
    pub(crate) fn move_keys(&self, slot: u16, from: usize, to: usize, most: usize) -> usize {
        let (slot, most) = (slot.to_string(), most.to_string());
        let keys = call(self.node(from), &["CLUSTER", "GETKEYSINSLOT", &slot, &most]);
        let keys = keys.items().expect("keys").to_vec();
        if keys.is_empty() {
            return 0;
        }
        let address = place_of(self.node(to));
        let (host, port) = address.split_once(':').expect("a port");
        let mut words: Vec<Vec<u8>> = ["MIGRATE", host, port, "", "0", "5000", "REPLACE", "KEYS"]
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
        words.extend(keys.iter().map(|key| key.bytes().expect("a key").to_vec()));
        let mut client = Client::connect(self.node(from).address()).expect("it accepts");
        let reply = client.call(&words).expect("a reply");
        assert!(!reply.is_error(), "{reply:?}");
        keys.len()
    }

    /// Ends the move of a slot without keys.
    pub(crate) fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, id) = (slot.to_string(), id_of(self.node(to)));
        for index in [to, from] {
            call(
                self.node(index),
                &["CLUSTER", "SETSLOT", &slot, "NODE", &id],
            );
        }
    }

    /// Moves a slot with all of its keys.
    pub(crate) fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        while self.move_keys(slot, from, to, 10) > 0 {}
        self.end_move(slot, from, to);
    }

    /// Returns the masters.
    pub(crate) fn masters(&self) -> Vec<&Server> {
        let nodes = self.living();
        nodes
            .filter(|node| field(node, "replication", "role") == "master")
            .collect()
    }

    /// Waits until a store has all changes that the masters have now.
    pub(crate) fn catch_up(&self, place: &Place) {
        let ends: Vec<(String, u64, bool)> = self
            .masters()
            .iter()
            .map(|master| {
                let has_slots = !slots_of(master).is_empty();
                (id_of(master), offset_of(master), has_slots)
            })
            .collect();
        until(
            || {
                let found = place.store.cluster_source().expect("a whole store");
                place.status() == LinkStatus::Up
                    && found.is_some_and(|found| {
                        ends.iter().all(|(id, end, has_slots)| {
                            let lane = found.lanes.iter().find(|lane| lane.node == *id);
                            lane.map_or(!has_slots, |lane| lane.position.offset >= *end)
                        })
                    })
            },
            || describe(place, &ends),
        );
    }

    /// Waits until a store knows the owners of all slots, and no move is going on.
    pub(crate) fn settle(&self, place: &Place) {
        let slots: HashMap<String, Vec<u16>> = self
            .masters()
            .iter()
            .map(|master| (id_of(master), slots_of(master)))
            .filter(|(_, slots)| !slots.is_empty())
            .collect();
        until(
            || {
                let Some(found) = place.store.cluster_source().expect("a whole store") else {
                    return false;
                };
                let known: HashMap<String, Vec<u16>> = found
                    .lanes
                    .iter()
                    .map(|lane| (lane.node.clone(), found.owners.of(lane.number).collect()))
                    .filter(|(_, slots): &(String, Vec<u16>)| !slots.is_empty())
                    .collect();
                found.moving.is_empty() && known == slots && place.status() == LinkStatus::Up
            },
            || describe(place, &slots.keys()),
        );
    }

    /// Compares all keys of a store with those of the cluster, each from the node that owns it. No
    /// changes may arrive.
    pub(crate) fn compare(&self, place: &Place) {
        // One server receives all keys, so that it can be compared like any source.
        let merged = redis(&[]);
        let mut writer = Client::connect(merged.address()).expect("it accepts");
        for master in self.masters() {
            let mut reader = Client::connect(master.address()).expect("it accepts");
            // The keys that have moved already are those of the node that imports their slot.
            let mut slots = slots_of(master);
            slots.extend(imported_by(master));
            let keys = reader.call(["KEYS", "*"]).expect("a reply");
            for key in keys.items().expect("keys") {
                let key = key.bytes().expect("a key");
                if !slots.contains(&key_slot(key)) {
                    continue;
                }
                let mut ask = |name: &[u8]| {
                    // A node that imports a slot replies only to those who ask.
                    reader.call(["ASKING"]).expect("a reply");
                    reader.call([name, key]).expect("a reply")
                };
                let (value, expiry) = (ask(b"DUMP"), ask(b"PEXPIRETIME"));
                let (Some(value), Reply::Integer(expiry)) = (value.bytes(), expiry) else {
                    // The key has expired.
                    continue;
                };
                if value[0] == SET_LISTPACK {
                    // Redis 7.0 does not know this form of a set.
                    let mut words = vec![b"SADD".to_vec(), key.to_vec()];
                    let members = ask(b"SMEMBERS");
                    let members = members.items().expect("members").iter();
                    words.extend(members.map(|item| item.bytes().expect("text").to_vec()));
                    writer.call(&words).expect("a reply");
                    if expiry > 0 {
                        let time = expiry.to_string();
                        let words = [b"PEXPIREAT", key, time.as_bytes()];
                        writer.call(words).expect("a reply");
                    }
                    continue;
                }
                let expiry = expiry.max(0).to_string();
                // Redis 7.0 refuses the version of a later server's payload, but knows the value.
                let value = seal(value[..value.len() - 10].to_vec());
                let words: [&[u8]; 5] = [b"RESTORE", key, expiry.as_bytes(), &value, b"ABSTTL"];
                let restored = writer.call(words).expect("a reply");
                assert!(!restored.is_error(), "{restored:?} {value:?}");
            }
        }
        drop(writer);
        compare(place, &merged);
    }
}

/// Returns the words about a node's slots, by its own word.
fn words_of(server: &Server) -> Vec<String> {
    let reply = call(server, &["CLUSTER", "NODES"]);
    let text = String::from_utf8_lossy(reply.bytes().expect("text")).into_owned();
    let mine = text.lines().find(|line| line.contains("myself,master"));
    let words = mine.into_iter().flat_map(|line| line.split(' ').skip(8));
    words.map(str::to_owned).collect()
}

/// Returns the slots that a node imports, by its own word.
fn imported_by(server: &Server) -> Vec<u16> {
    let words = words_of(server);
    let imported = words
        .iter()
        .filter_map(|word| word.strip_prefix('[')?.split_once("-<-"));
    imported
        .map(|(slot, _)| slot.parse().expect("a slot"))
        .collect()
}

/// Returns the slots that a node owns, by its own word.
pub(crate) fn slots_of(server: &Server) -> Vec<u16> {
    words_of(server)
        .iter()
        .filter(|word| !word.starts_with('['))
        .flat_map(|word| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let number = |text: &str| text.parse::<u16>().expect("a slot");
            number(first)..=number(last)
        })
        .collect()
}

fn describe(place: &Place, expected: &dyn std::fmt::Debug) -> String {
    let links: Vec<_> = (0..6).map(|lane| place.store.lane_link(lane)).collect();
    format!(
        "{:?}\nexpected {expected:?}\n{}\n{links:?}",
        place.store.cluster_source(),
        place.describe()
    )
}

/// The number of hash tags that random keys have.
const TAGS: usize = 40;

/// Random changes of a cluster: keys of many types with hash tags.
pub(crate) struct ClusterChanges {
    random: fastrand::Rng,
    generator: Generator,
    clients: HashMap<String, Client>,
    owners: HashMap<u16, String>,
    tag: usize,
    /// The number of commands that succeeded, and that failed.
    pub(crate) counts: (u64, u64),
}

impl ClusterChanges {
    pub(crate) fn new(seed: u64) -> ClusterChanges {
        let families = replicated_families(NOT_REPLICATED);
        ClusterChanges {
            random: fastrand::Rng::with_seed(seed),
            generator: Generator::new(seed, &families),
            clients: HashMap::new(),
            owners: HashMap::new(),
            tag: 0,
            counts: (0, 0),
        }
    }

    /// Returns all slots that keys have, in random order.
    pub(crate) fn slots(&mut self) -> Vec<u16> {
        let tags = 0..TAGS;
        let mut slots: Vec<u16> = tags
            .map(|tag| key_slot(format!("{{{tag}}}").as_bytes()))
            .collect();
        self.random.shuffle(&mut slots);
        slots
    }

    /// Returns a slot that keys have.
    pub(crate) fn slot(&mut self) -> u16 {
        key_slot(format!("{{{}}}", self.random.usize(..TAGS)).as_bytes())
    }

    /// Runs random commands.
    pub(crate) fn make(&mut self, cluster: &Cluster, commands: usize) {
        let mut made = 0;
        while made < commands || self.generator.is_amid() {
            if !self.generator.is_amid() {
                self.tag = self.random.usize(..TAGS);
            }
            let command = self.generator.command();
            made += 1;
            // Those that concern one node or another database cannot be compared, or are refused.
            let is_local = [
                "FLUSHALL", "FLUSHDB", "SWAPDB", "SELECT", "MOVE", "SCRIPT", "FUNCTION",
            ];
            if is_local.contains(&command.word(0).as_str()) {
                continue;
            }
            let tagged = self.tagged(&command);
            self.run(cluster, &tagged);
        }
    }

    /// Returns a command whose keys have the current hash tag.
    fn tagged(&self, command: &Command) -> Command {
        let words: Vec<&[u8]> = command.0.iter().map(Vec::as_slice).collect();
        let mut tagged = command.0.clone();
        if let Ok(known) = resolve(&words) {
            for (key, _) in known.keys_of(&words) {
                let index = words.iter().position(|word| std::ptr::eq(*word, key));
                let index = index.expect("a key is an argument");
                tagged[index] = [format!("{{{}}}", self.tag).as_bytes(), key].concat();
            }
        }
        Command(tagged)
    }

    /// Runs a command on the node that owns the slot of the current tag, also if that has changed.
    fn run(&mut self, cluster: &Cluster, command: &Command) {
        let slot = key_slot(format!("{{{}}}", self.tag).as_bytes());
        let first = || place_of(cluster.living().next().expect("a node"));
        let mut address = self.owners.get(&slot).cloned().unwrap_or_else(first);
        let mut asks = false;
        for _ in 0..5 {
            let Some(reply) = self.call(&address, asks, command) else {
                // The node is dead.
                self.owners.clear();
                self.clients.clear();
                address = first();
                continue;
            };
            let Reply::Error(text) = &reply else {
                self.counts.0 += 1;
                return;
            };
            let text = String::from_utf8_lossy(text).into_owned();
            let words: Vec<&str> = text.split(' ').collect();
            match words[..] {
                ["MOVED", _, to] => {
                    self.owners.insert(slot, to.to_owned());
                    (address, asks) = (to.to_owned(), false);
                }
                ["ASK", _, to] => (address, asks) = (to.to_owned(), true),
                _ => break,
            }
            if self.generator.is_amid() {
                // A transaction begins on one node, and fails.
                break;
            }
        }
        self.counts.1 += 1;
    }

    fn call(&mut self, address: &str, asks: bool, command: &Command) -> Option<Reply> {
        if !self.clients.contains_key(address) {
            let client = Client::connect(&Address::Tcp(address.to_owned())).ok()?;
            self.clients.insert(address.to_owned(), client);
        }
        let client = self.clients.get_mut(address)?;
        if asks {
            client.call(["ASKING"]).ok()?;
        }
        client.call(&command.0).ok()
    }
}
