//! A deliberately faulty server: a proxy to a real Redis that alters a few commands. The judge must
//! detect each of these faults.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::client::Address;
use crate::command::Command;
use crate::resp;

/// A fault that the proxy introduces.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// A human-readable description of the fault.
    pub name: &'static str,
    /// Rewrites the command or leaves it unchanged.
    rewrite: fn(&mut Command),
    /// The text to replace in replies, and a replacement of equal length.
    reply: Option<(&'static [u8], &'static [u8])>,
}

/// One fault of each important kind: a wrong reply, wrong data despite a correct reply, a wrong
/// expiry, a wrong error text, and a lost connection.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "GETEX PERSIST keeps the expiry",
        rewrite: |c| {
            if c.word(0) == "GETEX" && c.word(2) == "PERSIST" && c.0.len() == 3 {
                c.0.truncate(2);
            }
        },
        reply: None,
    },
    Fault {
        name: "UNLINK counts but does not remove",
        rewrite: |c| {
            if c.word(0) == "UNLINK" && c.0.len() > 1 {
                c.0[0] = b"EXISTS".to_vec();
            }
        },
        reply: None,
    },
    Fault {
        name: "EXPIRE ignores GT",
        rewrite: |c| {
            if c.word(0) == "EXPIRE" && c.word(3) == "GT" && c.0.len() == 4 {
                c.0.truncate(3);
            }
        },
        reply: None,
    },
    Fault {
        name: "SETRANGE pads with one byte too many",
        rewrite: |c| {
            if c.word(0) == "SETRANGE" && c.word(2) == "7" {
                c.0[2] = b"8".to_vec();
            }
        },
        reply: None,
    },
    Fault {
        name: "an error text is misspelt",
        rewrite: |_| (),
        reply: Some((b"syntax error", b"Syntax error")),
    },
    Fault {
        name: "INCRBYFLOAT ends the connection at a NaN",
        rewrite: |c| {
            if c.word(0) == "INCRBYFLOAT" && c.word(2) == "NAN" {
                *c = Command::of(["QUIT"]);
            }
        },
        reply: None,
    },
];

/// Makes keys exist ten times as long as PX specifies. Random runs never wait, so only the test of
/// real expiry can detect this fault.
pub const SLOW_CLOCK: Fault = Fault {
    name: "PX counts in hundredths of a second",
    rewrite: |c| {
        if c.word(3) == "PX" && c.0.len() == 5 {
            c.0[4].push(b'0');
        }
    },
    reply: None,
};

/// Starts the proxy on a free port, where it serves until the process ends.
///
/// # Errors
/// Returns an error if no port can be bound, or if `behind` is not a TCP address.
pub fn start(behind: &Address, fault: Fault) -> Result<Address> {
    let Address::Tcp(behind) = behind.clone() else {
        bail!("expected a TCP address behind the proxy, got {behind}");
    };
    let listener = TcpListener::bind("127.0.0.1:0").context("binding the proxy")?;
    let address = Address::Tcp(listener.local_addr()?.to_string());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let behind = behind.clone();
            thread::spawn(move || {
                // If either connection breaks, both end without an error report.
                let _ = serve(client, &behind, fault);
            });
        }
    });
    Ok(address)
}

fn serve(client: TcpStream, behind: &str, fault: Fault) -> io::Result<()> {
    let server = TcpStream::connect(behind)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut replies, mut to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = replies.read(&mut buffer) {
            let bytes = &mut buffer[..count];
            if let Some((from, to)) = fault.reply {
                replace(bytes, from, to);
            }
            if to_client.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let mut commands = BufReader::with_capacity(1 << 16, client);
    let mut server = server;
    let mut out = Vec::new();
    loop {
        let command = read_command(&mut commands);
        if let Ok(mut command) = command {
            (fault.rewrite)(&mut command);
            resp::write_command(&mut out, &command.0)?;
        } else {
            server.write_all(&out)?;
            return server.shutdown(Shutdown::Write);
        }
        if commands.buffer().is_empty() || out.len() > 1 << 16 {
            server.write_all(&out)?;
            out.clear();
        }
    }
}

fn read_command(from: &mut BufReader<TcpStream>) -> io::Result<Command> {
    let reply = resp::read_reply(from)?;
    let words = reply.items().unwrap_or_default().iter();
    Ok(Command(
        words
            .filter_map(|w| w.bytes().map(<[u8]>::to_vec))
            .collect(),
    ))
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let mut start = 0;
    while let Some(found) = bytes[start..].windows(from.len()).position(|w| w == from) {
        let place = start + found;
        bytes[place..place + to.len()].copy_from_slice(to);
        start = place + to.len();
    }
}
