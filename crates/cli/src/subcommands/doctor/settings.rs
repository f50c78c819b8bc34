//! Collects the settings and the users of a running server, or of a configuration file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use undercroft_links::follow::{Address, SourceClient, SourceUrl};
use undercroft_resp::Value;

use crate::arguments::{Arguments, Subcommand};
use crate::failure::{Failure, at};
use crate::settings::Settings;

/// How long a server may take to reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// The settings and the users of a server.
#[derive(Debug, Default)]
pub(super) struct Described {
    /// The values of CONFIG GET.
    values: BTreeMap<String, String>,
    /// The users, as in ACL LIST.
    pub(super) users: Vec<String>,
    /// The fields of INFO, or none for a configuration file.
    info: BTreeMap<String, String>,
    /// The configuration file.
    pub(super) file: Option<PathBuf>,
    /// Whether the configuration file defines users.
    pub(super) users_in_file: bool,
    /// Whether the files that the values name are on this machine.
    pub(super) is_local: bool,
    /// The seconds until the certificate expires, or why it cannot be used, if TLS is on.
    pub(super) certificate: Option<Result<i64, String>>,
}

impl Described {
    /// Returns the value of a parameter, or an empty string if the server does not have it.
    pub(super) fn value(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// Returns a field of INFO, if the server runs.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }
}

/// Asks a running server.
///
/// # Errors
/// If the server cannot be reached within 10 seconds, or refuses a command.
pub(super) fn of_server(text: &str) -> Result<Described, Failure> {
    let url = SourceUrl::parse(text).map_err(Failure::usage)?;
    let start = Instant::now();
    let stops = || start.elapsed() > PATIENCE;
    let mut client = SourceClient::connect(&url, &stops).map_err(Failure::new)?;
    let mut described = Described {
        is_local: url.addresses.iter().all(|address| match address {
            Address::Tcp { host, .. } => is_loopback(host),
            _ => true,
        }),
        ..Described::default()
    };
    let values = texts(client.call(&["CONFIG", "GET", "*"]).map_err(Failure::new)?);
    for pair in values.chunks(2) {
        if let [name, value] = pair {
            described.values.insert(name.clone(), value.clone());
        }
    }
    described.users = texts(client.call(&["ACL", "LIST"]).map_err(Failure::new)?);
    described.info = client
        .info("everything")
        .map_err(Failure::new)?
        .into_iter()
        .collect();
    let left = described.field("tls_certificate_expires_in_seconds");
    described.certificate = left.and_then(|left| left.parse().ok()).map(Ok);
    described.file = described
        .field("config_file")
        .filter(|path| described.is_local && !path.is_empty())
        .map(PathBuf::from);
    Ok(described)
}

/// Reads a configuration file, as `serve` does.
///
/// # Errors
/// If a server could not start with the file.
pub(super) fn of_file(path: &Path) -> Result<Described, Failure> {
    let line = [
        OsStr::new("undercroft"),
        OsStr::new("serve"),
        OsStr::new("--config"),
        path.as_os_str(),
    ];
    let parsed = Arguments::try_parse_from(line).map_err(Failure::usage)?;
    let Subcommand::Serve(serve) = parsed.subcommand else {
        return Err(Failure::usage(
            "expected the options of serve in the environment",
        ));
    };
    let settings = Settings::read(&serve)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let values = settings.config.get(&[b"*"]);
    let values = values
        .into_iter()
        .map(|(name, value)| (text(name), text(value)));
    let mut described = Described {
        values: values.collect(),
        file: Some(path.to_owned()),
        users_in_file: !settings.users.is_empty(),
        is_local: true,
        ..Described::default()
    };
    let aclfile = described.value("aclfile");
    let definitions = match aclfile.is_empty() {
        true => path,
        false => Path::new(OsStr::from_bytes(aclfile.as_bytes())),
    };
    let content = fs::read(definitions).map_err(at(format_args!(
        "reading the users in {}",
        definitions.display()
    )))?;
    let content = String::from_utf8_lossy(&content);
    let users = content
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("user "));
    described.users = users.map(str::to_owned).collect();
    let is_default = |user: &String| user.split_whitespace().nth(1) == Some("default");
    if !described.users.iter().any(is_default) {
        let password = match described.value("requirepass") {
            "" => "nopass".to_owned(),
            password => format!(">{password}"),
        };
        described
            .users
            .push(format!("user default on {password} ~* &* +@all"));
    }
    if described.value("tls-port") != "0" {
        described.certificate = Some(undercroft_server::certificate_seconds_left(
            &settings.config,
        ));
    }
    Ok(described)
}

/// Returns whether a host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn texts(reply: Value) -> Vec<String> {
    match reply {
        Value::Array(items) | Value::Set(items) => items.into_iter().flat_map(texts).collect(),
        Value::Map(pairs) => pairs
            .into_iter()
            .flat_map(|(name, value)| [texts(name), texts(value)].concat())
            .collect(),
        Value::Bulk(text) | Value::Verbatim(_, text) | Value::Simple(text) => {
            vec![String::from_utf8_lossy(&text).into_owned()]
        }
        _ => Vec::new(),
    }
}
