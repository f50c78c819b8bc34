//! Sends requests to other servers, for MIGRATE.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use undercroft_resp::{ReplyLimits, ReplyReader, Value, encode};

/// The number of bytes to read at once.
const READ: usize = 16 << 10;

/// Sends commands and returns the errors. See `Control::exchange`.
pub(super) fn exchange(
    (host, port): (&str, u16),
    timeout: Duration,
    commands: &[Vec<Vec<u8>>],
) -> Result<Vec<Option<String>>, String> {
    let mut request = Vec::new();
    for command in commands {
        encode::command(&mut request, command);
    }
    let failed = |step: &str| {
        let text = format!("IOERR error or timeout {step} {host}:{port}");
        move |error: io::Error| format!("{text}: {error}")
    };
    let mut socket = connect((host, port), timeout).map_err(failed("connecting to"))?;
    socket.write_all(&request).map_err(failed("writing to"))?;
    let (mut errors, mut reader) = (Vec::new(), ReplyReader::new(ReplyLimits::default()));
    let mut buffer = vec![0; READ];
    while errors.len() < commands.len() {
        let read = socket.read(&mut buffer).map_err(failed("reading from"))?;
        if read == 0 {
            let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(failed("reading from")(ended));
        }
        let mut input = &buffer[..read];
        while let Some(reply) = reader
            .read(&mut input)
            .map_err(|error| failed("reading from")(io::Error::other(format!("{error:?}"))))?
        {
            errors.push(match reply {
                Value::Error(text) => Some(String::from_utf8_lossy(&text).into_owned()),
                _ => None,
            });
        }
    }
    Ok(errors)
}

fn connect(server: (&str, u16), timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => {
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
