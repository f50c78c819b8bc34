//! Imports append-only files that real servers wrote.

use std::fs;
use std::path::{Path, PathBuf};

use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server};

use crate::compare::assert_equal;
use crate::data::fill;
use crate::support::{Place, REAL, call, connect, fail, line, run, serve, start, succeed};

/// Starts a server that appends every command, with data of every type.
fn appending(kind: Kind, arguments: &[&str]) -> Option<Server> {
    let append = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = start(kind, &[&append, arguments].concat())?;
    fill(&mut connect(&server), kind);
    Some(server)
}

/// Waits until a rewrite of the append-only files has ended.
fn rewrite(server: &Server) {
    let mut client = connect(server);
    line(&mut client, "BGREWRITEAOF");
    loop {
        let reply = line(&mut client, "INFO persistence");
        let text = String::from_utf8_lossy(reply.bytes().expect("text")).into_owned();
        let has = |field: &str| text.contains(field);
        if has("aof_rewrite_in_progress:0") && has("aof_rewrite_scheduled:0") {
            assert!(has("aof_last_bgrewrite_status:ok"), "{text}");
            return;
        }
        std::thread::yield_now();
    }
}

fn folder(server: &Server) -> String {
    let folder = server.directory().join("appendonlydir");
    folder.to_str().expect("ASCII").to_owned()
}

/// Returns the last increment in a folder.
fn last_increment(folder: &str) -> PathBuf {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let increments = paths.filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
    increments.max().expect("an increment")
}

fn copy(from: &str, to: &str) {
    fs::create_dir(to).expect("a new folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), Path::new(to).join(entry.file_name())).expect("room");
    }
}

/// Changes data of every type after a rewrite, also in a transaction.
fn change(server: &Server) {
    let mut client = connect(server);
    for command in [
        "INCRBY int:8 5",
        "APPEND raw more",
        "LPOP list:long 10",
        "SREM set:texts a",
        "HDEL hash:small a",
        "ZINCRBY zset:small 2 a",
        "XACK stream g 3-0",
        "XADD stream * new entry",
        // The file has an exact length instead of the approximate one, and keeps LIMIT.
        "XADD stream MAXLEN ~ 1000 LIMIT 10 * newer entry",
        "MULTI",
        "SET in:transaction 1",
        "INCR in:transaction",
        "EXEC",
        "SET gone v PX 1",
        "RENAME embedded renamed",
        "SPOP set:large 5",
    ] {
        line(&mut client, command);
    }
    // A script's effects are appended, not its text.
    let script = "redis.call('SET', KEYS[1], 'by script'); return redis.call('TIME')[1]";
    call(&mut client, &["EVAL", script, "1", "scripted"]);
}

#[test]
fn append_only_folders_of_real_servers_are_imported() {
    for kind in REAL {
        for preamble in ["yes", "no"] {
            let timestamps = ["--aof-timestamp-enabled", "yes"];
            let options = [&["--aof-use-rdb-preamble", preamble], &timestamps[..]].concat();
            let Some(server) = appending(kind, &options) else {
                continue;
            };
            for round in 0..2 {
                let ours = serve(&[]);
                let store = ours.store();
                let store = store.to_str().expect("ASCII");
                let out = succeed(&["import", &folder(&server), "--store", store]);
                assert!(out.starts_with("ran "), "{out}");
                let mut theirs = connect(&server);
                while line(&mut theirs, "EXISTS gone") != Reply::Integer(0) {}
                assert_equal(&mut theirs, &mut connect(&ours));
                assert!(succeed(&["check", "--store", store]).starts_with("sound: "));
                if round == 0 {
                    rewrite(&server);
                    change(&server);
                }
            }
        }
    }
}

