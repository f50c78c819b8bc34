//! Tests stores that run out of memory, and stores whose file is removed (H2).

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use undercroft_memory::{Error, Offset, Options, Segment, ShardSet};

use crate::child::{Child, Role, say, skip};
use crate::pairs::{self, Store, create, increment, read};

pub(crate) const ROLES: &[Role] = &[("full", full), ("overlay", overlay)];

/// Runs a role in a separate mount namespace, whose mounts disappear with it. Returns false if that
/// is not permitted, or if the role reports that it is not.
fn in_own_mounts(role: &str, store: &Path) -> bool {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]);
        command
    };
    if !unshare()
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        return false;
    }
    let mut command = unshare();
    command.arg(std::env::current_exe().expect("this test"));
    let mut child = Child::start_by(command, role, store);
    let mounted = child.expect("mount") == "done";
    child.finish();
    mounted
}

fn mount(kind: &str, at: &Path, options: &str) -> bool {
    let text = |text: &str| CString::new(text).expect("no zero byte");
    let (kind, options) = (text(kind), text(options));
    let at = text(at.to_str().expect("a plain path"));
    // SAFETY: all strings are zero-terminated and outlive the call.
    let result = unsafe {
        libc::mount(
            kind.as_ptr(),
            at.as_ptr(),
            kind.as_ptr(),
            0,
            options.as_ptr().cast(),
        )
    };
    result == 0
}

/// Uses a store in a small tmpfs that another file fills.
fn full(directory: &Path) {
    if !mount("tmpfs", directory, "size=6m") {
        return say("mount refused");
    }
    say("mount done");
    let path = directory.join("store");
    let segment = create(&path, 1 << 30);
    let late = Segment::open(&path, true).expect("the store");
    let fill = || {
        let mut other = fs::File::options()
            .create(true)
            .append(true)
            .open(directory.join("other"))
            .expect("another file");
        while other.write_all(&[1; 4096]).is_ok() {}
    };
    fill();
    let out_of_memory = |result: Result<(), Error>, what: &str| match result {
        Err(Error::OutOfMemory) => {}
        other => panic!("{what}: expected out of memory, found {other:?}"),
    };
    increment(&late, ShardSet::one(0)).expect("an entry that was ready for it");
    // Processes join one after another and stay alive, until no process table entry backed with
    // memory remains.
    let mut others = Vec::new();
    let refused = loop {
        let other = Segment::open(&path, true).expect("the store");
        match increment(&other, ShardSet::one(0)) {
            Ok(()) => others.push(other),
            refused => break (other, refused),
        }
    };
    assert!(others.len() >= 6, "{} others joined", others.len());
    out_of_memory(refused.1, "joining");
    // Inspecting the store requires no process table entry.
    pairs::check(&refused.0);
    pairs::check(&Segment::open(&path, false).expect("the store"));
    let moment = refused.0.image(|| 7, &mut || {});
    assert_eq!(moment.expect("a copy").1, 7);
    let others = others.drain(..).count() as u64;
    increment(&refused.0, ShardSet::one(0)).expect("an entry that is free again");
    out_of_memory(segment.grow_hints(0, 1 << 20), "longer hints");
    let mut blocks: Vec<Offset> = Vec::new();
    let result = loop {
        let at = segment.write(ShardSet::one(0), |transaction| {
            let at = transaction.allocate(0, 3000)?;
            transaction.fill(at, &[7; 3000])?;
            Ok::<_, Error>(at)
        });
        match at {
            Ok(at) => blocks.push(at),
            Err(error) => break Err(error),
        }
    };
    out_of_memory(result, "the heap");
    assert!(blocks.len() > 10, "{} blocks", blocks.len());
    let long_log = segment.write(ShardSet::one(0), |transaction| {
        for &at in blocks.iter().cycle().take(200) {
            transaction.write(0, at, &[8; 3000])?;
        }
        Ok::<_, Error>(())
    });
    out_of_memory(long_log, "a longer log");
    let tables = Segment::open(&path, false).expect("the store");
    for &at in &blocks {
        let whole = tables.read(ShardSet::one(0), |view| {
            Ok::<_, Error>(view.equals(at, &[7; 3000])?)
        });
        assert!(whole.expect("a read"), "what was rolled back is whole");
    }
    let few = blocks.split_off(4);
    segment
        .write(ShardSet::one(0), |transaction| {
            few.iter().for_each(|&at| transaction.free(0, at));
            Ok::<_, Error>(())
        })
        .expect("frees need no memory");
    segment
        .write(ShardSet::one(0), |transaction| {
            transaction.allocate(0, 3000)
        })
        .map(|at| blocks.push(at))
        .expect("room again");
    increment(&segment, ShardSet::first(pairs::SHARDS)).expect("a change");
    fs::remove_file(directory.join("other")).expect("the other file");
    increment(&late, ShardSet::one(0)).expect("a change");
    segment
        .write(ShardSet::one(0), |transaction| {
            blocks.iter().for_each(|&at| transaction.free(0, at));
            Ok::<_, Error>(())
        })
        .expect("frees");
    assert_eq!(pairs::check(&segment), [4 + others, 1, 1, 1]);
}

