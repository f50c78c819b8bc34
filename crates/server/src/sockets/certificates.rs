//! The TLS configuration of the server, from the files that its parameters name.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::Decode;
use pkcs8::der::pem::PemLabel;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use undercroft_commands::config::Config;
use undercroft_commands::users::read_regular_file;
use undercroft_links::follow::Tls;
use x509_parser::parse_x509_certificate;

/// The cipher suites: rustls' names, and the names of the versions before TLS 1.3 in OpenSSL.
const SUITES: &[(&str, &str)] = &[
    ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS13_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    (
        "TLS13_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
    ),
];
/// The number of days before its end from which a certificate is worth a warning.
const SOON: u64 = 30;

/// The certificate that the server presents, and how it encrypts.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    pub(crate) config: Arc<ServerConfig>,
    /// The end of the certificate's validity, in seconds since 1970.
    pub(crate) expires: u64,
}

/// Returns the number of seconds until the certificate that a configuration names expires, which is
/// negative if it has.
///
/// # Errors
/// Returns a text that says why a server could not use the certificate, its key, or the authorities.
pub fn certificate_seconds_left(config: &Config) -> Result<i64, String> {
    Certificates::of(config).map(|certificates| certificates.seconds_left())
}

impl Certificates {
    /// Reads the files that the parameters name. `value` returns a parameter's value.
    ///
    /// # Errors
    /// Returns a text that names the parameter and the file.
    pub(crate) fn load(value: &dyn Fn(&str) -> String) -> Result<Certificates, String> {
        let chain = certificates("tls-cert-file", &value("tls-cert-file"))?;
        let expires = expiry_of(&chain, &value("tls-cert-file"))?;
        let key = private_key(&value("tls-key-file"), &value("tls-key-file-pass"))?;
        let provider = Arc::new(provider(&value("tls-ciphers"), &value("tls-ciphersuites"))?);
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder
            .with_protocol_versions(&versions(&value("tls-protocols"))?)
            .map_err(|error| {
                format!("tls-protocols and tls-ciphers exclude each other: {error}")
            })?;
        let builder = match value("tls-auth-clients").as_str() {
            "no" => builder.with_no_client_auth(),
            auth => {
                let roots = Arc::new(authorities(value)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match auth {
                    "optional" => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier.build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| format!("tls-ca-cert-file: {error}"))?,
                )
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| format!("tls-cert-file and tls-key-file: {error}"))?;
        match value("tls-session-caching").as_str() {
            "no" => config.session_storage = Arc::new(NoServerSessionStorage {}),
            _ => {
                let size = value("tls-session-cache-size").parse().unwrap_or(0);
                config.session_storage = ServerSessionMemoryCache::new(size);
                let ticketer = ring::Ticketer::new();
                config.ticketer = ticketer.map_err(|error| format!("session tickets: {error}"))?;
            }
        }
        config.ignore_client_order = value("tls-prefer-server-ciphers") == "yes";
        Ok(Certificates {
            config: Arc::new(config),
            expires,
        })
    }

    /// Reads the files that a configuration names.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn of(config: &Config) -> Result<Certificates, String> {
        Certificates::load(&|name| String::from_utf8_lossy(&config.value(name).text()).into_owned())
    }

    /// Returns the number of seconds until the certificate expires, which is negative if it has.
    pub(crate) fn seconds_left(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.expires as i64 - now.map_or(0, |now| now.as_secs() as i64)
    }

    /// Returns a warning if the certificate expires soon.
    pub(crate) fn warning(&self) -> Option<String> {
        let days = self.seconds_left().div_euclid(86_400);
        match days {
            ..0 => Some("the certificate of tls-cert-file has expired".to_owned()),
            0.. if days < SOON as i64 => Some(format!(
                "the certificate of tls-cert-file expires in {days} days"
            )),
            _ => None,
        }
    }
}

/// Returns the certificates for encrypted connections to a source: the authorities that the parameters
/// name, or otherwise those of the system, and the server's own certificate, if it has one.
///
/// # Errors
/// Returns a text that names the parameter and the file.
pub(crate) fn for_source(
    value: &dyn Fn(&str) -> String,
    of_system: &dyn Fn() -> RootCertStore,
) -> Result<Tls, String> {
    let names_none = value("tls-ca-cert-file").is_empty() && value("tls-ca-cert-dir").is_empty();
    let roots = match names_none {
        true => of_system(),
        false => authorities(value)?,
    };
    let client = match value("tls-cert-file").as_str() {
        "" => None,
        path => Some((
            certificates("tls-cert-file", path)?,
            private_key(&value("tls-key-file"), &value("tls-key-file-pass"))?,
        )),
    };
    Tls::new(roots, client).map_err(|error| format!("tls-cert-file and tls-key-file: {error}"))
}

fn read(parameter: &str, path: &str) -> Result<Vec<u8>, String> {
    match path {
        "" => Err(format!(
            "{parameter} must name a file, because tls-port is set"
        )),
        path => read_regular_file(Path::new(path))
            .map_err(|error| format!("{parameter}: {path}: {error}")),
    }
}

