//! A connection over TCP, TLS or a unix socket.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::follow::source_url::{Address, TlsFiles};

/// How long a connection attempt may take.
const CONNECTING: Duration = Duration::from_secs(10);

/// The authorities that may certify a server, and the certificate of the client, if it has one.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration contains a private key.
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Trusts these authorities. `client` is the certificate, with those of its authorities, and the
    /// key with which the client identifies itself to a server that asks.
    ///
    /// # Errors
    /// Returns an error if the key does not belong to the certificate.
    pub fn new(
        authorities: RootCertStore,
        client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> io::Result<Tls> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(authorities);
        let config = match client {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(io::Error::other)?,
        };
        Ok(Tls(Arc::new(config)))
    }

    /// Returns the certificate authorities of the system, or those that the environment variables
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    pub fn authorities_of_system() -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    }

    /// Reads the files that a URL comes with.
    fn of_files(files: &TlsFiles) -> io::Result<Tls> {
        let failed = |path: &std::path::Path, error: &dyn fmt::Display| {
            io::Error::new(
                ErrorKind::InvalidInput,
                format!("{}: {error}", path.display()),
            )
        };
        let certificates = |path: &std::path::Path| -> io::Result<Vec<CertificateDer<'static>>> {
            let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
            let found: Vec<_> = found.map_err(|error| failed(path, &error))?;
            match found.is_empty() {
                true => Err(failed(path, &"contains no certificate in PEM form")),
                false => Ok(found),
            }
        };
        let authorities = match &files.authorities {
            None => Tls::authorities_of_system(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(path)?);
                roots
            }
        };
        let client = match &files.client {
            None => None,
            Some((chain, key)) => {
                let private = PrivateKeyDer::from_pem_file(key);
                let private = private.map_err(|error| failed(key, &error))?;
                Some((certificates(chain)?, private))
            }
        };
        Tls::new(authorities, client)
    }
}

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug)]
pub enum Encryption<'a> {
    /// The connection is not encrypted.
    None,
    /// Files name the authorities and the client's certificate.
    Files(&'a TlsFiles),
    /// The authorities and the client's certificate have been read.
    Tls(&'a Tls),
}

/// A connection to a server. Reads and writes wait at most as long as
/// [`set_timeout`](Self::set_timeout) says.
#[derive(Debug)]
pub enum Stream {
    /// TCP without encryption.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// A unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Connects to a server. A connection to a unix socket is never encrypted. The certificate of a
    /// server must be valid for the host.
    ///
    /// # Errors
    /// Returns an error if no address of the host accepts a connection within 10 seconds, or if a file
    /// of certificates cannot be used. Certificates are checked by the first read or write.
    pub fn connect(address: &Address, encryption: Encryption<'_>) -> io::Result<Stream> {
        let (host, port) = match address {
            Address::Unix(path) => return Ok(Stream::Unix(UnixStream::connect(path)?)),
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        let tls = match encryption {
            Encryption::None => None,
            Encryption::Files(files) => Some(Tls::of_files(files)?),
            Encryption::Tls(tls) => Some(tls.clone()),
        };
        let mut failed = io::Error::new(ErrorKind::NotFound, format!("{host} has no address"));
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECTING) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return match tls {
                        None => Ok(Stream::Tcp(stream)),
                        Some(Tls(config)) => encrypted(stream, host, config),
                    };
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Limits the duration of reads and writes.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
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

    /// Returns whether the server has neither closed the connection nor sent anything that was not
    /// read. Must not be called while a reply is expected.
    pub fn is_idle(&mut self) -> bool {
        let set = |stream: &Stream, is_nonblocking| match stream {
            Stream::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
            Stream::Tls(stream) => stream.sock.set_nonblocking(is_nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(is_nonblocking),
        };
        let is_silent = set(self, true).is_ok()
            && matches!(self.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        set(self, false).is_ok() && is_silent
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

fn encrypted(stream: TcpStream, host: &str, config: Arc<ClientConfig>) -> io::Result<Stream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
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
