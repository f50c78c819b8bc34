//! Parses cache URLs, each of which names a store, a server or a cluster.

use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::computing;
use crate::error::{Error, Result};

/// The default port of Redis.
const PORT: u16 = 6379;

/// The target of a cache URL.
#[cfg(feature = "async")]
pub(crate) enum Address {
    /// A store in shared memory. The store parses the URL itself.
    Store,
    /// A single server.
    Server(Server),
    /// The seed nodes of a cluster.
    #[cfg(feature = "cluster")]
    Cluster(Vec<Server>),
}

/// The address of a server and the credentials for new connections.
pub(crate) struct Server {
    /// The server's name in messages, without the user name and password.
    pub(crate) name: Arc<str>,
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    /// Whether connections use RESP3.
    pub(crate) resp3: bool,
}

/// The address that a server listens on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Tcp {
        host: String,
        port: u16,
        tls: Option<Tls>,
    },
    Unix(PathBuf),
}

/// The TLS settings for verifying a server's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tls {
    /// A file of trusted CA certificates, which replace the system's certificates.
    pub(crate) authorities: Option<PathBuf>,
}

#[cfg(feature = "async")]
impl Address {
    /// Parses a URL. Any text that is not a server URL is treated as the name of a store, and an
    /// invalid name fails when the store is opened.
    pub(crate) fn parse(url: &str) -> Result<Address> {
        match url.split_once("://") {
            None | Some(("undercroft", _)) => Ok(Address::Store),
            #[cfg(feature = "cluster")]
            Some(("redis+cluster", _)) => Server::parse_cluster(url).map(Address::Cluster),
            #[cfg(not(feature = "cluster"))]
            Some(("redis+cluster", _)) => Err(Error::url(
                "redis+cluster:// needs the crate's feature `cluster`",
            )),
            Some(_) => Server::parse(url).map(Address::Server),
        }
    }
}

impl Server {
    /// Parses a `redis://`, `rediss://` or `unix://` URL.
    pub(crate) fn parse(url: &str) -> Result<Server> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut server = Server {
            name: Arc::from(""),
            place: Place::Unix(PathBuf::new()),
            user: None,
            password: None,
            database: 0,
            resp3: false,
        };
        // A socket path may contain '@'. In a URL with a host, the last '@' ends the password.
        let end = match scheme {
            "unix" => rest.find('/').unwrap_or(rest.len()),
            _ => rest.len(),
        };
        let rest = match rest[..end].rfind('@') {
            None => rest,
            Some(at) => {
                server.introduce(&rest[..at])?;
                &rest[at + 1..]
            }
        };
        match scheme {
            "redis" | "rediss" => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                server.place = tcp(authority, scheme == "rediss")?;
                if !path.is_empty() {
                    server.database = database(path)?;
                }
                server.name = authority.into();
            }
            "unix" if rest.starts_with('/') => {
                let path = decoded("a path", rest)?;
                server.name = path.as_str().into();
                server.place = Place::Unix(path.into());
            }
            "unix" => {
                return Err(Error::url(
                    "expected unix:///path/of/a/socket, got another path",
                ));
            }
            _ => {
                return Err(Error::url(format!(
                    "expected redis://, rediss://, unix:// or undercroft://, got {scheme}://"
                )));
            }
        }
        for option in query.split('&').filter(|option| !option.is_empty()) {
            server.set(option)?;
        }
        Ok(server)
    }

    /// Returns a number that identifies the key space: all clients of the same server and database
    /// get the same number.
    pub(crate) fn keys(&self) -> u64 {
        computing::keys((&self.place, self.database))
    }

    /// Parses `redis+cluster://user:password@host:port,host:port`, which takes the same options as
    /// `redis://`. All nodes use the same credentials, and the database is always 0.
    #[cfg(feature = "cluster")]
    pub(crate) fn parse_cluster(url: &str) -> Result<Vec<Server>> {
        let Some(rest) = url.strip_prefix("redis+cluster://") else {
            return Err(Error::url(
                "expected redis+cluster://host:port,host:port, got another URL",
            ));
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, nodes) = match rest.rfind('@') {
            Some(at) => rest.split_at(at + 1),
            None => ("", rest),
        };
        let node = |node: &str| {
            let server = Server::parse(&format!("redis://{user}{node}?{query}"))?;
            match (node, server.database) {
                ("", _) => Err(Error::url("expected host:port of a node, got nothing")),
                (_, 0) => Ok(server),
                (_, number) => Err(Error::url(format!(
                    "expected database 0, the only one of a cluster, got {number}"
                ))),
            }
        };
        nodes.trim_end_matches('/').split(',').map(node).collect()
    }

    /// Parses `user:password`, `:password` or `user`.
    fn introduce(&mut self, text: &str) -> Result<()> {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (text, None),
        };
        if !user.is_empty() {
            self.user = Some(decoded("a user", user)?);
        }
        if let Some(password) = password {
            self.password = Some(decoded("a password", password)?);
        }
        Ok(())
    }

    fn set(&mut self, option: &str) -> Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match (name, value) {
            ("db", number) => self.database = database(number)?,
            ("protocol", "2" | "resp2") => self.resp3 = false,
            ("protocol", "3" | "resp3") => self.resp3 = true,
            ("username", user) => self.user = Some(decoded("a user", user)?),
            ("password", password) => self.password = Some(decoded("a password", password)?),
            ("ssl_ca_certs", path) => {
                let Place::Tcp { tls: Some(tls), .. } = &mut self.place else {
                    return Err(Error::url("ssl_ca_certs needs rediss://"));
                };
                tls.authorities = Some(decoded("a path", path)?.into());
            }
            _ => {
                return Err(Error::url(format!(
                    "expected the options db, protocol (2 or 3), username, password and ssl_ca_certs, got {name:?}"
                )));
            }
        }
        Ok(())
    }

    /// Returns the commands that a new connection sends first. The server replies to at least one
    /// of them.
    pub(crate) fn greeting(&self) -> Vec<Vec<Vec<u8>>> {
        let mut credentials: Vec<&str> = Vec::new();
        if let Some(password) = &self.password {
            credentials.extend(self.user.as_deref());
            credentials.push(password);
        }
        let mut commands = Vec::new();
        if self.resp3 {
            let mut hello = vec!["HELLO", "3"];
            if let Some(password) = &self.password {
                // HELLO needs a user name even if the URL has none.
                let user = self.user.as_deref().unwrap_or("default");
                hello.extend(["AUTH", user, password]);
            }
            commands.push(hello);
        } else if !credentials.is_empty() {
            credentials.insert(0, "AUTH");
            commands.push(credentials);
        } else {
            commands.push(vec!["PING"]);
        }
        let number = self.database.to_string();
        if self.database > 0 {
            commands.push(vec!["SELECT", &number]);
        }
        let word = |word: &str| word.as_bytes().to_vec();
        let words = |words: Vec<&str>| words.into_iter().map(word).collect();
        commands.into_iter().map(words).collect()
    }
}