/// Uses a store through overlayfs, as in a container's writable layer.
fn overlay(directory: &Path) {
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(directory.join(name)).expect("a directory");
    }
    let lower = directory.join("lower/store");
    drop(create(&lower, 1 << 20));
    let merged = directory.join("merged");
    let shown = directory.display();
    let options = format!("lowerdir={shown}/lower,upperdir={shown}/upper,workdir={shown}/work");
    if !mount("overlay", &merged, &options) {
        return say("mount refused");
    }
    say("mount done");
    for write in [true, false] {
        let refused = Segment::open(&merged.join("store"), write).err();
        let said = refused.expect("a refusal").to_string();
        assert!(said.contains("overlayfs"), "{said}");
    }
    let refused = Segment::create(&merged.join("new"), &Options::default()).err();
    let said = refused.expect("a refusal").to_string();
    assert!(
        said.contains("overlayfs") || said.contains("unnamed"),
        "{said}"
    );
    assert!(!merged.join("new").exists());
}

#[test]
fn a_full_tmpfs_is_an_error_and_never_a_signal() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    if !in_own_mounts("full", directory.path()) {
        skip("a full tmpfs", "the mount is not allowed");
    }
}

#[test]
fn a_store_on_overlayfs_is_refused() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    if !in_own_mounts("overlay", directory.path()) {
        skip("a store on overlayfs", "the mount is not allowed");
    }
}

/// Writes until a write is rejected. Returns the error.
fn write_until_refused(store: &Store) -> Error {
    loop {
        if let Err(error) = increment(&store.segment, ShardSet::one(0)) {
            return error;
        }
    }
}

#[test]
fn writes_fail_once_the_file_is_removed_but_reads_continue() {
    let store = Store::new();
    let idle = store.open(true);
    fs::remove_file(&store.path).expect("the store's file");
    let error = write_until_refused(&store);
    assert!(matches!(error, Error::Removed { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("RemoveIPC"), "{said}");
    assert!(store.segment.removed());
    read(&store.segment, 0).expect("a read");
    read(&idle, 0).expect("a read without a slot");
    let late = increment(&idle, ShardSet::one(0));
    assert!(matches!(late, Err(Error::Removed { .. })), "{late:?}");
}

#[test]
fn a_reader_that_cannot_join_reads_like_a_read_only_handle() {
    let store = Store::new();
    let idle = store.open(true);
    idle.set_patience(std::time::Duration::from_millis(1));
    let kept = store.segment.write(ShardSet::one(0), |transaction| {
        transaction.set_root(0, 9, 1)?;
        fs::remove_file(&store.path).expect("the store's file");
        // The counter is odd, and the file through which to join no longer exists.
        assert_eq!(read(&idle, 0).expect("what was there before"), 0);
        Ok::<_, Error>(())
    });
    kept.expect("the change is made");
    read(&idle, 0).expect("a read");
}

#[test]
fn writes_fail_once_the_file_is_replaced() {
    let store = Store::new();
    let other = store.path.with_extension("other");
    drop(create(&other, 16 << 20));
    fs::rename(&other, &store.path).expect("a replacement");
    let error = write_until_refused(&store);
    assert!(matches!(error, Error::Removed { .. }), "{error:?}");
    let new = store.open(true);
    assert_eq!(read(&new, 0).expect("a read"), 0, "no write got here");
    increment(&new, ShardSet::one(0)).expect("the new store works");
}
