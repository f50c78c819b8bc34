//! The footer of a payload, which contains the RDB version and the checksum.

use crc::{CRC_64_REDIS, Crc, Table};

/// The RDB version of Redis 7.0, which is written to payloads. Payloads with a newer version are
/// rejected.
const RDB_VERSION: u16 = 10;
/// The size of the footer in bytes: the version and the checksum.
const FOOTER: usize = 10;

static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The reason a payload was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The payload is too short, damaged, or has a newer RDB version.
    VersionOrChecksum,
    /// The payload contains no value that the store supports.
    BadFormat,
}

impl RestoreError {
    /// Returns the error reply that Redis sends for this error.
    pub fn message(self) -> &'static str {
        match self {
            RestoreError::VersionOrChecksum => "ERR DUMP payload version or checksum are wrong",
            RestoreError::BadFormat => "ERR Bad data format",
        }
    }
}

/// Appends the footer: the version that DUMP writes, and the checksum.
pub(crate) fn seal(payload: Vec<u8>) -> Vec<u8> {
    seal_as(payload, RDB_VERSION)
}

/// Appends the footer: a version and the checksum.
pub(crate) fn seal_as(mut payload: Vec<u8>, version: u16) -> Vec<u8> {
    payload.extend(version.to_le_bytes());
    let checksum = CHECKSUM.checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// Checks the version and the checksum of a payload. Returns the payload without the footer.
pub(crate) fn verify(payload: &[u8]) -> Result<&[u8], RestoreError> {
    let wrong = RestoreError::VersionOrChecksum;
    let (body, footer) = payload
        .split_at_checked(payload.len().wrapping_sub(FOOTER))
        .ok_or(wrong)?;
    let [low, high, checksum @ ..] = footer else {
        return Err(wrong);
    };
    let checked = &payload[..body.len() + 2];
    let sound = u16::from_le_bytes([*low, *high]) <= RDB_VERSION
        && *checksum == CHECKSUM.checksum(checked).to_le_bytes();
    if sound { Ok(body) } else { Err(wrong) }
}
