//! Fuzzes RESTORE payloads. An accepted payload must be stored in a sound form, and its dump must
//! be accepted again.

use crate::store::place;
use crc::{CRC_64_REDIS, Crc, Table};
use tempfile::TempDir;
use undercroft_engine::{Encoding, Limits, Ranges, Store, ValueType, rdb};

/// Pieces of inputs: Redis' value types, wrong lengths, ends of listpacks, and LZF data.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"\x00",
    b"\x02",
    b"\x03",
    b"\x04",
    b"\x05",
    b"\x0a",
    b"\x0b",
    b"\x0c",
    b"\x0d",
    b"\x0e",
    b"\x0f",
    b"\x10",
    b"\x11",
    b"\x12",
    b"\x13",
    b"\x15",
    b"\xc0",
    b"\xc3",
    b"\xff",
    b"\x80\xff\xff\xff\xff",
    b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\xf4\xff\xff\xff\xff\xff\xff\xff\xff",
];

/// The maximum length, in bytes, of a string in a payload.
const LONGEST: usize = 1 << 20;
const RDB_VERSION: u16 = 10;

static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);
thread_local! {
    static PLACE: (TempDir, Store) = place();
}

/// Returns the input as a payload, with a version and a checksum appended.
pub(crate) fn sealed(input: &[u8]) -> Vec<u8> {
    let mut payload = [input, &RDB_VERSION.to_le_bytes()].concat();
    let checksum = CHECKSUM.checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// Restores the input as a value, after appending a version and a checksum.
pub(crate) fn restore(input: &[u8]) {
    let payload = sealed(input);
    let Ok((value_type, items)) = rdb::restore(&payload, LONGEST) else {
        return;
    };
    let stored = PLACE.with(|(_, store)| stored(store, value_type, &items));
    let Some((stored, encoding)) = stored else {
        return;
    };
    let dumped = rdb::dump(value_type, encoding, &stored);
    let (again, items) = rdb::restore(&dumped, usize::MAX).expect("what was dumped is accepted");
    assert_eq!(again, value_type);
    assert_eq!(
        rdb::dump(value_type, encoding, &items),
        dumped,
        "dumped anew"
    );
}

/// Stores items as a value. Returns the stored items and their encoding, or `None` if the store is
/// full.
fn stored(store: &Store, value_type: ValueType, items: &Ranges) -> Option<(Ranges, Encoding)> {
    let key = store.key(b"key");
    let put = store.write(store.all_shards(), |writer| {
        writer.remove(0, &key)?;
        writer.put_items(0, &key, value_type, items, None, &Limits::DEFAULT)
    });
    match put {
        Err(error) if error.is_out_of_memory() => return None,
        put => put.expect("what was accepted can be stored"),
    }
    let mut found = Ranges::new();
    let encoding = store.read_into(store.all_shards(), &mut found, |reader, found| {
        let entry = reader.find(0, &key)?.expect("it was put there");
        entry.append_items(reader.view(), found)?;
        entry.encoding()
    });
    let encoding = encoding.expect("what was stored can be read");
    let report = store.check().expect("the store is there");
    assert_eq!(report.problems, Vec::<String>::new());
    Some((found, encoding))
}
