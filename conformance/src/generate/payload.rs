//! DUMP payloads, written independently of the product: RDB version 10.

/// The RDB version that Redis 7.0 writes, which is also the newest it accepts.
pub const RDB_VERSION: u16 = 10;

/// Returns the payload of a string value, uncompressed, as `RESTORE` accepts it.
pub fn string(value: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    match value.len() {
        short @ 0..=63 => out.push(short as u8),
        medium @ 64..=16383 => out.extend((0x4000 | medium as u16).to_be_bytes()),
        long => {
            out.push(0x80);
            out.extend((long as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(value);
    seal(out)
}

/// Appends the version and the checksum to a type byte and body.
pub fn seal(mut body: Vec<u8>) -> Vec<u8> {
    body.extend(RDB_VERSION.to_le_bytes());
    let sum = crc64(&body);
    body.extend(sum.to_le_bytes());
    body
}

/// Computes Redis' checksum: CRC-64/Jones, reflected, with an initial value of zero.
fn crc64(bytes: &[u8]) -> u64 {
    // The polynomial 0xad93d23594c935a9 with its bits reversed.
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    let mut crc = 0u64;
    for byte in bytes {
        crc ^= u64::from(*byte);
        for _ in 0..8 {
            let carry = crc & 1;
            crc >>= 1;
            if carry == 1 {
                crc ^= POLYNOMIAL;
            }
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_published_one() {
        // The check value for these digits, which Redis' own self-test prints.
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
