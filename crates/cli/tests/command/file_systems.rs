//! Tests journals on the file systems that machines have: power cuts, a full disk, a file system that
//! becomes read-only, and a folder that is removed. No acknowledged change may be lost, and the server
//! must go on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::Signal;
use undercroft_memory::{Durability, JournalOptions, Segment};

use crate::disk::reboot;
use crate::support::{Client, Place, Server, run, succeed};
use crate::volume::{BTRFS, EXT4, Kind, TMPFS, Volume, XFS, with_volume};

/// Small files, so that a full disk is noticed soon.
const SIZES: JournalOptions = JournalOptions {
    ring: Some(1 << 20),
    segment: Some(4 << 20),
};
const KEYS: u64 = 8;
const LENGTH: usize = 100_000;
/// The maximum number of changes until a full disk is noticed.
const UNNOTICED: u64 = 200;

/// A server whose journal is on a volume, and the values that it has acknowledged.
struct Served<'v> {
    volume: &'v Volume,
    place: Place,
    folder: String,
    server: Server,
    next: u64,
    /// The number in the last acknowledged value of each key.
    acknowledged: BTreeMap<u64, u64>,
}

fn set(client: &mut Client<UnixStream>, key: u64, number: u64) -> String {
    let digits = number.to_string();
    let value = "0".repeat(LENGTH - digits.len()) + &digits;
    client.send(&format!(
        "*3\r\n$3\r\nSET\r\n$2\r\nk{key}\r\n${LENGTH}\r\n{value}\r\n"
    ));
    client.line()
}

