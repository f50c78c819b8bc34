//! A command as a list of byte strings, and its notation as a redis-cli line.

use std::fmt;

use anyhow::{Context, Result, bail};

/// A binary-safe command: its name and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command(pub Vec<Vec<u8>>);

impl Command {
    /// Creates a command from text arguments: `Command::of(["SET", "k", "v"])`.
    pub fn of<A: AsRef<[u8]>>(args: impl IntoIterator<Item = A>) -> Self {
        Command(args.into_iter().map(|a| a.as_ref().to_vec()).collect())
    }

    /// Parses a line as redis-cli does. In addition, `"x"*100` represents repeated bytes.
    ///
    /// # Errors
    /// Returns an error for unbalanced quotes or an escape that redis-cli does not support.
    pub fn parse(line: &str) -> Result<Self> {
        Ok(Command(split_line(line)?))
    }

    /// Returns argument `i` in upper case, or an empty string if the command has no such argument.
    pub fn word(&self, i: usize) -> String {
        let arg = self.0.get(i).map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(arg).to_uppercase()
    }

    /// Returns the total number of bytes of all arguments.
    pub fn size(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            f.write_str(&quote(arg, false))?;
        }
        Ok(())
    }
}

/// Returns the bytes as a redis-cli word. Harmless words stay unquoted unless `always` is set. All
/// other words are double-quoted with `\xHH` escapes. A value that consists of at least 200 equal
/// bytes is written as `"x"*200`.
pub fn quote(bytes: &[u8], always: bool) -> String {
    if bytes.len() >= 200 && bytes.iter().all(|b| *b == bytes[0]) {
        return format!("{}*{}", quote(&bytes[..1], true), bytes.len());
    }
    let harmless = |b: &u8| b.is_ascii_alphanumeric() || b"_-.:+,/@%^{}[]?()<>=!~#".contains(b);
    if !always && !bytes.is_empty() && bytes.iter().all(harmless) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &b in bytes {
        match b {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x20..=0x7e => out.push(char::from(b)),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out.push('"');
    out
}

/// Splits a line into words, the inverse of [`quote`].
///
/// # Errors
/// Returns an error for unbalanced quotes or an escape that redis-cli does not support.
pub fn split_line(line: &str) -> Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_matches([' ', '\t']);
    while !rest.is_empty() {
        let (word, tail) = split_word(rest).with_context(|| format!("in line: {line}"))?;
        words.push(word);
        rest = tail.trim_start();
    }
    Ok(words)
}

/// Splits one word, quoted or bare, off the start of the text.
pub(crate) fn split_word(text: &str) -> Result<(Vec<u8>, &str)> {
    if !text.starts_with('"') {
        let end = text.find([' ', '\t']).unwrap_or(text.len());
        let (word, tail) = text.split_at(end);
        return Ok((word.as_bytes().to_vec(), tail));
    }
    let bytes = text.as_bytes();
    let mut word = Vec::new();
    let mut i = 1;
    loop {
        match bytes.get(i) {
            None => bail!("expected a closing double quote, got the end of the line"),
            Some(b'"') => break,
            Some(b'\\') => {
                i += 1;
                match bytes.get(i) {
                    Some(b'n') => word.push(b'\n'),
                    Some(b'r') => word.push(b'\r'),
                    Some(b't') => word.push(b'\t'),
                    Some(b'x') => {
                        let hex = text.get(i + 1..i + 3).unwrap_or_default();
                        let byte = u8::from_str_radix(hex, 16)
                            .with_context(|| format!("expected two hex digits, got '{hex}'"))?;
                        word.push(byte);
                        i += 2;
                    }
                    Some(&b @ (b'"' | b'\\')) => word.push(b),
                    other => bail!("expected an escape n r t x \" or \\, got {other:?}"),
                }
            }
            Some(&b) => word.push(b),
        }
        i += 1;
    }
    let mut tail = &text[i + 1..];
    if let Some(count) = tail.strip_prefix('*') {
        let end = count.find([' ', '\t']).unwrap_or(count.len());
        let times: usize = count[..end]
            .parse()
            .with_context(|| format!("expected a repeat count, got '{}'", &count[..end]))?;
        word = word.repeat(times);
        tail = &count[end..];
    }
    if !tail.is_empty() && !tail.starts_with([' ', '\t']) {
        bail!("expected a space after the closing quote, got '{tail}'");
    }
    Ok((word, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_reads_back() {
        let all: Vec<u8> = (0..=255).collect();
        for args in [
            vec![b"SET".to_vec(), all, Vec::new()],
            vec![
                b"a b".to_vec(),
                b"\"\\".to_vec(),
                vec![b'x'; 500],
                b"k*".to_vec(),
            ],
        ] {
            let command = Command(args);
            let printed = command.to_string();
            assert_eq!(Command::parse(&printed).unwrap(), command, "{printed}");
        }
    }

    #[test]
    fn unbalanced_quotes_and_unknown_escapes_are_refused() {
        for bad in [
            "SET \"k",
            "SET \"k\\q\"",
            "SET \"k\"v",
            "SET \"\\x1\"",
            "\"a\"*b",
        ] {
            assert!(Command::parse(bad).is_err(), "{bad}");
        }
    }
}
