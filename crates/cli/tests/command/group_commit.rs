//! Tests that a server in the mode `always` replies only once changes are durable, without waiting
//! for the disk in a thread that serves connections.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use undercroft_engine::Store;
use undercroft_memory::{Disk, DiskFile, Segment, local_disk};

use crate::support::{Client, Place, Server, run};

/// More time than any step of these tests takes.
const LONG: Duration = Duration::from_secs(60);
const ALWAYS: &[&str] = &["--durability", "always", "--threads", "1"];

/// Returns the served store.
fn store(place: &Place) -> Store {
    Store::open(Path::new(&place.path("served")), true).expect("the server made it")
}

/// A disk on which opening a file takes until the test goes on.
struct SlowDisk {
    started: Sender<()>,
    released: Mutex<Receiver<()>>,
}

impl SlowDisk {
    /// Returns the disk, a receiver that hears of each open file, and the sender to drop when the
    /// disk is no longer slow.
    fn new() -> (SlowDisk, Receiver<()>, Sender<()>) {
        let (started, starts) = channel();
        let (release, released) = channel();
        let disk = SlowDisk {
            started,
            released: Mutex::new(released),
        };
        (disk, starts, release)
    }
}

impl Disk for SlowDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let _ = self.started.send(());
        let _ = self.released.lock().expect("no panic").recv();
        local_disk().open(path, create)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        local_disk().rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        local_disk().remove(path)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        local_disk().list(directory)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        local_disk().sync_directory(directory)
    }
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        local_disk().create_directory(directory)
    }
    fn another_handle(&self) -> Box<dyn Disk> {
        local_disk()
    }
}

/// Returns a client that fails if a reply takes very long.
fn patient(server: &Server) -> Client<UnixStream> {
    let stream = UnixStream::connect(&server.socket).expect("it listens");
    stream
        .set_read_timeout(Some(LONG))
        .expect("a limit above zero");
    Client::new(stream)
}

/// Reads the key `k` until it has a value, which must not take long.
fn wait_for(reader: &mut Client<UnixStream>, value: &str) {
    let start = Instant::now();
    while reader.get("k") != value {
        assert!(start.elapsed() < LONG, "the value is not {value}");
    }
}

#[test]
fn every_acknowledged_change_is_recovered() {
    let place = Place::new();
    let mut server = Server::start(&place, &["--durability", "always"]);
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for round in 0..20 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&format!(
                "INCR n{number}\r\nRPUSH list {number}:{round}\r\n"
            ));
        }
        for client in &mut clients {
            assert_eq!(client.line(), format!(":{}", round + 1));
            assert!(client.line().starts_with(':'));
        }
    }
    assert_eq!(clients[0].call("MULTI"), "+OK");
    assert_eq!(clients[0].call("SET a 1"), "+QUEUED");
    assert_eq!(clients[0].call("SET b 2"), "+QUEUED");
    assert_eq!(clients[0].call("EXEC"), "*2");
    assert_eq!(clients[0].line(), "+OK");
    assert_eq!(clients[0].line(), "+OK");
    server.signal(Signal::KILL);
    server.wait();
    // With the file, everything is gone that is not in the journal.
    fs::remove_file(place.path("served")).expect("it exists");
    let store = place.path("served");
    let get = |words: &[&str]| run(&[&["exec", "--store", &store, "--raw"], words].concat()).out;
    assert_eq!(get(&["GET", "n7"]), "20\n");
    assert_eq!(get(&["LLEN", "list"]), "160\n");
    assert_eq!(get(&["MGET", "a", "b"]), "1\n2\n");
}

/// Begins a sync of the served store in this process, which lasts until the returned sender is
/// dropped. Returns the thread that syncs, too.
fn begin_slow_sync(place: &Place) -> (Sender<()>, JoinHandle<()>) {
    let (disk, started, release) = SlowDisk::new();
    let mut segment = Segment::open(Path::new(&place.path("served")), true).expect("a store");
    segment.set_disk(Box::new(disk));
    let slow = std::thread::spawn(move || {
        segment.set_max_memory(7 << 30).expect("a change");
        segment.make_durable().expect("a durable journal");
    });
    started.recv().expect("a sync");
    (release, slow)
}

#[test]
fn reader_does_not_wait_for_a_writer() {
    let place = Place::new();
    let server = Server::start(&place, ALWAYS);
    let (mut writer, mut reader) = (server.connect(), patient(&server));
    assert_eq!(writer.call("SET k v"), "+OK");
    let (release, slow) = begin_slow_sync(&place);
    writer.send("SET k w\r\n");
    wait_for(&mut reader, "w");
    assert_eq!(reader.call("STRLEN k"), ":1");
    let store = store(&place);
    assert!(!store.is_durable(store.journal_head()));
    drop(release);
    assert_eq!(writer.line(), "+OK");
    assert!(store.is_durable(store.journal_head()));
    slow.join().expect("no panic");
}

