//! Opening a damaged store: the input damages a sound store, which is then opened, read, written
//! and checked.
//!
//! The first byte of the input selects the store. The second byte holds flags: bit 0 leaves the
//! header's checksum as it is; with bit 1, the next two bytes are the page at which the file is
//! truncated. Changes of twelve bytes each follow: page, word in the page, and the value to XOR
//! into the word.

use std::sync::LazyLock;

use crate::image::{Image, samples, use_store};
use tempfile::TempDir;
use undercroft_engine::{Options, Store};

/// Changes with large effects: a word of each page, a lock word, high and low bits.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"\0\0",
    b"\x01\0\0\0\x01\0\0\0\0\0\0\0",
    b"\x01\0\x18\0\xff\xff\0\0\0\0\0\0",
    b"\x04\0\x12\0\x10\0\0\0\0\0\0\0",
    b"\0\0\0\0\0\0\0\x80",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
];

/// The number of words in a page.
const WORDS: usize = 512;

static SAMPLES: LazyLock<Vec<Image>> = LazyLock::new(|| samples(directory().path()));

/// Creates a directory for one use, because a directory in a static is never removed.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm")
}

/// Creates a store in a temporary directory, both of which last as long as the thread.
pub(crate) fn place() -> (TempDir, Store) {
    let directory = directory();
    let options = Options {
        capacity: Some(64 << 20),
        shards: Some(1),
        ring: None,
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
    (directory, store)
}

/// Damages a store as the input says, and uses it.
pub(crate) fn open_and_use(input: &[u8]) {
    let [which, how, rest @ ..] = input else {
        return;
    };
    let mut image = SAMPLES[usize::from(*which) % SAMPLES.len()].clone();
    let (cut, changes) = match rest {
        [low, high, rest @ ..] if how & 2 != 0 => (Some(u16::from_le_bytes([*low, *high])), rest),
        _ => (None, rest),
    };
    for change in changes.chunks_exact(12) {
        let number = |at: usize| usize::from(u16::from_le_bytes([change[at], change[at + 1]]));
        let pages = image.pages() + image.control_pages();
        // Choose the pages before the heap twice as often.
        let page = number(0) % pages % image.pages();
        let word = number(2) % WORDS;
        let value = u64::from_le_bytes(change[4..].try_into().expect("eight bytes"));
        image.set_word(page, word, image.word(page, word) ^ value);
    }
    if how & 1 == 0 {
        image.seal();
    }
    if let Some(page) = cut {
        image.cut(u64::from(page) * 4096);
    }
    let directory = directory();
    let path = directory.path().join("damaged");
    image.write_to(&path);
    use_store(&path);
}
