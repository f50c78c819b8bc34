//! Collects the settings of `serve` from a file, the environment and the command line, in ascending
//! order of precedence.

use std::fs;
use std::path::{Path, PathBuf};

use undercroft_commands::config::{Config, STORED};
use undercroft_commands::table::Renames;
use undercroft_commands::users::UserDefinition;
use undercroft_engine::{Durability, Terms};
use undercroft_resp::split_args;

use crate::arguments::{DEFAULT_STORE, Serve};
use crate::failure::{Failure, at};
use crate::redis_conf::{self, Meaning};
use crate::size::parse_bytes;

/// All settings of `serve`.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) store: String,
    pub(crate) capacity: Option<u64>,
    pub(crate) threads: usize,
    /// The stored parameters that the user has set. All other parameters keep their values in the
    /// store.
    pub(crate) stored: Vec<&'static str>,
    pub(crate) config: Config,
    /// The durability mode that the user requests.
    pub(crate) durability: Option<Durability>,
    /// The folder of the journal.
    pub(crate) journal: Option<PathBuf>,
    /// The host and the port of the source to follow.
    pub(crate) source: Option<(String, u16)>,
    /// The names that the file gives to commands.
    pub(crate) renames: Renames,
    /// The users that the file defines.
    pub(crate) users: Vec<UserDefinition>,
    /// The directives in the file that have no effect, in their original form.
    pub(crate) skipped: Vec<String>,
}

impl Settings {
    pub(crate) fn read(arguments: &Serve) -> Result<Settings, Failure> {
        let mut settings = Settings {
            store: DEFAULT_STORE.to_owned(),
            capacity: None,
            threads: 0,
            stored: Vec::new(),
            config: undercroft_server::default_config(),
            durability: None,
            journal: None,
            source: None,
            renames: Renames::default(),
            users: Vec::new(),
            skipped: Vec::new(),
        };
        let mut redis_terms = RedisTerms::default();
        if let Some(path) = &arguments.config {
            let text = fs::read_to_string(path).map_err(at(format_args!(
                "reading the configuration {}",
                path.display()
            )))?;
            settings.read_file(path, &text, &mut redis_terms)?;
            settings.durability = redis_terms
                .mode(&settings)
                .map_err(|reason| Failure::usage(format_args!("{}: {reason}", path.display())))?;
        }
        let given = [
            ("port", &arguments.port),
            ("bind", &arguments.bind),
            ("unixsocket", &arguments.unixsocket),
            ("requirepass", &arguments.requirepass),
            ("capacity", &arguments.capacity),
            ("maxmemory", &arguments.maxmemory),
            ("maxmemory-policy", &arguments.maxmemory_policy),
            ("maxclients", &arguments.maxclients),
            ("tls-port", &arguments.tls_port),
            ("tls-cert-file", &arguments.tls_cert_file),
            ("tls-key-file", &arguments.tls_key_file),
            ("tls-ca-cert-file", &arguments.tls_ca_cert_file),
            ("tls-auth-clients", &arguments.tls_auth_clients),
            ("threads", &arguments.threads),
            ("dir", &arguments.dir),
            ("dbfilename", &arguments.dbfilename),
        ];
        if let Some(store) = arguments.store.given() {
            settings.store = store.to_owned();
        }
        for (name, value) in given {
            if let Some(value) = value {
                // Ignore the result, because all values of these parameters are supported.
                let _ = settings
                    .set(name, value)
                    .map_err(|reason| Failure::usage(format_args!("--{name}: {reason}")))?;
            }
        }
        if let Some(mode) = &arguments.durability {
            settings.durability = Some(
                parse_mode(mode)
                    .map_err(|reason| Failure::usage(format_args!("--durability: {reason}")))?,
            );
        }
        if let Some(journal) = &arguments.journal {
            settings.journal = Some(journal.clone());
        }
        settings.journal = settings.journal.map(|path| absolute(&path));
        Ok(settings)
    }

    /// Returns the file to which SAVE and BGSAVE write snapshots, if the operator chose its folder.
    ///
    /// # Errors
    /// Returns an error if the folder does not exist.
    pub(crate) fn snapshot(&self) -> Result<Option<PathBuf>, Failure> {
        let text = |name| String::from_utf8_lossy(&self.config.value(name).text()).into_owned();
        let folder = text("dir");
        if folder.is_empty() {
            return Ok(None);
        }
        let folder = absolute(Path::new(&folder));
        if !folder.is_dir() {
            return Err(Failure::usage(format_args!(
                "dir {}: expected a folder for the file of SAVE and BGSAVE",
                folder.display()
            )));
        }
        Ok(Some(folder.join(text("dbfilename"))))
    }