#[test]
fn commands_of_a_pipeline_do_not_wait_for_each_other() {
    const COMMANDS: usize = 50;
    let place = Place::new();
    let server = Server::start(&place, ALWAYS);
    let (mut writer, mut reader) = (server.connect(), patient(&server));
    assert_eq!(writer.call("SET k v"), "+OK");
    let (release, slow) = begin_slow_sync(&place);
    let commands = (1..=COMMANDS).map(|number| format!("SET k {number}\r\n"));
    writer.send(&commands.collect::<String>());
    wait_for(&mut reader, &COMMANDS.to_string());
    drop(release);
    for _ in 0..COMMANDS {
        assert_eq!(writer.line(), "+OK");
    }
    slow.join().expect("no panic");
}

#[test]
fn message_does_not_send_the_replies_that_wait_before_it() {
    let place = Place::new();
    let server = Server::start(&place, ALWAYS);
    let stream = UnixStream::connect(&server.socket).expect("it listens");
    let mut peek = stream.try_clone().expect("a descriptor");
    let (mut writer, mut other) = (Client::new(stream), patient(&server));
    assert_eq!(writer.call("HELLO 3"), "%7");
    while writer.line() != "*0" {}
    writer.send("SUBSCRIBE news\r\n");
    while writer.line() != ":1" {}
    let (release, slow) = begin_slow_sync(&place);
    writer.send("SET k w\r\n");
    wait_for(&mut other, "w");
    assert_eq!(other.call("PUBLISH news m"), ":1");
    assert_eq!(other.call("PING"), "+PONG");
    peek.set_nonblocking(true).expect("a socket");
    let early = peek.read(&mut [0; 64]);
    assert!(early.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
    peek.set_nonblocking(false).expect("a socket");
    drop(release);
    assert_eq!((writer.line(), writer.line()), ("+OK".into(), ">3".into()));
    slow.join().expect("no panic");
}

#[test]
fn failed_sync_closes_the_clients_that_wait() {
    let place = Place::new();
    let mut server = Server::start(&place, ALWAYS);
    let (mut writer, mut reader) = (server.connect(), server.connect());
    assert_eq!(writer.call("SET k v"), "+OK");
    fs::rename(place.path("served.journal"), place.path("aside")).expect("it exists");
    writer.send("SET k w\r\n");
    assert_eq!(writer.line(), "", "no reply reports the change");
    // Reads go on, and writes say why they fail.
    assert_eq!(reader.call("GET k"), "$1");
    assert_eq!(reader.line(), "w");
    let refused = reader.call("SET k x");
    assert!(refused.starts_with("-MISCONF"), "{refused}");
    fs::rename(place.path("aside"), place.path("served.journal")).expect("it exists");
    assert_eq!(reader.call("SAVE"), "+OK");
    assert_eq!(reader.call("SET k x"), "+OK");
    server.signal(Signal::TERM);
    let (_, log) = server.wait();
    assert!(log.contains("may not be durable"), "{log}");
}

#[test]
fn failed_sync_closes_the_only_client() {
    let place = Place::new();
    let mut server = Server::start(&place, ALWAYS);
    let mut writer = server.connect();
    assert_eq!(writer.call("SET k v"), "+OK");
    fs::rename(place.path("served.journal"), place.path("aside")).expect("it exists");
    writer.send("SET k w\r\n");
    assert_eq!(writer.line(), "", "no reply reports the change");
    assert!(server.connect().call("SET k x").starts_with("-MISCONF"));
    server.signal(Signal::TERM);
    let (_, log) = server.wait();
    assert!(log.contains("may not be durable"), "{log}");
}

#[test]
fn waitaof_waits_in_the_mode_everysec() {
    let place = Place::new();
    let server = Server::start(&place, &["--durability", "everysec"]);
    let mut client = server.connect();
    let store = store(&place);
    for number in 0..20 {
        client.send(&format!("SET k {number}\r\nWAITAOF 1 0 0\r\n"));
        assert_eq!(client.line(), "+OK");
        let head = store.journal_head();
        assert_eq!(client.line(), "*2");
        assert_eq!((client.line(), client.line()), (":1".into(), ":0".into()));
        assert!(store.is_durable(head));
    }
}

#[test]
fn blocked_client_gets_an_item_only_once_its_removal_is_durable() {
    let place = Place::new();
    let server = Server::start(&place, ALWAYS);
    let (mut popper, mut pusher) = (server.connect(), server.connect());
    let store = store(&place);
    for number in 0..20 {
        popper.send("BLMOVE from to LEFT RIGHT 0\r\n");
        assert_eq!(pusher.call(&format!("RPUSH from {number}")), ":1");
        assert!(popper.line().starts_with('$'));
        assert_eq!(popper.line(), number.to_string());
        assert!(store.is_durable(store.journal_head()));
        assert_eq!(pusher.call("LLEN to"), format!(":{}", number + 1));
    }
}

#[test]
fn input_that_arrives_during_a_sync_runs_after_it() {
    let place = Place::new();
    let server = Server::start(&place, ALWAYS);
    let mut client = server.connect();
    for number in 0..50 {
        // The second command arrives in two pieces while the first one waits.
        client.send(&format!("SET k {number}\r\nGE"));
        client.send("T k\r\n");
        assert_eq!(client.line(), "+OK");
        assert!(client.line().starts_with('$'));
        assert_eq!(client.line(), number.to_string());
    }
    client.send("SET k last\r\nQUIT\r\n");
    assert_eq!((client.line(), client.line()), ("+OK".into(), "+OK".into()));
    assert_eq!(client.line(), "");
}
