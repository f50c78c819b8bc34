//! The payload of FUNCTION DUMP and FUNCTION RESTORE: the text of each function library after a
//! marker byte, followed by the footer that all payloads have.

use super::input::Input;
use super::output::Output;
use super::payload::{seal, verify};

/// The marker byte of a library in Redis 7.0 and later.
const LIBRARY: u8 = 245;
/// The marker byte of a library in prereleases of Redis 7.0.
const LIBRARY_OF_OLD: u8 = 246;

/// Returns the payload for libraries with the given texts. O(bytes).
pub fn dump_libraries<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut out = Output::default();
    for text in texts {
        out.kind(LIBRARY);
        out.string(text);
    }
    seal(out.into_bytes())
}

/// Returns the texts of the libraries in a payload. Each text can be at most `limit` bytes long.
///
/// # Errors
/// Returns Redis' error reply if the payload is invalid.
pub fn restore_libraries(payload: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, &'static str> {
    let body = verify(payload).map_err(|why| why.message())?;
    let mut input = Input::new(body, limit);
    let mut texts = Vec::new();
    while let Some([kind]) = input.take() {
        match kind {
            LIBRARY => {}
            LIBRARY_OF_OLD => return Err("ERR Pre-GA function format not supported"),
            _ => return Err("ERR given type is not a function"),
        }
        let text = input
            .string()
            .ok_or("ERR Failed loading library code")?
            .into_owned();
        texts.push(text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumped_libraries_are_restored_and_damage_is_detected() {
        let texts: [&[u8]; 3] = [b"#!lua name=a\nreturn 1", b"", &[b'x'; 1000]];
        let payload = dump_libraries(texts.iter().copied());
        let restored = restore_libraries(&payload, 1 << 20).expect("a sound payload");
        assert_eq!(restored, texts.map(<[u8]>::to_vec));
        assert!(restore_libraries(&payload, 999).is_err());
        for at in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[at] ^= 1;
            assert!(restore_libraries(&damaged, 1 << 20).is_err(), "byte {at}");
        }
        for (kind, why) in [(246, "Pre-GA"), (0, "not a function"), (245, "loading")] {
            let refused = restore_libraries(&seal(vec![kind]), 1 << 20);
            assert!(refused.is_err_and(|text| text.contains(why)), "{kind}");
        }
    }
}