#[test]
fn expired_keys_stay_until_the_last_command() {
    let place = Place::new();
    let commands = |words: &[&[&str]]| -> Vec<u8> {
        let text = |words: &&[&str]| {
            let mut text = format!("*{}\r\n", words.len());
            for word in *words {
                text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
            text
        };
        words.iter().map(text).collect::<String>().into_bytes()
    };
    // The counter expired in 2001, between its two changes and today.
    let bytes = commands(&[
        &["SELECT", "0"],
        &["SET", "counter", "5", "PXAT", "1000000000000"],
        &["INCR", "counter"],
        &["SET", "stays", "1"],
    ]);
    let file = place.file("appendonly.aof", &bytes);
    let store = place.path("store");
    let out = succeed(&["import", &file, "--store", &store]);
    assert!(
        out.ends_with("has 2 keys\n") || out.ends_with("has 1 key\n"),
        "{out}"
    );
    let exec = |words: &[&str]| succeed(&[&["exec", "--store", &store], words].concat());
    assert_eq!(exec(&["MGET", "counter", "stays"]), "\n1\n");
}

#[test]
fn truncated_tail_is_left_out_with_a_warning() {
    let Some(server) = appending(Kind::Redis, &[]) else {
        return;
    };
    rewrite(&server);
    let mut client = connect(&server);
    for command in [
        "SET first 1",
        "MULTI",
        "SET second 2",
        "SET third 3",
        "EXEC",
    ] {
        line(&mut client, command);
    }
    let place = Place::new();
    let whole = folder(&server);
    let length = fs::read(last_increment(&whole)).expect("a file").len();
    // Within EXEC, before EXEC, and before the command that precedes EXEC.
    let (exec, third) = (14, 31);
    for cut in [1, exec, exec + third] {
        let copied = place.path(&format!("cut{cut}"));
        copy(&whole, &copied);
        let file = last_increment(&copied);
        let bytes = fs::read(&file).expect("a file");
        fs::write(&file, &bytes[..length - cut]).expect("room");
        let store = place.path(&format!("store{cut}"));
        let found = run(&["import", &copied, "--store", &store]);
        assert_eq!(found.status, 0, "{found:?}");
        assert!(
            found
                .errors
                .contains("ends within a command or a transaction")
                && found.errors.contains("after byte "),
            "{found:?}"
        );
        let exec = |words: &[&str]| succeed(&[&["exec", "--store", &store], words].concat());
        // A transaction takes effect whole or not at all.
        assert_eq!(
            exec(&["MGET", "first", "second", "third"]),
            "1\n\n\n",
            "{cut}"
        );
        // Redis reads the same commands from the truncated file.
        let files = fs::read_dir(&copied).expect("a folder").map(|entry| {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("ASCII");
            (
                format!("appendonlydir/{name}"),
                fs::read(entry.path()).expect("a file"),
            )
        });
        let append = ["--appendonly", "yes"];
        let theirs = crate::support::start_with(Kind::Redis, &append, files.collect());
        let theirs = theirs.expect("redis-server starts");
        let found = line(&mut connect(&theirs), "MGET first second third");
        let expected = [Reply::Bulk(b"1".to_vec()), Reply::NullBulk, Reply::NullBulk];
        assert_eq!(found, Reply::Array(expected.to_vec()), "{cut}");
    }
}

#[test]
fn damage_in_the_middle_changes_nothing() {
    let Some(server) = appending(Kind::Redis, &[]) else {
        return;
    };
    rewrite(&server);
    let mut client = connect(&server);
    (0..50).for_each(|at| drop(line(&mut client, &format!("SET key:{at} {at}"))));
    let place = Place::new();
    let ours = serve(&[]);
    let store = ours.store();
    let store = store.to_str().expect("ASCII");
    line(&mut connect(&ours), "SET mine v");
    let damaged = |name: &str, change: &dyn Fn(&Path)| {
        let copied = place.path(name);
        copy(&folder(&server), &copied);
        change(Path::new(&copied));
        copied
    };
    let cases = [
        damaged("middle", &|folder| {
            let file = last_increment(folder.to_str().expect("ASCII"));
            let mut bytes = fs::read(&file).expect("a file");
            let at = bytes.len() / 2;
            let at = at
                + bytes[at..]
                    .iter()
                    .position(|byte| *byte == b'*')
                    .expect("a command");
            bytes[at] = b'+';
            fs::write(&file, &bytes).expect("room");
        }),
        damaged("base", &|folder| {
            let base = folder.join("appendonly.aof.2.base.rdb");
            let mut bytes = fs::read(&base).expect("a base");
            let at = bytes.len() - 4;
            bytes[at] ^= 1;
            fs::write(&base, &bytes).expect("room");
        }),
        damaged("missing", &|folder| {
            fs::remove_file(folder.join("appendonly.aof.2.base.rdb")).expect("a base");
        }),
        damaged("manifest", &|folder| {
            fs::write(folder.join("appendonly.aof.manifest"), "file x\n").expect("room");
        }),
    ];
    for folder in cases {
        let found = run(&["import", &folder, "--store", store, "--replace"]);
        assert_eq!(found.status, 1, "{found:?}");
        let is_missing = folder.ends_with("missing");
        assert!(
            found.errors.ends_with("; nothing was changed\n") || is_missing,
            "{folder}: {found:?}"
        );
        let reply = line(&mut connect(&ours), "GET mine");
        assert_eq!(reply, Reply::Bulk(b"v".to_vec()), "{folder}");
    }
    // A command that fails names its place.
    let file = place.file(
        "plain.aof",
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nNONE\r\n",
    );
    let why = fail(&["import", &file, "--store", &place.path("store")]);
    assert!(
        why.contains("at byte 20: NONE: ERR unknown command")
            && why.ends_with("no store was created"),
        "{why}"
    );
}

/// Redis 4 to 6 wrote a single file that begins with an RDB file.
#[test]
fn single_file_with_an_rdb_preamble_is_imported() {
    let Some(server) = appending(Kind::Redis, &[]) else {
        return;
    };
    rewrite(&server);
    line(&mut connect(&server), "SET after 1");
    let base = fs::read(Path::new(&folder(&server)).join("appendonly.aof.2.base.rdb"));
    let base = base.expect("a base");
    // The versions of that time call the information aof-preamble.
    let at = base
        .windows(8)
        .position(|part| part == b"aof-base")
        .expect("an aux field");
    let preamble = [
        &base[..at - 1],
        b"\x0caof-preamble\xc0\x01",
        &base[at + 10..base.len() - 8],
        &[0; 8],
    ]
    .concat();
    let increment = fs::read(last_increment(&folder(&server))).expect("an increment");
    let place = Place::new();
    let file = place.file("appendonly.aof", &[preamble, increment].concat());
    let ours = serve(&[]);
    let store = ours.store();
    let out = succeed(&["import", &file, "--store", store.to_str().expect("ASCII")]);
    assert!(out.contains("from a snapshot"), "{out}");
    assert_equal(&mut connect(&server), &mut connect(&ours));
}
