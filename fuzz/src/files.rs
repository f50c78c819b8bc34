//! Fuzzes the files of Redis and Valkey: RDB files and append-only files. An accepted RDB file must
//! be stored in a sound form, and what is saved from the store must be accepted again.

use std::io::Read;

use tempfile::TempDir;
use undercroft_engine::Store;
use undercroft_engine::rdb::RdbVersion;
use undercroft_links::aof::{Replay, Tail, read_aof};
use undercroft_links::load::{LoadError, LoadOptions, Loaded, load};
use undercroft_links::rdb::Reader;
use undercroft_links::save::{SaveOptions, save};

use crate::store::place;

/// Pieces of RDB files: opcodes, types, lengths and encodings of strings.
pub(crate) const RDB_TOKENS: &[&[u8]] = &[
    b"REDIS0009",
    b"REDIS0012",
    b"VALKEY080",
    b"\xfe\x00",
    b"\xfb\x01\x00",
    b"\xfa\x01a\x01b",
    b"\xf5\x01f",
    b"\xf4\x00\x00\x00",
    b"\xf7\x81\x00\x00\x00\x00\x00\x00\x00\x01\x02\x01\x00",
    b"\xf8\x05",
    b"\xf9\x05",
    b"\xfc\x00\x00\x00\x00\x00\x01\x00\x00",
    b"\xfd\xff\xff\xff\x7f",
    b"\x03\x01k\x01\x01a\xfe",
    b"\x07\x01k\x81\x00\x00\x00\x00\x00\x00\x00\x01",
    b"\x09\x01k\x05\x01\x01f\x01",
    b"\x16\x01k\x01",
    b"\x18\x01k",
    b"\x19\x01k",
    b"\x80\xff\xff\xff\xff",
    b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\xc3\x01\x05",
    b"\xff\x00\x00\x00\x00\x00\x00\x00\x00",
];

/// Pieces of append-only files.
pub(crate) const AOF_TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"*1\r\n",
    b"$1\r\n",
    b"*1\r\n$5\r\nMULTI\r\n",
    b"*1\r\n$4\r\nEXEC\r\n",
    b"#TS:1\r\n",
    b"REDIS0010",
    b"\xff\x00\x00\x00\x00\x00\x00\x00\x00",
];

thread_local! {
    static PLACE: (TempDir, Store) = place();
}

fn loaded(bytes: &[u8], store: Option<&Store>) -> Result<Loaded, LoadError> {
    let options = LoadOptions {
        drop_field_expiry: true,
        is_replica: false,
        threads: 1,
    };
    let mut reader = Reader::new(bytes)?;
    load(&mut reader, store, &options, &mut |_| true)
}

/// Loads the input as an RDB file, after replacing its checksum with 0, which is not verified.
pub(crate) fn load_and_save(input: &[u8]) {
    let mut file = input.to_vec();
    let end = file.len().saturating_sub(8);
    file[end..].fill(0);
    let validated = loaded(&file, None);
    PLACE.with(|(_, store)| {
        store.flush_all(true).expect("no lock is held");
        let loaded = match loaded(&file, Some(store)) {
            Ok(loaded) => loaded,
            Err(LoadError::Store { .. }) => return,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("at byte "), "{text}");
                return;
            }
        };
        // Whatever is stored has been validated. Only the store can refuse more: it can be full.
        let validated = validated.expect("a file that can be stored");
        assert_eq!(validated.counts, loaded.counts);
        saved_file_is_accepted(store);
    });
}

fn saved_file_is_accepted(store: &Store) {
    let snapshot = store.take_snapshot().expect("memory");
    let options = SaveOptions {
        threads: 1,
        ..SaveOptions::new(RdbVersion::V11)
    };
    let saved = save(store, &snapshot, Vec::new(), &options, &mut |_| true);
    let Ok((bytes, saved)) = saved else {
        // The input named keys that only channels and objects have.
        return;
    };
    let again = loaded(&bytes, None).expect("what was saved is accepted");
    let counts = again.counts;
    // A key can expire between both.
    assert_eq!(counts.keys + counts.expired, saved.keys);
}

/// Counts the commands of an append-only file.
#[derive(Default)]
struct Commands {
    count: u64,
    is_in_transaction: bool,
}

impl Replay for Commands {
    fn snapshot<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<(), LoadError> {
        let options = LoadOptions {
            drop_field_expiry: true,
            is_replica: false,
            threads: 1,
        };
        load(reader, None, &options, &mut |_| true).map(drop)
    }

    fn command(&mut self, words: &[&[u8]], _at: u64) -> Result<(), String> {
        self.count += 1;
        match words {
            [b"MULTI"] => self.is_in_transaction = true,
            [b"EXEC"] => self.is_in_transaction = false,
            _ => {}
        }
        Ok(())
    }

    fn is_in_transaction(&self) -> bool {
        self.is_in_transaction
    }

    fn discard(&mut self) {
        self.is_in_transaction = false;
    }
}

/// Reads the input as an append-only file. The part before a truncated tail must be whole.
pub(crate) fn replay(input: &[u8]) {
    let read = |bytes: &[u8]| {
        let mut commands = Commands::default();
        let tail = read_aof(bytes, &mut commands, &mut |_| true);
        (tail, commands.count)
    };
    match read(input) {
        (Ok(Tail::Truncated { at, bytes }), count) => {
            let at = usize::try_from(at).expect("an offset in the input");
            assert!(bytes > 0 && at + bytes as usize <= input.len());
            let (tail, whole) = read(&input[..at]);
            assert!(matches!(tail, Ok(Tail::Whole)), "{tail:?}");
            assert!(whole <= count);
        }
        (Err(error), _) => {
            let text = error.to_string();
            assert!(text.contains("at byte "), "{text}");
        }
        (Ok(Tail::Whole), _) => {}
    }
}