fn tcp(authority: &str, tls: bool) -> Result<Place> {
    let bad = || {
        Error::url(format!(
            "expected host, host:port or [IPv6 address]:port, got {authority:?}"
        ))
    };
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(bad)?;
            (host, port.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        None => PORT,
        Some(port) => port.parse().map_err(|_| bad())?,
    };
    let host = if host.is_empty() { "localhost" } else { host };
    Ok(Place::Tcp {
        host: host.to_owned(),
        port,
        tls: tls.then(Tls::default),
    })
}

fn database(text: &str) -> Result<u32> {
    text.parse()
        .map_err(|_| Error::url(format!("expected a database's number, got {text:?}")))
}

fn decoded(what: &str, text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(String::from)
        .map_err(|_| Error::url(format!("expected {what} in UTF-8, percent-encoded")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Server {
        Server::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn tcp(host: &str, port: u16, tls: bool) -> Place {
        Place::Tcp {
            host: host.to_owned(),
            port,
            tls: tls.then(Tls::default),
        }
    }

    #[test]
    fn urls_are_parsed() {
        for (url, place, database) in [
            ("redis://", tcp("localhost", 6379, false), 0),
            ("redis://cache/7", tcp("cache", 6379, false), 7),
            ("rediss://cache:7000?db=3", tcp("cache", 7000, true), 3),
            ("redis://[::1]:7000/1", tcp("::1", 7000, false), 1),
            (
                "unix:///run/r%20s.sock?db=2",
                Place::Unix("/run/r s.sock".into()),
                2,
            ),
            ("unix://u:p@/run/a@b", Place::Unix("/run/a@b".into()), 0),
        ] {
            let server = server(url);
            assert_eq!((server.place, server.database), (place, database), "{url}");
        }
    }

    #[test]
    fn greetings_carry_the_credentials() {
        let words = |url| {
            server(url)
                .greeting()
                .concat()
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(words("redis://h"), "PING");
        assert_eq!(words("redis://:p%40ss@h/3"), "AUTH p@ss SELECT 3");
        assert_eq!(words("redis://ada:x@y@h"), "AUTH ada x@y");
        assert_eq!(words("redis://:x@h?protocol=3"), "HELLO 3 AUTH default x");
        assert_eq!(words("unix:///s?username=ada&password=x"), "AUTH ada x");
        assert_eq!(&*server("redis://ada:secret@h:1/2").name, "h:1");
    }

    #[test]
    fn invalid_server_urls_are_refused() {
        for url in [
            "redis://h:port",
            "redis://[::1",
            "redis://h/x",
            "redis://h?timeout=1",
            "redis://h?ssl_ca_certs=/ca.pem",
            "redis://h?protocol=4",
            "unix://name",
            "memcached://h",
        ] {
            assert!(matches!(Server::parse(url), Err(Error::Url(_))), "{url}");
        }
        for url in ["undercroft://name", "/path/to/store", "store"] {
            assert!(matches!(Address::parse(url), Ok(Address::Store)), "{url}");
        }
    }
}
