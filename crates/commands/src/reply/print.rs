//! Prints a reply as redis-cli does on a terminal.
//!
//! Scalars are printed with their type (`(integer) 1`, `"text"`). The items of aggregates are
//! numbered, and nested aggregates are indented by the width of the number. `print` prints the maps
//! and sets of a RESP3 tree as maps and sets. To print what a RESP2 session shows, call
//! [`Tree::into_resp2`] first.

use std::fmt::Write as _;

use undercroft_numbers::double_text;

use crate::reply::Tree;

/// Returns the text that redis-cli 7.0 prints on a terminal for this reply, including the final
/// line break.
///
/// The result is a byte string instead of a `str`, because verbatim text is printed unchanged. Time
/// and memory are proportional to the length of the output. The recursion depth equals the nesting
/// depth of the reply, which handlers limit to a few levels.
pub fn print(reply: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    append(reply, "", &mut out);
    out
}

/// Appends `bytes` in double quotes, escaping all unprintable bytes like Redis' `sdscatrepr`.
pub(crate) fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            0x20..=0x7e => out.push(byte),
            _ => out.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    out.push(b'"');
}

fn append(reply: &Tree, prefix: &str, out: &mut Vec<u8>) {
    match reply {
        Tree::Simple(text) => {
            out.extend(text);
            out.push(b'\n');
        }
        Tree::Error(text) => line(out, &format!("(error) {text}")),
        Tree::Integer(value) => line(out, &format!("(integer) {value}")),
        Tree::Bulk(bytes) => {
            quote(bytes, out);
            out.push(b'\n');
        }
        Tree::Null | Tree::NullArray => line(out, "(nil)"),
        Tree::Double(value) => line(out, &format!("(double) {}", double_text(*value))),
        Tree::Boolean(value) => line(out, if *value { "(true)" } else { "(false)" }),
        Tree::Decimal(digits) => line(out, &format!("(double) {digits}")),
        Tree::BigNumber(digits) => line(out, digits),
        Tree::Verbatim { text, .. } => {
            out.extend(text);
            out.push(b'\n');
        }
        Tree::Array(items) => numbered(items, "(empty array)", ')', prefix, out),
        Tree::Set(items) => numbered(items, "(empty set)", '~', prefix, out),
        Tree::Push(items) => numbered(items, "(empty push)", ')', prefix, out),
        Tree::Map(pairs) => {
            if pairs.is_empty() {
                return line(out, "(empty hash)");
            }
            let list = Numbering::new(pairs.len(), '#', prefix);
            for (index, (key, value)) in pairs.iter().enumerate() {
                list.number(index, out);
                append(key, &list.inner, out);
                // Replace the line break after the key with the arrow.
                out.pop();
                out.extend(b" => ");
                if is_listed(value) {
                    out.push(b'\n');
                    out.extend(list.inner.bytes());
                }
                append(value, &list.inner, out);
            }
        }
    }
}

/// Returns whether a map's value starts on a new line below its key. This is the case if the value
/// contains a list of more than one item.
fn is_listed(value: &Tree) -> bool {
    match value {
        Tree::Array(items) | Tree::Set(items) | Tree::Push(items) => {
            items.len() > 1 || items.iter().any(is_listed)
        }
        Tree::Map(pairs) => pairs.len() > 1 || pairs.iter().any(|(_, value)| is_listed(value)),
        _ => false,
    }
}

fn line(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes());
    out.push(b'\n');
}

fn numbered(items: &[Tree], empty: &str, mark: char, prefix: &str, out: &mut Vec<u8>) {
    if items.is_empty() {
        return line(out, empty);
    }
    let list = Numbering::new(items.len(), mark, prefix);
    for (index, item) in items.iter().enumerate() {
        list.number(index, out);
        append(item, &list.inner, out);
    }
}

/// The numbering of an aggregate's items. Numbers are right-aligned, and every line except the
/// first begins with the prefix of the enclosing aggregate.
struct Numbering<'a> {
    width: usize,
    mark: char,
    prefix: &'a str,
    /// The line prefix for nested aggregates.
    inner: String,
}

impl<'a> Numbering<'a> {
    fn new(count: usize, mark: char, prefix: &'a str) -> Self {
        let width = count.to_string().len();
        Numbering {
            width,
            mark,
            prefix,
            inner: format!("{prefix}{:1$}", "", width + 2),
        }
    }

    fn number(&self, index: usize, out: &mut Vec<u8>) {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{:1$}{2} ", index + 1, self.width, self.mark);
        if index > 0 {
            out.extend(self.prefix.bytes());
        }
        out.extend(text.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Tree {
        Tree::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn nested_arrays_align() {
        let mut items = vec![Tree::Array(vec![bulk("a"), Tree::Null]); 2];
        items.extend(vec![Tree::Integer(1); 8]);
        let text = print(&Tree::Array(items));
        let text = String::from_utf8(text).expect("ASCII");
        assert!(
            text.starts_with(" 1) 1) \"a\"\n    2) (nil)\n 2) 1) \"a\"\n"),
            "{text}"
        );
        assert!(text.ends_with("10) (integer) 1\n"), "{text}");
    }

    #[test]
    fn maps_show_arrows_and_flatten_for_resp2() {
        let map = Tree::Map(vec![(bulk("k\n\x01"), bulk("v"))]);
        assert_eq!(print(&map), b"1# \"k\\n\\x01\" => \"v\"\n");
        assert_eq!(print(&map.into_resp2()), b"1) \"k\\n\\x01\"\n2) \"v\"\n");
    }
}