impl<'v> Served<'v> {
    fn new(volume: &'v Volume, durability: Durability) -> Served<'v> {
        let place = Place::new();
        let folder = volume.path("journal");
        let path = place.store("served", &[]);
        let segment = Segment::open(Path::new(&path), true).expect("just made");
        segment
            .begin_journal(Path::new(&folder), durability, &SIZES)
            .expect("a journal");
        drop(segment);
        Served {
            server: Server::start(&place, &["--journal", &folder]),
            volume,
            place,
            folder,
            next: 1,
            acknowledged: BTreeMap::new(),
        }
    }

    /// Sets the next key. Returns the reply, which is empty if the server closed the connection.
    fn change(&mut self, client: &mut Client<UnixStream>) -> String {
        let (key, number) = (self.next % KEYS, self.next);
        self.next += 1;
        let reply = set(client, key, number);
        if reply == "+OK" {
            self.acknowledged.insert(key, number);
        }
        reply
    }

    fn make_changes(&mut self, count: usize) {
        let mut client = self.server.connect();
        for _ in 0..count {
            assert_eq!(self.change(&mut client), "+OK", "{}", self.volume.kind.name);
        }
    }

    /// Makes changes until one is refused, then checks that the server goes on and says why.
    fn change_until_refused(&mut self) {
        let mut client = self.server.connect();
        let refused = (0..UNNOTICED).any(|_| self.change(&mut client) != "+OK");
        assert!(refused, "{}: every change was made", self.volume.kind.name);
        let mut client = self.server.connect();
        let reply = self.change(&mut client);
        assert!(
            reply.starts_with("-MISCONF") && reply.contains(&self.folder),
            "{reply}"
        );
        assert_eq!(client.call("PING"), "+PONG");
        assert_eq!(client.call("STRLEN k1"), format!(":{LENGTH}"));
    }

    fn save(&mut self) {
        let mut client = self.server.connect();
        let mut reply = client.call("SAVE");
        // After a recovery, the server writes a checkpoint by itself.
        while reply.contains("already in progress") {
            reply = client.call("SAVE");
        }
        assert_eq!(reply, "+OK", "{}", self.volume.kind.name);
    }

    /// Cuts the power and restarts the machine: all processes, the store's file and everything that was
    /// not synced are gone. Then checks that everything is there that was acknowledged.
    fn cut_power(&mut self, when: &str) {
        let copied = self.volume.copy();
        self.server.signal(Signal::KILL);
        self.server.wait();
        if copied {
            self.volume.go_back();
        }
        fs::remove_file(self.place.path("served")).expect("it exists");
        self.server = Server::start(&self.place, &["--journal", &self.folder]);
        let context = format!("{}: {when}", self.volume.kind.name);
        assert!(
            self.server.start.contains("recovered"),
            "{context}: {}",
            self.server.start
        );
        let mut client = self.server.connect();
        for (key, number) in &mut self.acknowledged {
            let value = client.get(&format!("k{key}"));
            let found: u64 = value.parse().expect("a number");
            // A change that was not acknowledged may have been made, too.
            assert!((*number..self.next).contains(&found), "{context}: {found}");
            *number = found;
        }
        let store = self.place.path("served");
        assert!(succeed(&["check", &store]).starts_with("sound: "));
    }
}

/// Tests the failures of a file system.
fn nothing_acknowledged_is_lost(test: &str, kind: Kind) {
    with_volume(test, kind, |volume, _| {
        let mut served = Served::new(volume, Durability::Always);
        served.make_changes(60);
        served.cut_power("a power cut");
        served.make_changes(5);
        volume.fill();
        served.change_until_refused();
        volume.free();
        served.save();
        served.make_changes(10);
        served.cut_power("after a full disk");
        volume.fill();
        served.change_until_refused();
        volume.free();
        served.cut_power("a full disk");
        volume.remount("ro");
        served.change_until_refused();
        volume.remount("rw");
        served.save();
        served.make_changes(10);
        served.cut_power("after a read-only file system");
        fs::remove_dir_all(&served.folder).expect("it exists");
        served.change_until_refused();
        fs::create_dir(&served.folder).expect("space");
        served.save();
        served.make_changes(10);
        served.cut_power("after the loss of the folder");
    });
}

#[test]
fn nothing_acknowledged_is_lost_on_tmpfs() {
    nothing_acknowledged_is_lost("nothing_acknowledged_is_lost_on_tmpfs", TMPFS);
}

#[test]
fn nothing_acknowledged_is_lost_on_ext4() {
    nothing_acknowledged_is_lost("nothing_acknowledged_is_lost_on_ext4", EXT4);
}

#[test]
fn nothing_acknowledged_is_lost_on_xfs() {
    nothing_acknowledged_is_lost("nothing_acknowledged_is_lost_on_xfs", XFS);
}

#[test]
fn nothing_acknowledged_is_lost_on_btrfs() {
    nothing_acknowledged_is_lost("nothing_acknowledged_is_lost_on_btrfs", BTRFS);
}

#[test]
fn full_disk_refuses_changes_that_are_made_durable_each_second() {
    let test = "full_disk_refuses_changes_that_are_made_durable_each_second";
    with_volume(test, EXT4, |volume, _| {
        let mut served = Served::new(volume, Durability::EverySecond);
        served.make_changes(5);
        volume.fill();
        served.change_until_refused();
        volume.free();
        served.save();
        served.make_changes(10);
        let mut client = served.server.connect();
        assert_eq!(client.call("WAITAOF 1 0 0"), "*2");
        assert_eq!(client.line(), ":1");
        served.cut_power("after WAITAOF");
    });
}

/// Tests a store on a disk, whose own file a power cut leaves in an unknown state.
fn store_is_recovered(test: &str, kind: Kind) {
    with_volume(test, kind, |volume, _| {
        let store = volume.path("store");
        let exec = |words: &[&str]| {
            let start = &["exec", "--store", &store, "--raw"];
            run(&[start, words].concat())
        };
        let made = run(&["exec", "--store", &store, "--create", "SET", "k", "before"]);
        assert_eq!(made.status, 0, "{made:?}");
        let segment = Segment::open(Path::new(&store), true).expect("just made");
        let folder = volume.path("store.journal");
        segment
            .begin_journal(Path::new(&folder), Durability::Always, &SIZES)
            .expect("a journal");
        drop(segment);
        for number in 0..20 {
            let made = exec(&["SET", "k", &number.to_string()]);
            assert_eq!(made.status, 0, "{made:?}");
        }
        if volume.copy() {
            volume.go_back();
        }
        reboot(&store);
        let found = exec(&["GET", "k"]);
        assert_eq!(found.out, "19\n", "{found:?}");
        assert!(found.errors.contains("recovered"), "{found:?}");
    });
}

#[test]
fn store_is_recovered_on_ext4() {
    store_is_recovered("store_is_recovered_on_ext4", EXT4);
}

#[test]
fn store_is_recovered_on_xfs() {
    store_is_recovered("store_is_recovered_on_xfs", XFS);
}

#[test]
fn store_is_recovered_on_btrfs() {
    store_is_recovered("store_is_recovered_on_btrfs", BTRFS);
}
