//! Tests interrupted exports and imports, and the possible destinations of an export.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::support::{Place, command, fail, run, signal_to, succeed};

/// Creates a store with enough keys that exporting it takes longer than delivering a signal.
fn many_keys(place: &Place) -> String {
    let value = "v".repeat(1000);
    let keys: Vec<String> = (0..20_000).map(|number| format!("key:{number}")).collect();
    let pairs: Vec<(&str, &str)> = keys
        .iter()
        .map(|key| (key.as_str(), value.as_str()))
        .collect();
    place.store("store", &pairs)
}

fn names_in(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.path("")).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort();
    names
}

/// Waits until a child process exits. Returns its exit status and its standard error.
fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("a child");
    (
        output.status.code(),
        String::from_utf8(output.stderr).expect("text"),
    )
}

/// Returns whether the child process has a file open whose path contains the given text.
fn has_open(child: &Child, text: &str) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", child.id()));
    let links = descriptors.into_iter().flatten().flatten();
    let mut targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    targets.any(|target| target.to_string_lossy().contains(text))
}

#[test]
fn export_writes_to_a_stream_without_replacing_it() {
    let place = Place::new();
    let store = place.store("store", &[("a", "1"), ("b", "2")]);
    let file = place.path("file");
    succeed(&["export", &store, &file]);
    // Exports differ in their creation time, so compare the imported keys instead of the files.
    let same = |bytes: &[u8]| {
        let copy = place.path("received");
        fs::write(&copy, bytes).expect("room");
        let out = succeed(&["import", &copy, &place.path("copy")]);
        fs::remove_file(place.path("copy")).expect("a store");
        assert!(out.starts_with("imported 2 keys"), "{out}");
    };

    for name in ["-", "/dev/stdout", "/proc/self/fd/1"] {
        let output = command(&["export", &store, name])
            .output()
            .expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {errors}");
        assert!(errors.starts_with("exported 2 keys"), "{name}: {errors}");
        same(&output.stdout);
        // Standard output can be a file to which other processes continue to write.
        let redirected = place.path("redirected");
        let out = File::create(&redirected).expect("room");
        let status = command(&["export", &store, name]).stdout(out).status();
        assert!(status.expect("it runs").success(), "{name}");
        same(&fs::read(&redirected).expect("a file"));
    }

    let pipe = place.path("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .is_ok_and(|status| status.success())
    );
    let child = command(&["export", &store, &pipe])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut received = Vec::new();
    File::open(&pipe)
        .and_then(|mut pipe| pipe.read_to_end(&mut received))
        .expect("it writes");
    assert_eq!(end(child).0, Some(0));
    same(&received);
    let kind = fs::symlink_metadata(&pipe).expect("a pipe").file_type();
    assert!(kind.is_fifo());
}

#[test]
fn export_does_not_replace_a_device() {
    let place = Place::new();
    let store = place.store("store", &[("a", "1")]);
    let line = fail(&["export", &store, "/dev/full"], 1);
    assert!(
        line.starts_with("undercroft: writing /dev/full: No space left"),
        "{line}"
    );
    let full = run(&["export", &store, "/dev/null"]);
    assert_eq!((full.status, full.out.as_str()), (0, ""));
    for device in ["/dev/full", "/dev/null"] {
        let kind = fs::symlink_metadata(device).expect("a device").file_type();
        assert!(kind.is_char_device(), "{device}");
    }
}

#[test]
fn symbolic_link_survives_and_its_target_is_replaced() {
    let place = Place::new();
    let store = place.store("store", &[("a", "1")]);
    fs::create_dir(place.path("backups")).expect("room");
    fs::write(place.path("backups/old"), "old").expect("room");
    for (target, link) in [("backups/old", "there"), ("backups/none", "missing")] {
        symlink(target, place.path(link)).expect("room");
        succeed(&["export", &store, &place.path(link)]);
        let status = fs::symlink_metadata(place.path(link)).expect("a link");
        assert!(status.is_symlink());
        let written = fs::read(place.path(target)).expect("a file");
        assert!(written.starts_with(b"UNDEREXP"));
    }
    let line = fail(&["export", &store, &place.path("backups")], 1);
    assert!(line.contains("irectory"), "{line}");
}

#[test]
fn export_does_not_replace_its_own_store() {
    let place = Place::new();
    let store = place.store("store", &[("a", "1")]);
    let link = place.path("link");
    symlink(&store, &link).expect("room");
    for file in [&store, &link] {
        let line = fail(&["export", &store, file], 1);
        assert!(line.contains("is the store itself"), "{line}");
    }
    assert_eq!(succeed(&["exec", "--store", &store, "GET", "a"]), "1\n");
}

