//! Payloads of RESTORE: whatever is accepted is stored, sound, and dumped as something that is accepted again.

use crate::store::place;
use crc::{CRC_64_REDIS, Crc, Table};
use tempfile::TempDir;
use undercroft_engine::{Encoding, Limits, Ranges, Store, ValueType, rdb};

/// The types of values in Redis' form, lengths that lie, ends of listpacks, LZF.
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

/// Of one string in a payload.
const LONGEST: usize = 1 << 20;
const RDB_VERSION: u16 = 10;

static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);
thread_local! {
    static PLACE: (TempDir, Store) = place();
}

/// A payload with version and checksum behind it.
pub(crate) fn sealed(input: &[u8]) -> Vec<u8> {
    let mut payload = [input, &RDB_VERSION.to_le_bytes()].concat();
    let checksum = CHECKSUM.checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// Restores what the input is as a value in front of version and checksum.
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

/// Puts items into the store, and returns what is there then, and how; none where there is no room.
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
