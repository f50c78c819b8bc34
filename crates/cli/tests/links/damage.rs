//! Damaged and hostile files: an error that names the offset, and nothing changed.

use std::fs;
use std::process::Stdio;

use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::Kind;

use crate::data::fill;
use crate::support::{Place, call, command, connect, fail, line, run, save, serve, start, succeed};

#[test]
fn random_damage_is_refused_with_its_offset_and_changes_nothing() {
    let seed = match std::env::var("UNDERCROFT_SEED") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("UNDERCROFT_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for kind in [Kind::Redis, Kind::Redis8, Kind::Valkey] {
        let Some(server) = start(kind, &[]) else {
            continue;
        };
        fill(&mut connect(&server), kind);
        let bytes = fs::read(save(&server)).expect("a snapshot");
        let ours = serve(&[]);
        let store = ours.store();
        let store = store.to_str().expect("ASCII");
        let mut our = connect(&ours);
        line(&mut our, "SET mine v");
        let place = Place::new();
        for round in 0..12 {
            let mut damaged = bytes.clone();
            // Half of the rounds switch the checksum off, so that only the structure protects.
            let is_unsummed = round % 2 == 0;
            if is_unsummed {
                let end = damaged.len() - 8;
                damaged[end..].fill(0);
            }
            if random.u8(..4) == 0 {
                damaged.truncate(random.usize(..bytes.len()));
            } else {
                for _ in 0..random.usize(1..20) {
                    let at = random.usize(..bytes.len());
                    damaged[at] = random.u8(..);
                }
            }
            let file = place.file("damaged", &damaged);
            let before = line(&mut our, "DBSIZE");
            let found = run(&["import", &file, "--store", store, "--replace"]);
            if found.status == 0 {
                // Without a checksum, damage within a text cannot be detected.
                assert!(is_unsummed || damaged == bytes, "{kind:?}: {found:?}");
                line(&mut our, "FLUSHALL");
                line(&mut our, "FUNCTION FLUSH");
                line(&mut our, "SET mine v");
                continue;
            }
            let why = found.errors;
            let is_conflict = why.contains("function librar");
            assert!(why.contains("at byte ") || is_conflict, "{kind:?}: {why}");
            assert!(why.ends_with("; nothing was changed\n"), "{kind:?}: {why}");
            assert_eq!(before, line(&mut our, "DBSIZE"));
            assert_eq!(line(&mut our, "GET mine"), Reply::Bulk(b"v".to_vec()));
        }
        assert!(succeed(&["check", "--store", store]).starts_with("sound: "));
    }
}

#[test]
fn new_store_appears_only_if_the_file_is_sound() {
    let Some(server) = start(Kind::Redis, &[]) else {
        return;
    };
    fill(&mut connect(&server), Kind::Redis);
    let bytes = fs::read(save(&server)).expect("a snapshot");
    let place = Place::new();
    let store = place.path("store");
    let mut damaged = bytes.clone();
    damaged[bytes.len() - 3] ^= 1;
    for (name, bytes) in [
        ("cut", &bytes[..bytes.len() - 1]),
        ("damaged", &damaged),
        ("longer", &[&bytes[..], b"x"].concat()),
    ] {
        let file = place.file(name, bytes);
        let why = fail(&["import", &file, "--store", &store]);
        assert!(
            why.contains("damaged at byte ") && why.ends_with("; no store was created"),
            "{name}: {why}"
        );
    }
    let left: Vec<_> = fs::read_dir(place.path(".")).expect("a folder").collect();
    assert_eq!(left.len(), 3, "only the files: {left:?}");
    // A damaged file that is streamed leaves a store that says so.
    let ours = serve(&[]);
    let path = ours.store();
    let path = path.to_str().expect("ASCII");
    let why = fail(&[
        "import",
        &place.path("damaged"),
        "--store",
        path,
        "--streaming",
    ]);
    assert!(why.contains("is incomplete: it has "), "{why}");
}

/// A length that lies must not make the command allocate memory.
#[test]
fn lying_length_fails_within_a_small_memory_limit() {
    let place = Place::new();
    let huge = b"\x80\x1f\xff\xff\xff";
    for (name, part) in [
        ("string", [b"\x00\x01k", &huge[..]].concat()),
        ("key", [b"\x00", &huge[..]].concat()),
        ("list", [b"\x01\x01k", &huge[..], &[0; 100]].concat()),
        (
            "compressed",
            [b"\x00\x01k\xc3\x05", &huge[..], b"aaaaa"].concat(),
        ),
        ("aux", [b"\xfa\x01n", &huge[..]].concat()),
    ] {
        let bytes = [b"REDIS0011", &part[..]].concat();
        let file = place.file(name, &bytes);
        let script = "ulimit -d 100000; exec \"$0\" \"$@\"";
        let import = command(&["import", &file, "--capacity", "64mb"]);
        let store = place.path("store");
        let output = std::process::Command::new("bash")
            .args(["-c", script])
            .arg(import.get_program())
            .args(import.get_args())
            .args(["--store", &store])
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            why.contains("damaged at byte ") && output.status.code() == Some(1),
            "{name}: {why}"
        );
    }
}

#[test]
fn keys_of_an_unknown_database_are_refused() {
    let Some(server) = start(Kind::Redis, &["--databases", "20"]) else {
        return;
    };
    let mut theirs = connect(&server);
    line(&mut theirs, "SELECT 19");
    call(&mut theirs, &["SET", "k", "v"]);
    let file = save(&server);
    let place = Place::new();
    let why = fail(&[
        "import",
        file.to_str().expect("ASCII"),
        "--store",
        &place.path("store"),
    ]);
    assert!(
        why.contains("keys of database 19 cannot be stored"),
        "{why}"
    );
}
