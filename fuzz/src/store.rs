//! Fuzzes the opening of damaged stores: the input damages a sound store, which is then opened,
//! read, written and checked.
//!
//! The first byte of the input selects the store. The second byte contains flags. If bit 0 is set,
//! the header's checksum is not corrected. If bit 1 is set, the next two bytes are the number of
//! the page at which the file is truncated. The remaining bytes are changes of twelve bytes each:
//! the page, the word in the page, and the value to XOR into the word.

use std::sync::LazyLock;

use crate::image::{Image, samples, use_store};
use tempfile::TempDir;
use undercroft_engine::{Options, Store};

/// Changes with large effects: to a word of each page, to a lock word, and to high and low bits.
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

/// Creates a temporary directory. It is not stored in a static, because values in statics are never
/// dropped.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm")
}

/// Creates a store in a temporary directory, which is deleted when the returned value is dropped.
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

/// Damages a store according to the input, and then uses it.
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
        // Select the control pages, which precede the heap, twice as often as other pages.
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
