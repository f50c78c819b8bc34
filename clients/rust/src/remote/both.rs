//! Contains what blocking and async connections have in common.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use undercroft_resp::Value;

use crate::address::Server;
use crate::error::{Error, Result};
use crate::message::Message;

/// Converts the error from a failed handshake.
pub(crate) fn not_accepted(server: &Server, error: Error) -> Error {
    let address = server.name.clone();
    match error {
        Error::Reply(text) => Error::Refused {
            address,
            reply: text.into(),
        },
        // A server that closes the connection before its first reply refuses connections.
        Error::Lost { source, .. } => Error::Connect { address, source },
        error => error,
    }
}

/// Returns the error for a connection that the server closed.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed it")
}

/// Returns the error for `rediss://` URLs in builds without the `tls` feature.
#[cfg(not(feature = "tls"))]
pub(crate) fn no_encryption() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "rediss:// needs the crate's feature `tls`",
    )
}

/// Returns whether neither data nor the end of the stream has arrived on a socket. Data on an
/// encrypted socket is ignored.
pub(crate) fn is_quiet(socket: impl AsFd, is_plain: bool) -> bool {
    let mut byte = [0];
    match recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, count)) => count > 0 && !is_plain,
        Err(error) => error == Errno::WOULDBLOCK,
    }
}

/// Fails unless a reply confirms a subscription.
pub(crate) fn check_confirmation(server: &Server, value: &Value) -> Result<()> {
    match value {
        Value::Array(_) | Value::Push(_) => Ok(()),
        Value::Error(text) => Err(Error::Refused {
            address: server.name.clone(),
            reply: String::from_utf8_lossy(text).into(),
        }),
        _ => {
            let text = "expected a confirmation of a subscription";
            Err(Error::protocol(&server.name, text))
        }
    }
}

/// Returns the message that a server sent, or `None` for any other value.
pub(crate) fn message(value: Value) -> Option<Message> {
    let (Value::Array(parts) | Value::Push(parts)) = value else {
        return None;
    };
    let mut parts = parts.into_iter().map(|part| match part {
        Value::Bulk(bytes) => Some(bytes),
        _ => None,
    });
    let kind = parts.next()??;
    let pattern = match &kind[..] {
        b"message" => None,
        b"pmessage" => Some(parts.next()??),
        _ => return None,
    };
    Some(Message {
        channel: parts.next()??,
        pattern,
        payload: parts.next()??,
    })
}
