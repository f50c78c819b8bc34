//! The header page of a store, which is written at creation and checked by each process that opens
//! the store.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crc::{CRC_32_ISO_HDLC, Crc, Table};

use crate::mapped::fingerprint::fingerprint;
use crate::mapped::layout::{EXTENT, EXTENTS_MAX, Layout, PAGE, SHARDS_MAX, header, ring};
use crate::mapped::platform::{self, unix_milliseconds};

/// Computes the header's checksum. Uses a small table, because the header is so short that
/// detecting a CRC instruction would take longer.
const CHECKSUM: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISO_HDLC);

/// Returns the header page of a new store, marked as changed during `boot`.
pub(crate) fn new(layout: &Layout, boot: u64) -> io::Result<Vec<u8>> {
    let mut page = vec![0; PAGE as usize];
    let mut put = |at: u64, value: u64| {
        page[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    };
    put(header::MAGIC, header::MAGIC_VALUE);
    put(header::VERSION, header::VERSION_VALUE);
    put(header::BYTE_ORDER, header::BYTE_ORDER_VALUE);
    put(header::FINGERPRINT, fingerprint());
    put(header::SHARDS, layout.shards as u64);
    put(header::EXTENTS, layout.extents);
    put(header::FILE_LENGTH, layout.file_length);
    put(header::CREATED, unix_milliseconds());
    put(header::RING, layout.ring_size);
    put(header::UNSYNCED, boot);
    platform::random(&mut page[header::HASH_KEY as usize..header::HASH_KEY as usize + 16])?;
    seal(&mut page);
    Ok(page)
}

/// Computes the checksum of a header page.
fn seal(page: &mut [u8]) {
    let checksum = CHECKSUM.checksum(&page[..header::CHECKSUM as usize]);
    let at = header::CHECKSUM as usize;
    page[at..at + 8].copy_from_slice(&u64::from(checksum).to_le_bytes());
}

/// Returns the header page of a store that has the same contents as the store of `page`, but is
/// another store: their journals are not interchangeable.
pub(crate) fn with_new_identity(page: &[u8]) -> Vec<u8> {
    let mut page = page.to_vec();
    let at = header::CREATED as usize;
    let created = u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
    let now = unix_milliseconds().max(created + 1);
    page[at..at + 8].copy_from_slice(&now.to_le_bytes());
    seal(&mut page);
    page
}

/// Returns the length of the store file that a header page states.
pub(crate) fn file_length(page: &[u8]) -> u64 {
    let at = header::FILE_LENGTH as usize;
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

/// Checks whether a header page matches this build and the file's length. Returns the layout and
/// the hash key, or the reason for rejecting the file.
pub(crate) fn parse(page: &[u8], length: u64) -> Result<(Layout, [u64; 2]), String> {
    let word = |at: u64| {
        let at = at as usize;
        u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
    };
    if word(header::MAGIC) != header::MAGIC_VALUE {
        return Err("expected a file that starts with UNDRCRFT; name another path".into());
    }
    if word(header::BYTE_ORDER) == header::BYTE_ORDER_VALUE.swap_bytes() {
        return Err(
            "it was created on a machine with the other byte order; export it there and import \
             the file here"
                .into(),
        );
    }
    if word(header::VERSION) != header::VERSION_VALUE {
        return Err(format!(
            "expected format version {}, found {}; export it with the release that created it and \
             import it with this one",
            header::VERSION_VALUE,
            word(header::VERSION)
        ));
    }
    let checksum = CHECKSUM.checksum(&page[..header::CHECKSUM as usize]);
    if word(header::CHECKSUM) != u64::from(checksum) {
        return Err(format!(
            "the header is damaged: expected checksum {checksum:#010x}, found {:#x}",
            word(header::CHECKSUM)
        ));
    }
    if word(header::BYTE_ORDER) != header::BYTE_ORDER_VALUE {
        return Err(format!(
            "the header is damaged: expected {:#x} as the byte order, found {:#x}",
            header::BYTE_ORDER_VALUE,
            word(header::BYTE_ORDER)
        ));
    }
    if word(header::FINGERPRINT) != fingerprint() {
        return Err(format!(
            "expected layout {:#018x}, found {:#018x}: it was created by another build; export it \
             with that build and import it with this one",
            fingerprint(),
            word(header::FINGERPRINT)
        ));
    }
    let (shards, extents) = (word(header::SHARDS), word(header::EXTENTS));
    if !shards.is_power_of_two()
        || shards > SHARDS_MAX as u64
        || !(8..=EXTENTS_MAX).contains(&extents)
    {
        return Err(format!(
            "the header is damaged: {shards} shards and {extents} extents"
        ));
    }
    let ring_size = word(header::RING);
    if !ring_size.is_power_of_two() || !(ring::DATA_MIN..=ring::DATA_MAX).contains(&ring_size) {
        return Err(format!(
            "the header is damaged: a ring of {ring_size} bytes"
        ));
    }
    let layout = Layout::new(shards as usize, extents * EXTENT, ring_size);
    if word(header::FILE_LENGTH) != layout.file_length || length != layout.file_length {
        return Err(format!(
            "the file was truncated or has grown: expected {} bytes, found {length}",
            layout.file_length
        ));
    }
    let at = header::HASH_KEY;
    Ok((layout, [word(at), word(at + 8)]))
}

/// Returns a nonzero word that identifies this boot, computed from both halves of the kernel's boot
/// ID, or `None` if the ID is unavailable.
///
/// The ID is read once, because no process outlives its boot. It is cached without a lock, because
/// a child forked while another thread holds a lock would find it locked forever.
pub(crate) fn boot() -> Option<u64> {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let boot = boot_of(&platform::boot_id()?)?;
            KNOWN.store(boot, Ordering::Relaxed);
            Some(boot)
        }
        known => Some(known),
    }
}

/// Converts a boot ID, a UUID in text form, to a word.
fn boot_of(id: &[u8]) -> Option<u64> {
    let digits = id.iter().filter(|byte| byte.is_ascii_hexdigit());
    let text: String = digits.map(|&byte| char::from(byte)).collect();
    let half = |range| u64::from_str_radix(text.get(range)?, 16).ok();
    Some((half(0..16)? ^ half(16..32)?).max(1))
}
