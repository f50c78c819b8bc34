//! Imports RDB files that real servers wrote.

use std::fs::File;

use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, unpacked_file};

use crate::compare::assert_equal;
use crate::data::fill;
use crate::support::{
    Place, REAL, call, command, connect, fail, line, save, serve, start, succeed,
};

/// Starts a real server with data of every type. Returns the server and its snapshot.
fn filled(kind: Kind, arguments: &[&str]) -> Option<(Server, String)> {
    let server = start(kind, arguments)?;
    fill(&mut connect(&server), kind);
    let file = save(&server).to_str().expect("ASCII").to_owned();
    Some((server, file))
}

#[test]
fn every_type_and_encoding_of_real_servers_is_imported() {
    let plain = [
        "--rdbcompression",
        "no",
        "--hash-max-listpack-entries",
        "1",
        "--zset-max-listpack-entries",
        "1",
        "--set-max-intset-entries",
        "1",
        "--list-max-listpack-size",
        "2",
    ];
    for kind in REAL {
        for arguments in [&[][..], &plain] {
            let Some((server, file)) = filled(kind, arguments) else {
                continue;
            };
            // An existing store is filled in two passes.
            let ours = serve(&[]);
            let store = ours.store().to_str().expect("ASCII").to_owned();
            let out = succeed(&["import", &file, "--store", &store]);
            assert!(out.contains("; 1 function library loaded"), "{out}");
            let (mut theirs, mut our) = (connect(&server), connect(&ours));
            let keys = assert_equal(&mut theirs, &mut our);
            assert!(keys > 35, "{keys}");
            assert!(out.starts_with(&format!("imported {keys} keys ")), "{out}");
            let answer = line(&mut our, "FCALL answer 0");
            assert_eq!(answer, Reply::Integer(42));
            assert!(succeed(&["check", "--store", &store]).starts_with("sound: "));
            // A new store is filled in one pass, and from a pipe as well.
            let place = Place::new();
            let [copy, piped] = ["copy", "piped"].map(|name| place.path(name));
            succeed(&["import", &file, "--store", &copy]);
            let mut pipe = command(&["import", "-", "--store", &piped]);
            let status = pipe.stdin(File::open(&file).expect("a file")).status();
            assert!(status.expect("it runs").success());
            let values = |store: &str| {
                ["DBSIZE", "LRANGE list:long 0 -1", "XRANGE stream - +"].map(|command| {
                    let words = ["exec", "--store", store].into_iter();
                    let words: Vec<&str> = words.chain(command.split(' ')).collect();
                    succeed(&words)
                })
            };
            let expected = values(&store);
            assert_eq!(values(&copy), expected);
            assert_eq!(values(&piped), expected);
        }
    }
}

#[test]
fn hints_about_the_use_of_keys_are_imported() {
    for kind in REAL {
        for (policy, command, object) in [
            ("allkeys-lru", "RESTORE used 0 {} IDLETIME 5000", "IDLETIME"),
            ("allkeys-lfu", "RESTORE used 0 {} FREQ 77", "FREQ"),
        ] {
            let memory = ["--maxmemory", "1gb", "--maxmemory-policy", policy];
            let Some(server) = start(kind, &memory) else {
                continue;
            };
            let mut theirs = connect(&server);
            line(&mut theirs, "SET used v");
            let Reply::Bulk(payload) = line(&mut theirs, "DUMP used") else {
                panic!("expected a payload");
            };
            line(&mut theirs, "DEL used");
            let words: Vec<&[u8]> = command
                .split(' ')
                .map(|word| match word {
                    "{}" => &payload[..],
                    word => word.as_bytes(),
                })
                .collect();
            call(&mut theirs, &words);
            let file = save(&server);
            let ours = serve(&["--maxmemory-policy", policy]);
            let store = ours.store();
            let paths = [&file, &store].map(|path| path.to_str().expect("ASCII"));
            succeed(&["import", paths[0], "--store", paths[1]]);
            let found = line(&mut connect(&ours), &format!("OBJECT {object} used"));
            let Reply::Integer(found) = found else {
                panic!("expected a number, got {found:?}");
            };
            match object {
                "FREQ" => assert!((70..=77).contains(&found), "{kind:?}: {found}"),
                _ => assert!((4999..5100).contains(&found), "{kind:?}: {found}"),
            }
        }
    }
}

