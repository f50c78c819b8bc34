//! A source that a test plays: it answers the commands that begin the replication, and then sends
//! prepared bytes.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use undercroft_engine::rdb::{self, RdbVersion};
use undercroft_engine::{Encoding, Options, Ranges, Store, ValueType};
use undercroft_links::follow::{
    Address, FollowError, FollowOptions, FollowState, Follower, KeyFilter, Progress, SourceUrl,
    TlsFiles,
};
use undercroft_links::load::LoadOptions;
use undercroft_links::rdb::{EncodedKey, Writer, append_key};

use crate::alone::Alone;

/// A replication id.
pub(crate) const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// The bytes that a source sends after PSYNC, and the number of connections on which it does so. It
/// then ends every connection.
pub(crate) struct Script<'s> {
    pub(crate) sent: &'s [u8],
    pub(crate) connections: usize,
}

/// A store and the place of its source's socket.
pub(crate) struct Played {
    pub(crate) store: Store,
    socket: PathBuf,
    _directory: TempDir,
}

impl Played {
    pub(crate) fn new() -> Played {
        let directory = tempfile::tempdir_in("/dev/shm").expect("shared memory");
        let options = Options {
            capacity: Some(64 << 20),
            shards: Some(2),
            ..Options::default()
        };
        let path = directory.path().join("store");
        let store = Store::create(&path, &options).expect("a store");
        Played {
            store,
            socket: directory.path().join("source"),
            _directory: directory,
        }
    }

    /// Returns the value of a key, as every process reads it.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let mut value = Vec::new();
        let found = self.store.get(0, key.as_bytes(), &mut value);
        found
            .expect("no lock is held")
            .then(|| String::from_utf8_lossy(&value).into_owned())
    }

    /// Follows the played source until it has played its script, and for some time after the last
    /// bytes if it keeps the connection open.
    pub(crate) fn follow(&self, script: &Script<'_>) -> (Result<(), FollowError>, Progress) {
        let _ = std::fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket).expect("a socket");
        let served = AtomicUsize::new(0);
        let applier = Store::open(self.store.path(), true).expect("the store");
        applier.apply_source();
        let host = Alone::new();
        let state = FollowState::default();
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                while served.load(Ordering::Acquire) < script.connections {
                    let (stream, _) = listener.accept().expect("a follower");
                    if play(&stream, script.sent) {
                        served.fetch_add(1, Ordering::Release);
                    }
                }
                // Ends a follower that would connect again.
                drop(listener);
            });
            let stops = || served.load(Ordering::Acquire) == script.connections;
            let options = FollowOptions {
                url: url(&self.socket),
                load: LoadOptions::new(),
                filter: KeyFilter::default(),
                is_elected: false,
                listening_port: 0,
                is_server: false,
            };
            let ended = Follower::new(&applier, host.host(), options, &state, &stops).run();
            // The source must not wait for a follower that has given up.
            while served.load(Ordering::Acquire) < script.connections {
                let _ = UnixStream::connect(&self.socket);
                std::thread::yield_now();
            }
            ended
        });
        (ended, state.progress())
    }
}

fn url(socket: &Path) -> SourceUrl {
    SourceUrl {
        is_cluster: false,
        addresses: vec![Address::Unix(socket.to_owned())],
        master: None,
        is_encrypted: false,
        tls: TlsFiles::default(),
        user: String::new(),
        password: String::new(),
    }
}

/// Answers commands up to PSYNC, sends the bytes, and waits until the follower has read them, which
/// the end of the connection shows. Returns false if the connection is one on which the follower asks
/// for information, which this source does not have.
fn play(stream: &UnixStream, sent: &[u8]) -> bool {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let Some(Ok(line)) = lines.next() else {
            return true;
        };
        let answer: &[u8] = match line.as_str() {
            "PING" => b"+PONG\r\n",
            "REPLCONF" => b"+OK\r\n",
            "PSYNC" => {
                let mut stream = stream;
                let _ = stream.write_all(sent);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // Acknowledgements may still arrive.
                while let Some(Ok(_)) = lines.next() {}
                return true;
            }
            "INFO" => {
                let mut stream = stream;
                let _ = stream.write_all(b"-ERR unknown command\r\n");
                return false;
            }
            _ => continue,
        };
        let mut stream = stream;
        if stream.write_all(answer).is_err() {
            return true;
        }
    }
}

/// Returns an RDB file with some strings.
pub(crate) fn data_set(values: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), RdbVersion::V11).expect("memory");
    writer.select(0, values.len() as u64, 0).expect("memory");
    for (key, text) in values {
        let (mut items, mut value, mut part) = (Ranges::new(), Vec::new(), Vec::new());
        items.push(text.as_bytes());
        let string = (ValueType::String, Encoding::Raw);
        rdb::encode(string, &items, RdbVersion::V11, &mut value);
        append_key(
            &EncodedKey {
                key: key.as_bytes(),
                expiry: None,
                usage: None,
                value: &value,
            },
            &mut part,
        );
        writer.append(&part).expect("memory");
    }
    writer.finish().expect("memory").0
}

/// Returns a command as a source sends it.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

/// Returns a complete answer to PSYNC with a data set, and the changes after it.
pub(crate) fn full(offset: u64, values: &[(&str, &str)], changes: &[u8]) -> Vec<u8> {
    let data = data_set(values);
    let mut bytes = format!("+FULLRESYNC {ID} {offset}\r\n${}\r\n", data.len()).into_bytes();
    bytes.extend(data);
    bytes.extend(changes);
    bytes
}
