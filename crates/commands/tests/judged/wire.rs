//! Implements a minimal reply encoder. The real server has a faster one.

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_numbers::double_text;

/// A reply encoder for both protocols.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) out: Vec<u8>,
    pub(crate) protocol: Protocol,
}

impl Wire {
    fn is_new(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    fn line(&mut self, marker: char, text: &str) {
        self.out.extend(format!("{marker}{text}\r\n").bytes());
    }

    fn block(&mut self, marker: char, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.line(marker, &length.to_string());
        parts.iter().for_each(|part| self.out.extend(*part));
        self.out.extend(b"\r\n");
    }

    fn header(&mut self, marker: char, length: usize) {
        let marker = if self.is_new() { marker } else { '*' };
        self.line(marker, &length.to_string());
    }
}

impl Reply for Wire {
    fn simple(&mut self, text: &str) {
        self.line('+', text);
    }
    fn error(&mut self, text: &str) {
        self.line('-', text);
    }
    fn error_bytes(&mut self, text: &[u8]) {
        self.out.extend([b"-", text, b"\r\n"].concat());
    }
    fn integer(&mut self, value: i64) {
        self.line(':', &value.to_string());
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.block('$', &[bytes]);
    }
    fn null(&mut self) {
        let text: &[u8] = if self.is_new() { b"_\r\n" } else { b"$-1\r\n" };
        self.out.extend(text);
    }
    fn null_array(&mut self) {
        let text: &[u8] = if self.is_new() { b"_\r\n" } else { b"*-1\r\n" };
        self.out.extend(text);
    }
    fn array(&mut self, length: usize) {
        self.header('*', length);
    }
    fn map(&mut self, pairs: usize) {
        let length = if self.is_new() { pairs } else { pairs * 2 };
        self.header('%', length);
    }
    fn set(&mut self, length: usize) {
        self.header('~', length);
    }
    fn push(&mut self, length: usize) {
        self.header('>', length);
    }
    fn double(&mut self, value: f64) {
        let text = double_text(value);
        if self.is_new() {
            self.line(',', text.as_str());
        } else {
            self.bulk(&text);
        }
    }
    fn decimal(&mut self, digits: &str) {
        if self.is_new() {
            self.line(',', digits);
        } else {
            self.bulk(digits.as_bytes());
        }
    }
    fn boolean(&mut self, value: bool) {
        if self.is_new() {
            self.line('#', if value { "t" } else { "f" });
        } else {
            self.integer(value.into());
        }
    }
    fn big_number(&mut self, digits: &str) {
        if self.is_new() {
            self.line('(', digits);
        } else {
            self.bulk(digits.as_bytes());
        }
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        if self.is_new() {
            self.block('=', &[format.as_bytes(), b":", text]);
        } else {
            self.bulk(text);
        }
    }
    fn protocol(&mut self, version: Protocol) {
        self.protocol = version;
    }
}
