//! Tests files that are not stores in this build's format: the error must give the reason, and the
//! file must not change.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, chown, symlink};
use std::path::Path;

use undercroft_memory::layout::{EXTENTS_MAX, PAGE, header};
use undercroft_memory::{Error, Initially, Options, Segment};

use crate::child::skip;
use crate::pairs::Store;

/// Opens the file for reading and for writing. Returns the error message, which must be the same in
/// both cases.
fn refusal(path: &Path) -> String {
    let [first, second] = [true, false].map(|write| match Segment::open(path, write) {
        Err(error @ (Error::NotAStore { .. } | Error::Io { .. })) => error.to_string(),
        Err(error) => panic!("expected a refusal, found {error:?}"),
        Ok(_) => panic!("the file was accepted"),
    });
    assert_eq!(first, second);
    first
}

/// Opens the file, which must be rejected for the given reason and not change.
fn assert_refused(path: &Path, reason: &str) {
    let before = fs::read(path).expect("a file");
    let said = refusal(path);
    assert!(said.contains(reason), "expected {reason:?} in {said:?}");
    assert!(
        said.contains(path.to_str().expect("a plain path")),
        "{said}"
    );
    assert!(
        fs::read(path).expect("a file") == before,
        "modified: {said}"
    );
    let said = Segment::open_or_create(path, &Options::default(), Initially::default())
        .err()
        .expect("a refusal");
    assert!(said.to_string().contains(reason), "{said}");
    assert!(
        fs::read(path).expect("a file") == before,
        "modified: {said}"
    );
}

fn header_of(store: &Store) -> Vec<u8> {
    let mut page = fs::read(&store.path).expect("a file");
    page.truncate(PAGE as usize);
    page
}

/// Creates a sparse file that starts with the given page.
fn write_sparse(path: &Path, page: &[u8], length: u64) {
    let file = fs::File::create(path).expect("a file");
    file.set_len(length).expect("a length");
    file.write_all_at(page, 0).expect("a page");
}

/// Updates the header's checksum after a change.
fn seal(page: &mut [u8]) {
    let at = header::CHECKSUM as usize;
    let checksum = u64::from(crc32fast::hash(&page[..at]));
    page[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn a_file_that_never_was_a_store_is_refused() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("file");
    for length in [0, 1, 8, 4095] {
        fs::write(&path, vec![7; length]).expect("a file");
        assert_refused(&path, &format!("at least 4096 bytes, found {length}"));
    }
    let mut random = 0x1234_5678_9abc_def1_u64;
    let noise: Vec<u8> = (0..100_000)
        .map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        })
        .collect();
    for content in [vec![0; 100_000], noise] {
        fs::write(&path, content).expect("a file");
        assert_refused(&path, "starts with UNDRCRFT");
    }
}

#[test]
fn a_truncated_or_extended_file_is_refused() {
    let store = Store::new();
    let page = header_of(&store);
    let whole = fs::metadata(&store.path).expect("a file").len();
    let path = store.path.with_extension("cut");
    let pages = whole / PAGE;
    for kept in (1..pages).step_by(97).chain([pages - 1, pages + 1]) {
        let length = kept * PAGE;
        write_sparse(&path, &page, length);
        let said = refusal(&path);
        let expected = format!("expected {whole} bytes, found {length}");
        assert!(said.contains(&expected), "{said}");
        assert_eq!(fs::metadata(&path).expect("a file").len(), length);
    }
    write_sparse(&path, &page, whole - 1);
    assert_refused(&path, "was truncated");
}

#[test]
fn every_flipped_byte_of_the_header_is_detected() {
    let store = Store::new();
    let page = header_of(&store);
    let whole = fs::metadata(&store.path).expect("a file").len();
    let path = store.path.with_extension("flipped");
    for at in 0..(header::CHECKSUM + 8) as usize {
        for bit in 0..8 {
            let mut flipped = page.clone();
            flipped[at] ^= 1 << bit;
            write_sparse(&path, &flipped, whole);
            let said = refusal(&path);
            let reason = match at as u64 {
                header::MAGIC..header::VERSION => "starts with UNDRCRFT",
                header::VERSION..header::BYTE_ORDER => "expected format version",
                _ => "the header is damaged: expected checksum",
            };
            assert!(said.contains(reason), "byte {at}, bit {bit}: {said}");
        }
    }
}

#[test]
fn a_different_version_byte_order_or_layout_is_named() {
    let store = Store::new();
    let page = header_of(&store);
    let whole = fs::metadata(&store.path).expect("a file").len();
    let path = store.path.with_extension("other");
    let swapped = header::BYTE_ORDER_VALUE.swap_bytes();
    for (field, value, reason) in [
        (
            header::VERSION,
            header::VERSION_VALUE + 1,
            "format version 1, found 2",
        ),
        (header::BYTE_ORDER, swapped, "the other byte order"),
        (header::BYTE_ORDER, 7, "the byte order"),
        (header::FINGERPRINT, 1, "created by another build"),
        (header::SHARDS, 3, "3 shards"),
        (header::SHARDS, 0, "0 shards"),
        (header::SHARDS, 128, "128 shards"),
        (header::EXTENTS, 7, "7 extents"),
        (header::EXTENTS, u64::MAX, "extents"),
        (header::EXTENTS, EXTENTS_MAX + 1, "extents"),
        (header::EXTENTS, EXTENTS_MAX, "truncated or has grown"),
        (header::FILE_LENGTH, 1 << 40, "truncated or has grown"),
    ] {
        let mut changed = page.clone();
        changed[field as usize..field as usize + 8].copy_from_slice(&value.to_le_bytes());
        seal(&mut changed);
        write_sparse(&path, &changed, whole);
        assert_refused(&path, reason);
    }
}

#[test]
fn files_that_are_not_regular_are_refused() {
    let store = Store::new();
    let directory = store.path.parent().expect("a directory");
    let link = directory.join("link");
    symlink(&store.path, &link).expect("a symlink");
    assert!(refusal(&link).contains("found a symlink"));
    let fifo = directory.join("fifo");
    let name = CString::new(fifo.as_os_str().as_bytes()).expect("no zero byte");
    // SAFETY: the argument is a zero-terminated string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert!(refusal(&fifo).contains("expected a regular file"));
    let said = Segment::open(directory, false).err().expect("a refusal");
    assert!(
        said.to_string().contains("expected a regular file"),
        "{said}"
    );
    assert!(Segment::open(directory, true).is_err());
    assert!(Segment::open(Path::new("/dev/null"), true).is_err());
}

#[test]
fn another_users_file_is_refused() {
    let store = Store::new();
    if chown(&store.path, Some(65_534), None).is_err() {
        skip("another user's file", "only root can give a file away");
        return;
    }
    assert_refused(&store.path, "found user 65534");
}

#[test]
fn creating_over_an_existing_file_changes_nothing() {
    let store = Store::new();
    let before = fs::read(&store.path).expect("a file");
    let Err(Error::Io { source, .. }) = Segment::create(&store.path, &Options::default()) else {
        panic!("a store in the place of another");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(fs::read(&store.path).expect("a file") == before);
}
