//! Finds the `#!` line of a script or a library.

/// Returns the end of the first line as C code would find it: `None` if a zero byte precedes the
/// line feed.
pub(super) fn line_end(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|byte| matches!(byte, b'\n' | 0))?;
    (text[end] == b'\n').then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_with_a_zero_byte_has_no_end() {
        assert_eq!(line_end(b"#!lua\nreturn 1"), Some(5));
        assert_eq!(line_end(b"#!lua\0\nreturn 1"), None);
        assert_eq!(line_end(b"#!lua"), None);
    }
}