    /// Returns the terms with which the store is opened or created.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            capacity: self.capacity,
            durability: self.durability,
            journal: self.journal.clone(),
            ..Terms::default()
        }
    }

    fn read_file(
        &mut self,
        path: &Path,
        text: &str,
        redis_terms: &mut RedisTerms,
    ) -> Result<(), Failure> {
        for (number, line) in (1..).zip(text.lines()) {
            let set = self.read_line(line, redis_terms);
            set.map_err(|reason| {
                Failure::usage(format_args!("{}, line {number}: {reason}", path.display()))
            })?;
        }
        Ok(())
    }

    /// Parses a line, which is a name and its value, a comment that starts with `#`, or empty.
    fn read_line(&mut self, line: &str, redis_terms: &mut RedisTerms) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        split_args(line.as_bytes(), &mut bytes, &mut spans)
            .map_err(|_| "unbalanced quotes".to_owned())?;
        let words: Vec<String> = spans
            .iter()
            .map(|span| String::from_utf8_lossy(&bytes[span.range()]).into_owned())
            .collect();
        match words.split_first() {
            None => Ok(()),
            Some((name, _)) if name.eq_ignore_ascii_case("user") => {
                // A password need not be valid UTF-8.
                let words: Vec<&[u8]> = spans.iter().map(|span| &bytes[span.range()]).collect();
                self.define_user(&words[1..])
            }
            Some((name, values)) if name.eq_ignore_ascii_case("rename-command") => match values {
                [_, _] => {
                    let words: Vec<&[u8]> = spans.iter().map(|span| &bytes[span.range()]).collect();
                    self.renames.add(words[1], words[2])
                }
                _ => Err(format!(
                    "expected a command and its new name, or \"\" to remove it, got {} words",
                    values.len()
                )),
            },
            Some((name, [])) => Err(format!("expected a value after '{name}'")),
            Some((name, values)) => {
                let (name, value) = (name.to_ascii_lowercase(), values.join(" "));
                redis_terms.note(&name);
                self.direct(&name, &value)
            }
        }
    }

    /// Adds the user that a line defines, given its words after `user`.
    fn define_user(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let user = UserDefinition::parse(words)?;
        if self.users.iter().any(|other| other.name() == user.name()) {
            let name = String::from_utf8_lossy(user.name()).into_owned();
            return Err(format!(
                "the user '{name}' is defined twice; join the two lines"
            ));
        }
        self.users.push(user);
        Ok(())
    }

    /// Applies a line of the file, which is either an Undercroft setting or a Redis directive.
    fn direct(&mut self, name: &str, value: &str) -> Result<(), String> {
        match redis_conf::meaning(name, value) {
            Meaning::Skipped => self.skip(name, name.to_owned()),
            Meaning::Refused(reason) => return Err(format!("{name} {value}: {reason}")),
            Meaning::Unknown => {
                if let Some(reason) = self.set(name, value)? {
                    self.skip(name, format!("{name} {value} ({reason})"));
                }
            }
        }
        Ok(())
    }

    /// Records a directive that has no effect. A repeated directive is recorded only once.
    fn skip(&mut self, name: &str, text: String) {
        let named = |other: &String| other.split(' ').next() == Some(name);
        if !self.skipped.iter().any(named) {
            self.skipped.push(text);
        }
    }

    /// Sets a parameter. Returns the reason if the value is unsupported.
    fn set(&mut self, name: &str, value: &str) -> Result<Option<&'static str>, String> {
        match name {
            "store" => self.store = value.to_owned(),
            "capacity" => self.capacity = Some(parse_bytes(value)?),
            "durability" => self.durability = Some(parse_mode(value)?),
            "journal" => self.journal = Some(value.into()),
            "replicaof" | "slaveof" => self.source = parse_source(value)?,
            "threads" => {
                let threads: Option<usize> = value.parse().ok().filter(|n| (1..=1024).contains(n));
                self.threads = threads.ok_or_else(|| {
                    format!("expected a number of threads from 1 to 1024, got '{value}'")
                })?;
            }
            _ => {
                let not_done = self.config.set_at_start(name, value)?;
                self.stored
                    .extend(STORED.into_iter().find(|stored| *stored == name));
                return Ok(not_done);
            }
        }
        Ok(None)
    }
}

/// Parses a source, which is a host and a port, or `no one` for none.
fn parse_source(text: &str) -> Result<Option<(String, u16)>, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("no one") {
        return Ok(None);
    }
    let source = text.split_once(' ').and_then(|(host, port)| {
        let port = port.trim().parse().ok().filter(|&port| port != 0)?;
        Some((host.to_owned(), port))
    });
    source
        .map(Some)
        .ok_or_else(|| format!("expected a host and a port from 1 to 65535, got '{text}'"))
}

