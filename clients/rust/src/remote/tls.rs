//! Performs the TLS handshake on a socket to a server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Performs the TLS handshake and verifies the server's certificate.
pub(crate) async fn connect(
    host: &str,
    authorities: Option<&Path>,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let config = Arc::new(config(authorities)?);
    let connector = TlsConnector::from(config);
    connector.connect(name(host)?, stream).await
}

/// The blocking form of [`connect`].
pub(crate) fn connect_blocking(
    host: &str,
    authorities: Option<&Path>,
    mut stream: std::net::TcpStream,
) -> io::Result<StreamOwned<ClientConnection, std::net::TcpStream>> {
    let config = Arc::new(config(authorities)?);
    let mut client = ClientConnection::new(config, name(host)?).map_err(io::Error::other)?;
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(client, stream))
}

fn name(host: &str) -> io::Result<ServerName<'static>> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    ServerName::try_from(host.to_owned()).map_err(invalid)
}

/// Returns a configuration that trusts the CA certificates in a file, or the system's certificates
/// if no file is given.
fn config(authorities: Option<&Path>) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let unreadable = |error| {
                let text = format!("reading certificates from {}: {error}", path.display());
                io::Error::new(io::ErrorKind::InvalidInput, text)
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
                let certificate = certificate.map_err(unreadable)?;
                roots.add(certificate).map_err(io::Error::other)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // Invalid certificates, which some systems have, are skipped.
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the system has no CA certificates; pass ssl_ca_certs",
                ));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
