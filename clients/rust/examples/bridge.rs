//! Runs the commands of connections with a [`Session`](undercroft::Session) each, so that the
//! conformance cases test this client.
//!
//! ```text
//! cargo run -p undercroft-conformance -- through conformance/clients/rust.txt \
//!     target/debug/examples/bridge
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use undercroft::{Error, Reply, Store};

/// Reads a line without its end.
fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let length = input.read_line(&mut line)?;
    Ok((length > 0).then(|| line.trim_end().to_owned()))
}

fn number(line: &str) -> io::Result<usize> {
    let digits = line.get(1..).and_then(|digits| digits.parse().ok());
    digits.ok_or_else(|| io::Error::other(format!("expected a length, got {line}")))
}

/// Reads a command, an array of bulk strings. Returns `None` at the end of the connection.
fn command(input: &mut impl BufRead) -> io::Result<Option<Vec<Vec<u8>>>> {
    let Some(first) = line(input)? else {
        return Ok(None);
    };
    let mut words = Vec::new();
    for _ in 0..number(&first)? {
        let length = line(input)?.unwrap_or_default();
        let mut word = vec![0; number(&length)? + 2];
        input.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(Some(words))
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn list<'r>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = &'r Reply>) {
    out.extend_from_slice(format!("*{}\r\n", items.len()).as_bytes());
    items.for_each(|item| write(out, item));
}

/// Writes a reply in RESP2.
fn write(out: &mut Vec<u8>, reply: &Reply) {
    let lined = |out: &mut Vec<u8>, start: char, text: &[u8]| {
        out.push(start as u8);
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    match reply {
        Reply::Nil => lined(out, '$', b"-1"),
        Reply::Status(text) => lined(out, '+', text),
        Reply::Integer(number) => lined(out, ':', number.to_string().as_bytes()),
        Reply::Boolean(value) => lined(out, ':', if *value { b"1" } else { b"0" }),
        Reply::Bytes(bytes) | Reply::BigNumber(bytes) => bulk(out, bytes),
        Reply::Double(value) => bulk(out, value.to_string().as_bytes()),
        Reply::Error(text) => lined(out, '-', text.as_bytes()),
        Reply::Array(items) | Reply::Set(items) => list(out, items.iter()),
        Reply::Map(pairs) => {
            let parts: Vec<&Reply> = pairs.iter().flat_map(|(key, value)| [key, value]).collect();
            list(out, parts.into_iter());
        }
        other => panic!("expected a known reply, got {other:?}"),
    }
}

/// Returns the error text that a server would send.
fn text(error: &Error) -> String {
    match error {
        Error::Reply(text) => text.to_string(),
        other => format!("ERR {other}"),
    }
}

fn serve(store: &Store, stream: UnixStream) -> io::Result<()> {
    let mut output = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    let mut session = store.session();
    session.command(["HELLO", "2"]).expect("RESP2");
    while let Some(words) = command(&mut input)? {
        let reply = match session.command(&words) {
            Ok(reply) => reply,
            Err(error) => Reply::Error(text(&error)),
        };
        let mut out = Vec::new();
        write(&mut out, &reply);
        output.write_all(&out)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, socket] = &arguments[..] else {
        return Err("expected the paths of a store and of a socket".into());
    };
    let store = Store::open_path(path)?;
    for stream in UnixListener::bind(socket)?.incoming() {
        let (store, stream) = (store.clone(), stream?);
        thread::spawn(move || serve(&store, stream));
    }
    Ok(())
}
