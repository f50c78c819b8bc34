//! Where a source is, and how to log in: the URL of a Redis or Valkey server.
//!
//! ```text
//! redis://user:password@host:port
//! rediss://host:port                         TLS
//! unix://user:password@/path/to/socket
//! redis+sentinel://host:port,host:port/name  the master that the Sentinels name
//! redis+cluster://host:port,host:port        the masters of the cluster that these nodes belong to
//! ```

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use crate::follow::error::FollowError;

/// The port of a server without one in its URL.
const PORT: u16 = 6379;
/// The port of a Sentinel without one in its URL.
const SENTINEL_PORT: u16 = 26379;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp {
        /// The name or the IP address of the host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => {
                write!(formatter, "[{host}]:{port}")
            }
            Address::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => path.display().fmt(formatter),
        }
    }
}

/// The files with the certificates of encrypted connections, in PEM form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that certify the source. `None` stands for those of the system.
    pub authorities: Option<PathBuf>,
    /// The certificate and the private key with which the connection identifies itself, if the source
    /// asks.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// The URL of a source.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceUrl {
    /// The addresses: one of the source, or those of its Sentinels, or of nodes of a cluster.
    pub addresses: Vec<Address>,
    /// Whether the URL says that the addresses are those of nodes of a cluster. Those of other URLs
    /// can be nodes, too.
    pub is_cluster: bool,
    /// The name of the master, if the addresses are those of Sentinels.
    pub master: Option<String>,
    /// Whether to use TLS.
    pub is_encrypted: bool,
    /// The certificates for TLS, which are no part of the URL's text.
    pub tls: TlsFiles,
    /// The name of the user, or an empty string.
    pub user: String,
    /// The password, or an empty string.
    pub password: String,
}

/// Shows the URL without its password.
impl fmt::Display for SourceUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (&self.addresses[..], &self.master, self.is_encrypted) {
            ([Address::Unix(_), ..], _, _) => "unix",
            (_, Some(_), false) => "redis+sentinel",
            (_, Some(_), true) => "rediss+sentinel",
            _ if self.is_cluster => match self.is_encrypted {
                false => "redis+cluster",
                true => "rediss+cluster",
            },
            (_, None, false) => "redis",
            (_, None, true) => "rediss",
        };
        write!(formatter, "{scheme}://")?;
        for (index, address) in self.addresses.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(formatter, "{comma}{address}")?;
        }
        match &self.master {
            Some(name) => write!(formatter, "/{name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl SourceUrl {
    /// Returns the URL of another server with the same login.
    pub(super) fn of(&self, address: &Address) -> SourceUrl {
        SourceUrl {
            addresses: vec![address.clone()],
            is_cluster: false,
            master: None,
            ..self.clone()
        }
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// Returns an error that says what was expected.
    pub fn parse(text: &str) -> Result<SourceUrl, FollowError> {
        let fail = |expected: &str| {
            // The URL may contain a password, so the error shows only its scheme.
            let scheme = text.split("://").next().filter(|_| text.contains("://"));
            let given = scheme.map_or_else(
                || "no scheme".to_owned(),
                |scheme| format!("{scheme}://..."),
            );
            FollowError::Url(format!("expected {expected}, got {given}"))
        };
        let forms = "redis://[user:password@]host[:port], rediss://..., unix://[user:password@]/path, \
                     redis+cluster://host[:port],... or redis+sentinel://host[:port],.../name";
        let (scheme, rest) = text.split_once("://").ok_or_else(|| fail(forms))?;
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (login, rest),
            None => ("", rest),
        };
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let decode = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8();
            decoded
                .map(String::from)
                .map_err(|_| fail("a user and a password in UTF-8"))
        };
        let (user, password) = (decode(user)?, decode(password)?);
        if scheme == "unix" {
            let path = rest.split('?').next().unwrap_or_default();
            if !path.starts_with('/') {
                return Err(fail("an absolute path after unix://"));
            }
            return Ok(SourceUrl {
                addresses: vec![Address::Unix(PathBuf::from(decode(path)?))],
                is_cluster: false,
                master: None,
                is_encrypted: false,
                tls: TlsFiles::default(),
                user,
                password,
            });
        }
        let (kind, has_sentinels, is_cluster) = match scheme.split_once('+') {
            None => (scheme, false, false),
            Some((kind, "sentinel")) => (kind, true, false),
            Some((kind, "cluster")) => (kind, false, true),
            Some(_) => return Err(fail(forms)),
        };
        let is_encrypted = match kind {
            "redis" => false,
            "rediss" => true,
            "valkey" if !has_sentinels => false,
            "valkeys" if !has_sentinels => true,
            _ => return Err(fail(forms)),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = if has_sentinels { SENTINEL_PORT } else { PORT };
        let addresses: Option<Vec<Address>> =
            hosts.split(',').map(|host| address(host, port)).collect();
        let addresses = addresses.ok_or_else(|| fail("a host and a port up to 65535"))?;
        let master = match (has_sentinels, path) {
            (false, _) if addresses.len() > 1 && !is_cluster => return Err(fail("one host")),
            (false, "" | "0") => None,
            (false, _) => {
                return Err(fail("no database, which --db selects"));
            }
            (true, "") => return Err(fail("the name of the master after the Sentinels")),
            (true, name) => Some(decode(name)?),
        };
        Ok(SourceUrl {
            addresses,
            is_cluster,
            master,
            is_encrypted,
            tls: TlsFiles::default(),
            user,
            password,
        })
    }
}

/// Parses a host with an optional port.
fn address(text: &str, port: u16) -> Option<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            let port = match rest.strip_prefix(':') {
                Some(digits) => digits.parse().ok()?,
                None if rest.is_empty() => port,
                None => return None,
            };
            (host, port)
        }
        None => match text.rsplit_once(':') {
            Some((host, digits)) => (host, digits.parse().ok()?),
            None => (text, port),
        },
    };
    (!host.is_empty() && port != 0).then(|| Address::Tcp {
        host: host.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_shown_without_passwords() {
        let rows = [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://h:7000/0", "redis://h:7000"),
            ("rediss://ann:s%40crt@h", "rediss://h:6379"),
            ("redis://[::1]:7", "redis://[::1]:7"),
            ("unix:///run/r.sock", "unix:///run/r.sock"),
            ("unix://u:p@/run/r.sock?db=0", "unix:///run/r.sock"),
            (
                "redis+cluster://u:p@a:7000,b",
                "redis+cluster://a:7000,b:6379",
            ),
            ("rediss+cluster://a", "rediss+cluster://a:6379"),
            (
                "redis+sentinel://a,b:7/main",
                "redis+sentinel://a:26379,b:7/main",
            ),
        ];
        for (text, shown) in rows {
            let url = SourceUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(url.to_string(), shown);
        }
        let url = SourceUrl::parse("rediss://ann:s%40crt@h").expect("a URL");
        assert_eq!((url.user.as_str(), url.password.as_str()), ("ann", "s@crt"));
        assert!(!format!("{url:?}").contains("s@crt"));
    }

    #[test]
    fn invalid_urls_are_refused_without_showing_the_password() {
        for text in [
            "localhost:6379",
            "http://h",
            "redis://",
            "redis://h:0",
            "redis://h:70000",
            "redis://h/3",
            "redis://a,b",
            "redis+other://a",
            "redis+cluster://a/3",
            "unix://relative",
            "redis+sentinel://a",
            "redis://u:secret@h:port",
            "redis://[::1",
        ] {
            let error = SourceUrl::parse(text).expect_err(text).to_string();
            assert!(error.starts_with("expected "), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
