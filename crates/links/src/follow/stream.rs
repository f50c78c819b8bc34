//! A connection over TCP, TLS or a unix socket.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::follow::source_url::Address;

/// How long a connection attempt may take.
const CONNECTING: Duration = Duration::from_secs(10);

/// A connection. Reads and writes wait at most as long as [`set_timeout`](Self::set_timeout) says.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Unix(UnixStream),
}

impl Stream {
    /// Connects to a server.
    pub(super) fn connect(address: &Address, is_encrypted: bool) -> io::Result<Stream> {
        let (host, port) = match address {
            Address::Unix(path) => return Ok(Stream::Unix(UnixStream::connect(path)?)),
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        let mut failed = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECTING) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return match is_encrypted {
                        false => Ok(Stream::Tcp(stream)),
                        true => encrypted(stream, host),
                    };
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Limits the duration of reads and writes.
    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout);
        match self {
            Stream::Tcp(stream) => stream
                .set_read_timeout(timeout)
                .and_then(|()| stream.set_write_timeout(timeout)),
            Stream::Tls(stream) => stream
                .sock
                .set_read_timeout(timeout)
                .and_then(|()| stream.sock.set_write_timeout(timeout)),
            Stream::Unix(stream) => stream
                .set_read_timeout(timeout)
                .and_then(|()| stream.set_write_timeout(timeout)),
        }
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        // The other side may have ended it before.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tls(stream) => stream.sock.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// Encrypts a connection. The server's certificate must be valid for the host, according to the
/// system's certificate authorities.
fn encrypted(stream: TcpStream, host: &str) -> io::Result<Stream> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(Stream::Tls(Box::new(StreamOwned::new(connection, stream))))
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
            Stream::Unix(stream) => stream.flush(),
        }
    }
}