#[test]
fn fields_that_expire_are_refused_or_lose_their_expiry() {
    for kind in [Kind::Redis8, Kind::Valkey] {
        let Some(server) = start(kind, &[]) else {
            continue;
        };
        let mut theirs = connect(&server);
        line(&mut theirs, "HSET small a 1 b 2");
        line(&mut theirs, "HEXPIRE small 100000 FIELDS 1 b");
        let large: Vec<String> = (0..2000).map(|at| format!("f{at}")).collect();
        let words = [&["HSET".to_owned(), "large".to_owned()], &large[..]].concat();
        call(&mut theirs, &words);
        line(&mut theirs, "HEXPIRE large 100000 FIELDS 1 f0");
        let file = save(&server);
        let file = file.to_str().expect("ASCII");
        let place = Place::new();
        let store = place.path("store");
        let why = fail(&["import", file, "--store", &store]);
        assert!(
            why.contains("has a field that expires") && why.contains("--drop-field-expiry"),
            "{kind:?}: {why}"
        );
        assert!(why.ends_with("no store was created"), "{why}");
        let ours = serve(&[]);
        let path = ours.store();
        let path = path.to_str().expect("ASCII");
        let out = succeed(&["import", file, "--store", path, "--drop-field-expiry"]);
        assert!(out.contains("; 2 fields lost the expiry"), "{out}");
        line(&mut theirs, "HPERSIST small FIELDS 1 b");
        line(&mut theirs, "HPERSIST large FIELDS 1 f0");
        assert_equal(&mut theirs, &mut connect(&ours));
    }
}

#[test]
fn data_of_a_module_is_refused_by_name() {
    let module = unpacked_file("falkordb.so");
    let Some(module) = module.as_deref().and_then(|path| path.to_str()) else {
        println!("skipped: data of a module (FalkorDB is missing; type: scripts/setup/servers.sh)");
        return;
    };
    let settings = undercroft_conformance::servers::Settings {
        arguments: vec!["--loadmodule".to_owned(), module.to_owned()],
        memory_max: None,
        ..Default::default()
    };
    let server = match Server::start(Kind::Redis8, settings) {
        Ok(server) => server,
        Err(error) => {
            println!("skipped: data of a module (FalkorDB does not load: {error})");
            return;
        }
    };
    let mut theirs = connect(&server);
    line(&mut theirs, "SET other v");
    line(&mut theirs, "GRAPH.QUERY graph CREATE(:Person)");
    let file = save(&server);
    let file = file.to_str().expect("ASCII");
    let place = Place::new();
    let why = fail(&["import", file, "--store", &place.path("store")]);
    assert!(why.contains("the module type 'graph"), "{why}");
}

#[test]
fn nonempty_store_is_replaced_only_on_request() {
    let Some((server, file)) = filled(Kind::Redis, &[]) else {
        return;
    };
    let ours = serve(&[]);
    let store = ours.store();
    let store = store.to_str().expect("ASCII");
    let mut our = connect(&ours);
    line(&mut our, "SET mine v");
    let why = fail(&["import", &file, "--store", store]);
    assert!(
        why.ends_with("already has 1 key; --replace removes them first"),
        "{why}"
    );
    // A library that is there already is a conflict, unless it may be replaced.
    line(&mut our, "DEL mine");
    let library = "#!lua name=kept\nredis.register_function('other', function() return 1 end)";
    call(&mut our, &["FUNCTION", "LOAD", library]);
    let why = fail(&["import", &file, "--store", store]);
    assert!(
        why.contains("loading the function libraries") && why.ends_with("; nothing was changed"),
        "{why}"
    );
    assert_eq!(line(&mut our, "DBSIZE"), Reply::Integer(0));
    line(&mut our, "SET mine v");
    succeed(&["import", &file, "--store", store, "--replace"]);
    assert_equal(&mut connect(&server), &mut our);
    // An existing store is filled from a pipe only with --streaming.
    let piped = |arguments: &[&str]| {
        let arguments = [&["import", "-", "--store", store], arguments].concat();
        let mut import = command(&arguments);
        import.stdin(File::open(&file).expect("a file"));
        import.output().expect("it runs")
    };
    let output = piped(&["--replace", "--streaming"]);
    assert!(output.status.success(), "{output:?}");
    assert_equal(&mut connect(&server), &mut our);
}
