//! Generates values with checksums, which reveal torn values.
//!
//! ```text
//! a text of checksum and content:  | CRC-32 of key and content, 8 hex digits | content |
//! an appended text:                records of 16: | 8 random hex digits | CRC-32 of key and these |
//! ```

/// The size, in bytes, of one record of an appended string.
pub const RECORD: usize = 16;

fn checksum(key: &[u8], content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(content);
    hasher.finalize()
}

/// Returns a value of `length` bytes (at least 8) for a key: a checksum followed by random content.
pub fn sealed(key: &[u8], length: usize, random: &mut fastrand::Rng) -> Vec<u8> {
    let mut content = vec![0; length.saturating_sub(8)];
    random.fill(&mut content);
    let mut value = format!("{:08x}", checksum(key, &content)).into_bytes();
    value.append(&mut content);
    value
}

/// Checks that a value contains the checksum that [`sealed`] computed for this key.
pub fn check_sealed(key: &[u8], value: &[u8]) -> Result<(), String> {
    let torn = || {
        format!(
            "a torn value of {} bytes in {}",
            value.len(),
            String::from_utf8_lossy(key)
        )
    };
    let (seal, content) = value.split_at_checked(8).ok_or_else(torn)?;
    if seal == format!("{:08x}", checksum(key, content)).as_bytes() {
        Ok(())
    } else {
        Err(torn())
    }
}

/// Returns a record to append to a key's string.
pub fn record(key: &[u8], random: &mut fastrand::Rng) -> [u8; RECORD] {
    let head = format!("{:08x}", random.u32(..));
    let text = format!("{head}{:08x}", checksum(key, head.as_bytes()));
    text.as_bytes().try_into().expect("sixteen digits")
}

/// Checks that a value is a sequence of the key's [`record`]s.
pub fn check_records(key: &[u8], value: &[u8]) -> Result<(), String> {
    let torn = |at: usize| {
        format!(
            "a torn record at {at} of {} bytes in {}",
            value.len(),
            String::from_utf8_lossy(key)
        )
    };
    for (index, record) in value.chunks(RECORD).enumerate() {
        let (head, sum) = record
            .split_at_checked(8)
            .ok_or_else(|| torn(index * RECORD))?;
        if sum != format!("{:08x}", checksum(key, head)).as_bytes() {
            return Err(torn(index * RECORD));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_or_a_wrong_key_is_detected() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut value = sealed(b"key", 100, &mut random);
        assert_eq!(check_sealed(b"key", &value), Ok(()));
        assert!(check_sealed(b"other", &value).is_err());
        assert!(check_sealed(b"key", &value[..99]).is_err());
        assert!(check_sealed(b"key", b"short").is_err());
        value[50] ^= 1;
        assert!(check_sealed(b"key", &value).is_err());
        let mut text = [record(b"key", &mut random), record(b"key", &mut random)].concat();
        assert_eq!(check_records(b"key", &text), Ok(()));
        assert!(check_records(b"key", &text[..24]).is_err());
        assert!(check_records(b"other", &text).is_err());
        text[20] ^= 1;
        assert!(check_records(b"key", &text).is_err());
    }
}
