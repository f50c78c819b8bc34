//! Journals that releases have written, kept in tests/fixtures. Each build must recover them, or
//! refuse them with an explanation.
//!
//! The journal of this version must be recovered. After a change of the layout or of the journal's
//! format, write it again: `UNDERCROFT_FIXTURE=write cargo test -p undercroft-cli --test command
//! fixture`. The journals of released versions are never changed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Place, run, succeed};

/// Commands before the checkpoint and after it.
const BEFORE: [&[&str]; 4] = [
    &["SET", "string", "before the checkpoint"],
    &["RPUSH", "list", "a", "b", "c"],
    &["HSET", "hash", "field", "value"],
    &["SETRANGE", "long", "100000", "end"],
];
const AFTER: [&[&str]; 8] = [
    &["APPEND", "string", ", and after it"],
    &["LPOP", "list"],
    &["SADD", "set", "1", "2", "3"],
    &["ZADD", "sorted", "1.5", "one", "2.5", "two"],
    &["XADD", "stream", "1-1", "field", "value"],
    &["HDEL", "hash", "field"],
    &["HSET", "hash", "other", "value"],
    &[
        "EVAL",
        "return redis.call('SET', KEYS[1], ARGV[1])",
        "1",
        "script",
        "7",
    ],
];
/// Queries and their replies.
const REPLIES: [(&[&str], &str); 9] = [
    (&["GET", "string"], "before the checkpoint, and after it\n"),
    (&["LRANGE", "list", "0", "-1"], "b\nc\n"),
    (&["HGETALL", "hash"], "other\nvalue\n"),
    (&["GETRANGE", "long", "99999", "-1"], "\0end\n"),
    (&["SMEMBERS", "set"], "1\n2\n3\n"),
    (
        &["ZRANGE", "sorted", "0", "-1", "WITHSCORES"],
        "one\n1.5\ntwo\n2.5\n",
    ),
    (&["XRANGE", "stream", "-", "+"], "1-1\nfield\nvalue\n"),
    (&["GET", "script"], "7\n"),
    (&["DBSIZE"], "8\n"),
];

/// The number after the last part of a file.
const END: usize = u32::MAX as usize;

/// Returns the folder of the fixtures.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Packs the files of a folder: for each file, its name, its length and its parts that are not zero.
fn pack(folder: &Path) -> Vec<u8> {
    /// The number of zeros that end a part.
    const GAP: usize = 16;
    let mut packed = Vec::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension != "lock")
        })
        .collect();
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        let bytes = fs::read(&path).expect("a file");
        put(&mut packed, name.len());
        packed.extend_from_slice(name.as_bytes());
        put(&mut packed, bytes.len());
        let mut at = 0;
        while let Some(start) = bytes[at..].iter().position(|&byte| byte != 0) {
            let start = at + start;
            let gap = bytes[start..]
                .windows(GAP)
                .position(|window| window == [0; GAP]);
            let end = gap.map_or(bytes.len(), |gap| start + gap);
            put(&mut packed, start);
            put(&mut packed, end - start);
            packed.extend_from_slice(&bytes[start..end]);
            at = end;
        }
        put(&mut packed, END);
    }
    packed
}

fn put(packed: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("a small file");
    packed.extend_from_slice(&number.to_le_bytes());
}

/// Reads the numbers and bytes that [`pack`] has packed.
struct Packed<'a>(&'a [u8]);

impl<'a> Packed<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> usize {
        u32::from_le_bytes(self.take(4).try_into().expect("4 bytes")) as usize
    }
}

/// Writes the files that [`pack`] has packed.
fn unpack(packed: &[u8], folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let mut packed = Packed(packed);
    while !packed.0.is_empty() {
        let length = packed.number();
        let name = std::str::from_utf8(packed.take(length)).expect("a name");
        let mut bytes = vec![0; packed.number()];
        loop {
            let start = packed.number();
            if start == END {
                break;
            }
            let length = packed.number();
            bytes[start..start + length].copy_from_slice(packed.take(length));
        }
        fs::write(folder.join(name), bytes).expect("a file");
    }
}

/// Writes the journal of this version.
fn write(path: &Path) {
    let place = Place::new();
    let store = place.store("store", &[]);
    succeed(&["durability", &store, "everysec"]);
    let run = |commands: &[&[&str]]| {
        for command in commands {
            succeed(&[&["exec", "--store", &store, "--"], *command].concat());
        }
    };
    run(&BEFORE);
    succeed(&["checkpoint", &store]);
    run(&AFTER);
    fs::create_dir_all(fixtures()).expect("a folder");
    fs::write(path, pack(Path::new(&format!("{store}.journal")))).expect("a fixture");
}

#[test]
fn journals_of_releases_are_recovered_or_refused_with_an_explanation() {
    let version = format!("{}.journal", env!("CARGO_PKG_VERSION"));
    let current = fixtures().join(&version);
    match std::env::var("UNDERCROFT_FIXTURE").as_deref() {
        Ok("write") => write(&current),
        Ok(other) => panic!("UNDERCROFT_FIXTURE: expected write, got {other:?}"),
        Err(_) => {}
    }
    assert!(
        current.exists(),
        "{}: write it with UNDERCROFT_FIXTURE=write",
        current.display()
    );
    for entry in fs::read_dir(fixtures()).expect("a folder") {
        let path = entry.expect("a file").path();
        let packed = fs::read(&path).expect("a fixture");
        assert!(packed.len() < 200_000, "{} bytes", packed.len());
        let place = Place::new();
        let store = place.path("store");
        unpack(&packed, Path::new(&format!("{store}.journal")));
        let first = run(&["exec", "--store", &store, "DBSIZE"]);
        if first.status != 0 {
            let explains =
                first.errors.contains("recover it with the") && first.errors.contains("export");
            assert!(explains, "{}: {first:?}", path.display());
            assert!(!Path::new(&store).exists());
            assert_ne!(
                path, current,
                "the layout has changed; write the fixture again with UNDERCROFT_FIXTURE=write: {first:?}"
            );
            continue;
        }
        assert!(first.errors.contains("from its journal"), "{first:?}");
        for (query, expected) in REPLIES {
            let words = [&["exec", "--store", &store, "--raw", "--"], query].concat();
            assert_eq!(succeed(&words), expected, "{}: {query:?}", path.display());
        }
        let checked = succeed(&["check", &store]);
        assert!(checked.starts_with("sound"), "{checked}");
    }
}

#[test]
fn packed_files_are_unpacked_as_they_were() {
    let place = Place::new();
    let folder = PathBuf::from(place.path("folder"));
    fs::create_dir(&folder).expect("a folder");
    let contents: [&[u8]; 5] = [
        b"",
        &[0; 50],
        b"abc",
        &[[0; 40], [1; 40], [0; 40]].concat(),
        &[0, 0, 1, 0, 2],
    ];
    for (number, bytes) in contents.iter().enumerate() {
        fs::write(folder.join(format!("{number}.file")), bytes).expect("a file");
    }
    let copy = PathBuf::from(place.path("copy"));
    unpack(&pack(&folder), &copy);
    for (number, bytes) in contents.iter().enumerate() {
        assert_eq!(
            &fs::read(copy.join(format!("{number}.file"))).expect("a file"),
            bytes
        );
    }
}