#[test]
fn interrupted_export_leaves_no_file() {
    let place = Place::new();
    let store = many_keys(&place);
    let file = place.path("file");
    let mut interrupted = 0;
    for attempt in 0..100 {
        let child = command(&["export", &store, &file])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        // Wait for the unnamed file that will become the export.
        while !has_open(&child, "(deleted)") && !Path::new(&file).exists() {
            std::thread::yield_now();
        }
        let signal = [Signal::INT, Signal::TERM, Signal::HUP][attempt % 3];
        signal_to(&child, signal);
        let (status, errors) = end(child);
        match status {
            Some(0) => fs::remove_file(&file).expect("a whole export"),
            Some(130) => {
                interrupted += 1;
                assert_eq!(
                    errors,
                    format!("undercroft: interrupted: {file} was not written\n")
                );
            }
            other => panic!("{other:?}: {errors}"),
        }
        assert_eq!(names_in(&place), ["store"]);
        if interrupted == 3 {
            return;
        }
    }
    panic!("interrupted {interrupted} times only");
}

#[test]
fn interrupted_export_to_a_stream_is_reported() {
    let place = Place::new();
    let store = many_keys(&place);
    let mut child = command(&["export", &store, "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut out = child.stdout.take().expect("a pipe");
    let mut first = [0];
    out.read_exact(&mut first).expect("it writes");
    signal_to(&child, Signal::INT);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).expect("it writes");
    let (status, errors) = end(child);
    assert_eq!(status, Some(130), "{errors}");
    assert!(errors.contains("received a part of the export"), "{errors}");
}

#[test]
fn interrupted_import_leaves_no_store() {
    let place = Place::new();
    let store = many_keys(&place);
    let file = place.path("file");
    succeed(&["export", &store, &file]);
    let copy = place.path("copy");
    let mut interrupted = 0;
    for _ in 0..100 {
        let child = command(&["import", &file, &copy])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let begun = || {
            names_in(&place)
                .iter()
                .any(|name| name.ends_with(".importing"))
        };
        while !begun() && !Path::new(&copy).exists() {
            std::thread::yield_now();
        }
        signal_to(&child, Signal::INT);
        let (status, errors) = end(child);
        match status {
            Some(0) => fs::remove_file(&copy).expect("a whole store"),
            Some(130) => {
                interrupted += 1;
                assert_eq!(errors, "undercroft: interrupted: no store was created\n");
            }
            other => panic!("{other:?}: {errors}"),
        }
        assert_eq!(names_in(&place), ["file", "store"]);
        if interrupted == 3 {
            return;
        }
    }
    panic!("interrupted {interrupted} times only");
}

#[test]
fn next_import_removes_the_remains_of_a_killed_import() {
    let place = Place::new();
    let store = many_keys(&place);
    let file = place.path("file");
    succeed(&["export", &store, &file]);
    let copy = place.path("copy");
    let mut child = command(&["import", &file, &copy]).spawn().expect("it runs");
    let begun = || {
        names_in(&place)
            .iter()
            .any(|name| name.ends_with(".importing"))
    };
    while !begun() && !Path::new(&copy).exists() {
        std::thread::yield_now();
    }
    child.kill().expect("a child");
    child.wait().expect("a child");
    if begun() {
        assert!(!Path::new(&copy).exists());
        succeed(&["import", &file, &copy]);
    }
    assert!(!begun());
}

#[test]
fn failed_import_reports_how_many_keys_remain() {
    let place = Place::new();
    let store = many_keys(&place);
    let file = place.path("file");
    succeed(&["export", &store, &file]);
    let small = place.path("small");
    let line = fail(&["import", &file, &small, "--capacity", "8mb"], 1);
    assert!(line.ends_with("no store was created"), "{line}");
    assert_eq!(names_in(&place), ["file", "store"]);
    // An existing store retains the keys that were imported before it was full.
    succeed(&["exec", "--store", &small, "--create", "PING"]);
    fs::remove_file(&small).expect("a store");
    let options = undercroft_engine::Options {
        capacity: Some(8 << 20),
        ..Default::default()
    };
    undercroft_engine::Store::create(Path::new(&small), &options).expect("a store");
    let line = fail(&["import", &file, &small], 1);
    assert!(
        line.contains("of the file's 20,000 keys; import --replace"),
        "{line}"
    );
}

#[test]
fn value_is_read_from_standard_input() {
    let place = Place::new();
    let store = place.store("store", &[]);
    let mut child = command(&["exec", "--store", &store, "-x", "SET", "picture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let value = b"\x00\xff\r\n no text";
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(value).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("a child");
    assert_eq!(output.stdout, b"OK\n");
    let output = command(&["exec", "--store", &store, "--raw", "GET", "picture"]).output();
    assert_eq!(
        output.expect("it runs").stdout,
        [&value[..], b"\n"].concat()
    );
}
