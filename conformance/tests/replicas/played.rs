//! A replica that the test plays: it sends a recorded handshake, and keeps the bytes that it receives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use undercroft_conformance::client::Address;
use undercroft_conformance::resp::{Reply, read_reply};

/// The length of the mark that ends a data set.
const MARK: usize = 40;

/// A connection that has received a data set, and receives changes.
pub(crate) struct Played {
    input: BufReader<TcpStream>,
    /// The data set, as an RDB file.
    pub(crate) data: Vec<u8>,
}

impl Played {
    /// Sends words as a command, and returns the line of the reply.
    fn ask(input: &mut BufReader<TcpStream>, words: &[&str]) -> String {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        input
            .get_mut()
            .write_all(bytes.as_bytes())
            .expect("a connection");
        Played::line(input)
    }

    /// Returns the next line that is not empty.
    fn line(input: &mut BufReader<TcpStream>) -> String {
        loop {
            let mut line = String::new();
            input.read_line(&mut line).expect("a line");
            assert!(line.ends_with('\n'), "the connection has ended");
            if !line.trim().is_empty() {
                return line.trim().to_owned();
            }
        }
    }

    /// Sends the commands of a handshake, of which the last one is PSYNC or SYNC, and receives the data
    /// set.
    pub(crate) fn start(source: &Address, handshake: &[&[&str]]) -> Played {
        let Address::Tcp(address) = source else {
            panic!("{source} is no port");
        };
        let socket = TcpStream::connect(address).expect("it accepts");
        let patience = Some(Duration::from_secs(60));
        socket.set_read_timeout(patience).expect("a socket");
        let mut input = BufReader::new(socket);
        let (last, first) = handshake.split_last().expect("a request");
        for words in first {
            let reply = Played::ask(&mut input, words);
            assert!(reply.starts_with('+'), "{words:?}: {reply}");
        }
        let mut line = Played::ask(&mut input, last);
        if last[0] == "PSYNC" {
            assert!(line.starts_with("+FULLRESYNC "), "{line}");
            line = Played::line(&mut input);
        }
        let mut data = Vec::new();
        match line.strip_prefix("$EOF:") {
            Some(mark) => {
                assert_eq!(mark.len(), MARK);
                let mut byte = [0];
                while !data.ends_with(mark.as_bytes()) {
                    input.read_exact(&mut byte).expect("the data set");
                    data.push(byte[0]);
                }
                data.truncate(data.len() - MARK);
            }
            None => {
                let length = line.strip_prefix('$').expect("a length").parse();
                data.resize(length.expect("a length"), 0);
                input.read_exact(&mut data).expect("the data set");
            }
        }
        // The source sends changes once the replica acknowledges something.
        let ack = b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n";
        input.get_mut().write_all(ack).expect("a connection");
        Played { input, data }
    }

    /// Passes the commands of the stream to `apply`, up to the transaction that sets the key `last` to a
    /// value.
    pub(crate) fn take_until(&mut self, value: &str, apply: &mut dyn FnMut(&[Vec<u8>])) {
        let (mut is_over, mut depth) = (false, 0);
        while !is_over || depth > 0 {
            let words = self.next();
            match &words[0][..] {
                b"MULTI" => depth += 1,
                b"EXEC" => depth -= 1,
                b"SET" if words[1] == b"last" => is_over = words[2] == value.as_bytes(),
                _ => {}
            }
            apply(&words);
        }
    }

    /// Returns the next command of the stream.
    fn next(&mut self) -> Vec<Vec<u8>> {
        let Reply::Array(words) = read_reply(&mut self.input).expect("a command") else {
            panic!("expected a command");
        };
        words
            .iter()
            .map(|word| word.bytes().expect("a word").to_vec())
            .collect()
    }
}
