//! Logs a connection in as the user that the client's TLS certificate names (`tls-auth-clients-user`).

use undercroft_commands::Context;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use super::state::Connection;
use crate::log::log;
use crate::shared::limits::Limits;
use crate::shared::state::Shared;

impl Connection {
    /// Logs a connection whose TLS handshake is complete in as the user that the client's certificate
    /// names, if the configuration says so. Must be called before the first command.
    #[cold]
    pub(super) fn identify(&mut self, shared: &Shared, limits: &Limits) {
        self.is_identified = true;
        let field = shared.process.config.value("tls-auth-clients-user").text();
        let names = match self.socket.client_certificate() {
            Some(certificate) if field != b"off" => names_in(certificate, field == b"URI"),
            _ => return,
        };
        let store = shared.store();
        let mut context = Context::new(&mut self.session, shared.host(), &store);
        if let Err(failure) = context.log_in_by_certificate(&names) {
            log(format_args!(
                "client {} at {} is not logged in by its certificate: {failure}",
                self.session.id, self.session.peer.address
            ));
        }
        self.limit_parser(limits);
    }
}

/// Returns the names in a certificate that can be those of users: the common name of its subject, or
/// the URIs among its alternative names.
fn names_in(certificate: &[u8], are_uris: bool) -> Vec<Vec<u8>> {
    let Ok((_, certificate)) = parse_x509_certificate(certificate) else {
        return Vec::new();
    };
    if !are_uris {
        let mut names = certificate.subject().iter_common_name();
        let name = names.next().and_then(|name| name.as_str().ok());
        return name
            .map(|name| name.as_bytes().to_vec())
            .into_iter()
            .collect();
    }
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = alternatives.value.general_names.iter();
    names
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some(uri.as_bytes().to_vec()),
            _ => None,
        })
        .collect()
}