/// Parses a durability mode.
fn parse_mode(text: &str) -> Result<Durability, String> {
    Durability::from_name(&text.to_ascii_lowercase())
        .ok_or_else(|| format!("expected none, everysec or always, got '{text}'"))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// Which of Redis' directives about its append-only file a configuration file contains.
#[derive(Default)]
struct RedisTerms {
    appendonly: bool,
    appendfsync: bool,
}

impl RedisTerms {
    fn note(&mut self, name: &str) {
        self.appendonly |= name == "appendonly";
        self.appendfsync |= name == "appendfsync";
    }

    /// Returns the durability mode that the file requests. `appendonly no`, which Redis' own file
    /// contains, requests none.
    fn mode(&self, settings: &Settings) -> Result<Option<Durability>, &'static str> {
        if !(self.appendonly || self.appendfsync) {
            return Ok(settings.durability);
        }
        if settings.durability.is_some() {
            return Err("expected either durability, or appendonly and appendfsync, got both");
        }
        if !settings.config.boolean("appendonly") {
            return Ok(None);
        }
        let sync = settings.config.value("appendfsync").text();
        Ok(Durability::from_name(&String::from_utf8_lossy(&sync)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Subcommand};
    use clap::Parser;

    fn settings(arguments: &[&str], file: &str) -> Result<Settings, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("conf");
        fs::write(&path, file).expect("a file");
        let path = path.to_str().expect("ASCII");
        let line = ["undercroft", "serve", "--config", path];
        let parsed = Arguments::try_parse_from(line.iter().chain(arguments));
        let Subcommand::Serve(serve) = parsed.expect("sound").subcommand else {
            panic!("not serve");
        };
        Settings::read(&serve).map_err(|failure| failure.to_string().replace(path, "conf"))
    }

    #[test]
    fn command_line_takes_precedence_over_the_file() {
        let file = "# ours\n\nport 7000\nthreads 3\nTimeout 60\nrequirepass \"a b\"\nmaxmemory-policy allkeys-lru\nbind 127.0.0.1 -::1\n";
        let settings = settings(&["--port", "0", "--capacity", "2gb"], file).expect("sound");
        assert_eq!(settings.config.integer("port"), 0);
        assert_eq!(settings.config.integer("timeout"), 60);
        assert_eq!(settings.config.value("requirepass").text(), b"a b");
        assert_eq!(settings.config.value("bind").text(), b"127.0.0.1 -::1");
        assert_eq!((settings.threads, settings.capacity), (3, Some(2 << 30)));
        assert_eq!(settings.store.as_str(), DEFAULT_STORE);
        assert_eq!(settings.stored, ["maxmemory-policy"]);
    }

    #[test]
    fn durability_comes_from_redis_directives_or_its_own() {
        let mode = |arguments: &[&str], file: &str| {
            settings(arguments, file).map(|settings| settings.durability)
        };
        let (everysec, always) = (Some(Durability::EverySecond), Some(Durability::Always));
        for (arguments, file, expected) in [
            (&[][..], "appendonly no\nappendfsync always\n", None),
            (&[], "appendonly yes\n", everysec),
            (&[], "appendfsync always\nappendonly yes\n", always),
            (&[], "appendonly yes\nappendfsync no\n", everysec),
            (&[], "durability always\n", always),
            (&["--durability", "ALWAYS"], "appendonly yes\n", always),
            (
                &["--durability", "none"],
                "durability always\n",
                Some(Durability::None),
            ),
        ] {
            assert_eq!(mode(arguments, file), Ok(expected), "{file}");
        }
        let both = mode(&[], "durability always\nappendonly no\n").expect_err("both");
        assert!(both.contains("got both"), "{both}");
        let wrong = mode(&["--durability", "often"], "").expect_err("no mode");
        assert_eq!(
            wrong,
            "--durability: expected none, everysec or always, got 'often'"
        );
        let named = settings(&["--journal", "folder"], "journal /other").expect("sound");
        let folder = named.journal.expect("a folder");
        assert!(folder.is_absolute() && folder.ends_with("folder"));
    }

    #[test]
    fn source_is_a_host_and_a_port() {
        let source = |file: &str| settings(&[], file).map(|settings| settings.source);
        let expected = Some(("db.example".to_owned(), 6380));
        assert_eq!(source("replicaof db.example 6380"), Ok(expected.clone()));
        assert_eq!(source("SLAVEOF db.example 6380"), Ok(expected));
        assert_eq!(source("replicaof no one"), Ok(None));
        assert_eq!(source("replicaof \"\""), Ok(None));
    }

    #[test]
    fn errors_name_the_file_and_line() {
        for (arguments, file, expected) in [
            (
                &[][..],
                "port 1\nprot 2\n",
                "conf, line 2: there is no configuration parameter 'prot'",
            ),
            (&[], "port\n", "conf, line 1: expected a value after 'port'"),
            (&[], "requirepass \"a\n", "conf, line 1: unbalanced quotes"),
            (
                &[],
                "replicaof db.example",
                "conf, line 1: expected a host and a port from 1 to 65535, got 'db.example'",
            ),
            (
                &[],
                "slaveof db.example 0",
                "conf, line 1: expected a host and a port from 1 to 65535, got 'db.example 0'",
            ),
            (
                &["--threads", "0"],
                "",
                "--threads: expected a number of threads from 1 to 1024, got '0'",
            ),
            (
                &["--capacity", "x"],
                "",
                "--capacity: expected a size such as 512mb or 64gb, got 'x'",
            ),
            (
                &["--port", "70000"],
                "",
                "--port: port '70000': argument must be between 0 and 65535 inclusive",
            ),
        ] {
            assert_eq!(settings(arguments, file).expect_err("wrong"), expected);
        }
    }
}