fn certificates(parameter: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(parameter, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!(
            "{parameter}: {path} contains no certificate in PEM form"
        )),
        Err(error) => Err(format!("{parameter}: {path}: {error}")),
    }
}

/// Returns the end of the validity of the first certificate.
fn expiry_of(chain: &[CertificateDer<'_>], path: &str) -> Result<u64, String> {
    let first = chain.first().map(|first| parse_x509_certificate(first));
    match first {
        Some(Ok((_, certificate))) => {
            let seconds = certificate.validity().not_after.timestamp();
            Ok(u64::try_from(seconds).unwrap_or(0))
        }
        _ => Err(format!(
            "tls-cert-file: {path} contains a malformed certificate"
        )),
    }
}

fn private_key(path: &str, password: &str) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read("tls-key-file", path)?;
    let failed = |error: &dyn std::fmt::Display| format!("tls-key-file: {path}: {error}");
    let text = String::from_utf8_lossy(&bytes);
    let label = EncryptedPrivateKeyInfoRef::PEM_LABEL;
    if !text.contains(&format!("-----BEGIN {label}-----")) {
        return PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| failed(&error));
    }
    if password.is_empty() {
        return Err(failed(&"the key is encrypted; set tls-key-file-pass"));
    }
    let (_, document) = pkcs8::SecretDocument::from_pem(&text).map_err(|error| failed(&error))?;
    let encrypted = EncryptedPrivateKeyInfoRef::from_der(document.as_bytes())
        .map_err(|error| failed(&error))?;
    let decrypted = encrypted
        .decrypt(password)
        .map_err(|_| failed(&"tls-key-file-pass does not decrypt the key"))?;
    PrivateKeyDer::try_from(decrypted.as_bytes().to_vec()).map_err(|error| failed(&error))
}

/// Returns the authorities whose clients are accepted.
fn authorities(value: &dyn Fn(&str) -> String) -> Result<RootCertStore, String> {
    let (file, directory) = (value("tls-ca-cert-file"), value("tls-ca-cert-dir"));
    let mut roots = RootCertStore::empty();
    if !file.is_empty() {
        roots.add_parsable_certificates(certificates("tls-ca-cert-file", &file)?);
    }
    if !directory.is_empty() {
        let failed = |error| format!("tls-ca-cert-dir: {directory}: {error}");
        for entry in fs::read_dir(Path::new(&directory)).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // As in OpenSSL, a directory can contain other files.
            let text = path.to_string_lossy();
            if let Ok(found) = certificates("tls-ca-cert-dir", &text) {
                roots.add_parsable_certificates(found);
            }
        }
    }
    match roots.is_empty() {
        false => Ok(roots),
        true => Err(
            "tls-auth-clients needs tls-ca-cert-file or tls-ca-cert-dir with a certificate; \
             'tls-auth-clients no' accepts clients without a certificate"
                .to_owned(),
        ),
    }
}

/// Returns the protocol versions that a list names, or all.
fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut chosen = Vec::new();
    for word in list.split_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => chosen.push(&version::TLS12),
            "tlsv1.3" => chosen.push(&version::TLS13),
            _ => {
                return Err(format!(
                    "tls-protocols: expected TLSv1.2 or TLSv1.3, found {word}"
                ));
            }
        }
    }
    match chosen.is_empty() {
        true => Ok(vec![&version::TLS13, &version::TLS12]),
        false => Ok(chosen),
    }
}

/// Returns the cryptography with the cipher suites that two lists name: those before TLS 1.3, and
/// those of TLS 1.3. An empty list stands for all.
fn provider(ciphers: &str, suites: &str) -> Result<CryptoProvider, String> {
    let mut provider = ring::default_provider();
    for (parameter, list, is_of_13) in [
        ("tls-ciphers", ciphers, false),
        ("tls-ciphersuites", suites, true),
    ] {
        let of_list = |name: &&str| name.starts_with("TLS_") == is_of_13;
        let known = || SUITES.iter().map(|(_, name)| *name).filter(of_list);
        // OpenSSL's name for its own list stands for all, too.
        let chosen: Vec<&str> = match list {
            "DEFAULT" => Vec::new(),
            list => list.split(':').filter(|name| !name.is_empty()).collect(),
        };
        if let Some(other) = chosen
            .iter()
            .find(|name| !known().any(|known| known == **name))
        {
            let known: Vec<&str> = known().collect();
            return Err(format!(
                "{parameter}: expected names from {}, found {other}",
                known.join(":")
            ));
        }
        if chosen.is_empty() {
            continue;
        }
        provider.cipher_suites.retain(|suite| {
            let name = format!("{:?}", suite.suite());
            let name = SUITES
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, name)| *name);
            name.is_none_or(|name| !of_list(&name) || chosen.contains(&name))
        });
    }
    Ok(provider)
}
