//! Implements `undercroft tls`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use crate::arguments::tls::{Init, Tls, TlsAction};
use crate::failure::{Failure, Outcome, SUCCESS, at};
use crate::out::say;

/// The names of a server that clients on its machine use.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The files that `init` writes: names without the ending.
const NAMES: [&str; 3] = ["ca", "server", "client"];

pub(crate) fn run(arguments: &Tls) -> Outcome {
    match &arguments.action {
        TlsAction::Init(init) => make_certificates(init),
    }
}

/// Makes an authority, and certificates for a server and a client.
fn make_certificates(init: &Init) -> Outcome {
    let directory = &init.directory;
    let creating = || format!("creating the folder {}", directory.display());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(at(creating()))?;
    // Nothing is written if one of the files exists.
    for name in NAMES {
        for ending in ["pem", "key"] {
            let path = directory.join(format!("{name}.{ending}"));
            if fs::symlink_metadata(&path).is_ok() {
                return Err(Failure::new(format_args!(
                    "{} exists and is not replaced; name another folder, or remove the file",
                    path.display()
                )));
            }
        }
    }
    let failed = |error| Failure::new(format_args!("making the certificates: {error}"));
    let authority = authority(init.days).map_err(failed)?;
    write(directory, "ca", authority.pem(), authority.key())?;
    let hosts = LOCAL.iter().map(|host| (*host).to_owned());
    let hosts: Vec<String> = hosts.chain(init.host.iter().cloned()).collect();
    let common = init.host.first().map_or(LOCAL[0], String::as_str);
    for (file, common, hosts, purpose) in [
        ("server", common, hosts, ExtendedKeyUsagePurpose::ServerAuth),
        (
            "client",
            &init.client,
            Vec::new(),
            ExtendedKeyUsagePurpose::ClientAuth,
        ),
    ] {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(common, hosts, init.days).map_err(failed)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &authority).map_err(failed)?;
        write(directory, file, certificate.pem(), &key)?;
    }
    let shown = directory.display();
    say!(
        "wrote {} and their keys into {shown}; start with\n  undercroft serve --port 0 --tls-port 6380 \
         --tls-cert-file {shown}/server.pem --tls-key-file {shown}/server.key --tls-ca-cert-file \
         {shown}/ca.pem\n  redis-cli --tls -p 6380 --cacert {shown}/ca.pem --cert {shown}/client.pem \
         --key {shown}/client.key",
        NAMES.map(|name| format!("{name}.pem")).join(", "),
    );
    Ok(SUCCESS)
}

fn authority(days: u32) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = params("Undercroft private authority", Vec::new(), days * 10)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn params(common: &str, hosts: Vec<String>, days: u32) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, common);
    let now = OffsetDateTime::now_utc();
    // Clocks of other machines may be late.
    params.not_before = now - Duration::HOUR;
    params.not_after = now + Duration::days(days.into());
    Ok(params)
}

/// Writes a certificate and its private key, which only the user may read.
fn write(directory: &Path, name: &str, certificate: String, key: &KeyPair) -> Result<(), Failure> {
    for (ending, mode, text) in [
        ("key", 0o600, key.serialize_pem()),
        ("pem", 0o644, certificate),
    ] {
        let path = directory.join(format!("{name}.{ending}"));
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(at(format_args!("writing {}", path.display())))?;
    }
    Ok(())
}
