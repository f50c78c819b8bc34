//! The socket of a connection, with TLS or without it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::{ServerConfig, ServerConnection};

use crate::sockets::proxy::{Announced, Header};

/// The maximum number of bytes that wait to be encrypted or sent inside a TLS session. Further bytes
/// stay in the connection's own buffer, which has limits.
const UNSENT_MAX: usize = 64 * 1024;
/// The number of bytes that a TLS session reads at once, at most.
const READ_SIZE: usize = 4096;
/// The maximum number of such reads for one event.
const READS_MAX: usize = 16;
/// The reply to a client that does not encrypt on a port that expects TLS.
const NOT_ENCRYPTED: &[u8] = b"-ERR this port expects TLS: connect with rediss://, or with \
                               redis-cli --tls\r\n";

/// The socket of a connection.
pub struct Transport {
    socket: OwnedFd,
    /// The TLS session, or `None` for a connection without encryption.
    tls: Option<Box<ServerConnection>>,
    /// The header of a proxy, until it is complete and its content was taken.
    proxy: Option<Box<Header>>,
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many bytes have arrived. A TLS handshake or a part of a record arrives without any.
    Bytes(usize),
    /// The peer has closed its sending side.
    End,
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Transport {
    /// Takes an accepted socket. The peer must encrypt if there is a TLS configuration, and first send the
    /// header of a proxy if `is_proxied`.
    ///
    /// # Errors
    /// Fails if no TLS session can be created.
    pub fn new(
        socket: OwnedFd,
        tls: Option<Arc<ServerConfig>>,
        is_proxied: bool,
    ) -> io::Result<Transport> {
        let session = |config| {
            let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
            session.set_buffer_limit(Some(UNSENT_MAX));
            Ok::<_, io::Error>(Box::new(session))
        };
        Ok(Transport {
            socket,
            tls: tls.map(session).transpose()?,
            proxy: is_proxied.then(Box::default),
        })
    }

    /// Returns whether the connection is encrypted.
    #[inline]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns what a proxy has announced, once, when its header is complete.
    #[inline]
    pub(crate) fn take_announced(&mut self) -> Option<Announced> {
        let announced = self.proxy.as_ref()?.announced()?;
        self.proxy = None;
        Some(announced)
    }

    /// Returns whether the header of a proxy or the TLS handshake has not been completed.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.proxy.is_some() || self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Returns the certificate that the client has presented and that was verified, in DER form.
    pub(crate) fn client_certificate(&self) -> Option<&[u8]> {
        let presented = self.tls.as_ref()?.peer_certificates()?;
        presented.first().map(|first| &**first)
    }

    /// Returns whether encrypted bytes wait until the socket accepts more.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Appends bytes that have arrived to `input`, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived. Any other error means that the connection is broken.
    #[inline]
    pub fn receive(&mut self, input: &mut Vec<u8>) -> io::Result<Received> {
        if let Some(header) = &mut self.proxy
            && header.receive(&self.socket)?.is_none()
        {
            return Ok(Received::End);
        }
        if self.tls.is_some() {
            return self.receive_encrypted(input);
        }
        let buffer = rustix::buffer::spare_capacity(input);
        match recv(&self.socket, buffer, RecvFlags::DONTWAIT)? {
            (0, _) => Ok(Received::End),
            (bytes, _) => Ok(Received::Bytes(bytes)),
        }
    }

    /// Sends as many bytes as the socket accepts, or as a TLS session has room for. Returns the number
    /// of bytes, which may still be [unsent](Self::has_unsent).
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        if self.tls.is_some() {
            return self.send_encrypted(bytes);
        }
        send_some(&self.socket, bytes)
    }

    /// Sends encrypted bytes that the socket did not accept before.
    pub fn flush(&mut self) -> Result<(), Errno> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while tls.wants_write() {
            match tls.write_tls(&mut Raw(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(())
    }

    /// Announces the end of the connection to the peer, so that it can tell the end from a cut.
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The connection ends in any case.
            let _ = self.flush();
        }
    }

    #[cold]
    fn receive_encrypted(&mut self, input: &mut Vec<u8>) -> io::Result<Received> {
        let Transport { socket, tls, .. } = self;
        let Some(tls) = tls else {
            return Ok(Received::End);
        };
        let (mut bytes, mut has_ended) = (0, false);
        // A session takes a few kilobytes at once, so repeat this until the socket is empty, but not
        // for as long as the peer sends.
        for _ in 0..READS_MAX {
            let is_first = tls.is_handshaking();
            let arrived = match tls.read_tls(&mut Raw(socket)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && bytes > 0 => break,
                arrived => arrived?,
            };
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The connection ends, also if the peer cannot be told the reason: as an alert,
                    // or as text if it does not encrypt.
                    let _ = match is_first && matches!(error, rustls::Error::InvalidMessage(_)) {
                        true => send_some(socket, NOT_ENCRYPTED).map(drop),
                        false => self.flush(),
                    };
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            };
            // All of it must be read now: no event announces bytes that are decrypted already.
            let more = state.plaintext_bytes_to_read();
            if more > 0 {
                let before = input.len();
                input.resize(before + more, 0);
                tls.reader().read_exact(&mut input[before..])?;
            }
            bytes += more;
            has_ended = arrived == 0 || state.peer_has_closed();
            if has_ended || arrived < READ_SIZE {
                break;
            }
        }
        self.flush()?;
        match has_ended && bytes == 0 {
            true => Ok(Received::End),
            false => Ok(Received::Bytes(bytes)),
        }
    }

    #[cold]
    fn send_encrypted(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut taken = 0;
        loop {
            self.flush()?;
            let Some(tls) = &mut self.tls else {
                return Ok(taken);
            };
            if taken == bytes.len() {
                return Ok(taken);
            }
            let more = tls.writer().write(&bytes[taken..]);
            match more.map_err(|error| errno(&error))? {
                // The socket does not accept what the session holds.
                0 if taken == 0 => return Err(Errno::AGAIN),
                0 => return Ok(taken),
                more => taken += more,
            }
        }
    }
}

fn send_some(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// A socket as TLS reads and writes it, without waiting.
struct Raw<'s>(&'s OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (bytes, _) = recv(self.0, buffer, RecvFlags::DONTWAIT)?;
        Ok(bytes)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send_some(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
