//! Starts and stops the server.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use undercroft_commands::config::{Config, Value};
use undercroft_commands::context::Control;
use undercroft_commands::table::Renames;
use undercroft_commands::users::UserDefinition;
use undercroft_engine::{Store, journal_folder};

use crate::error::Error;
use crate::log::log;
use crate::shared::files::audit_file::AuditFile;
use crate::shared::files::dump_file::DumpFile;
use crate::shared::files::sandbox::{Folders, Sandbox};
use crate::shared::host::FILES_OF_TLS;
use crate::shared::limits::OTHER_DESCRIPTORS;
use crate::shared::replication::end_requirement;
use crate::shared::state::{Files, Shared, Thread};
use crate::shared::store_change::Reopen;
use crate::sockets::certificates::Certificates;
use crate::sockets::listener::{Listener, Published, SocketAccess};
use crate::sockets::poll::{Poll, Waker};
use crate::sockets::proxy::Proxies;
use crate::worker::mailbox::Mailboxes;
use crate::worker::state::Worker;
use crate::worker::sync_thread;

/// Settings that are not Redis configuration parameters.
#[derive(Debug, Default)]
pub struct Options {
    /// The number of threads that serve connections, or 0 for one per core.
    pub threads: usize,
    /// The path of the configuration file, which INFO shows, or an empty string if there is none.
    pub config_file: String,
    /// The folder in which CONFIG SET begins a journal, or `None` for the store's default folder.
    pub journal: Option<PathBuf>,
    /// The file to which SAVE and BGSAVE write snapshots, or `None` if the operator chose none.
    pub snapshot: Option<PathBuf>,
    /// Whether commands that change keys of a replica are sent to its source.
    pub forwards_writes: bool,
    /// The host and the port of the source that the server follows from the start, or `None` for the
    /// one that a server followed last, if it has not ended this.
    pub source: Option<(String, u16)>,
    /// The listening sockets that a service manager has opened. If there are any, the server does not
    /// open those of the configuration.
    pub inherited: Vec<Inherited>,
    /// The names by which clients call commands.
    pub renames: Renames,
    /// The users that the configuration file defines. They replace all users in the store.
    pub users: Vec<UserDefinition>,
}

/// A listening socket that a service manager has opened.
#[derive(Debug)]
pub struct Inherited {
    /// The socket, of TCP or Unix.
    pub socket: OwnedFd,
    /// Whether its connections are encrypted.
    pub is_encrypted: bool,
}

/// Returns a server's default configuration. It is stricter than [`Config::new`] toward clients
/// that do not read their replies. Above 64 MiB of unsent replies, the server stops reading a
/// client's commands, and after a minute, it closes the connection. As in Redis, a single reply can
/// be larger: a client that reads the reply receives all of it.
pub fn default_config() -> Config {
    let config = Config::new();
    let limits = "normal 0 64mb 60";
    if let Err(reason) = config.set_at_start("client-output-buffer-limit", limits) {
        unreachable!("{limits} must be a valid value: {reason}");
    }
    config
}

/// A server that listens but does not yet serve.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    polls: Vec<Poll>,
    /// The source to follow from the start.
    source: Option<(String, u16)>,
}

/// A handle that stops a server from another thread.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    /// The files of the Unix sockets, which the listeners own.
    published: Vec<Weak<Published>>,
}

impl Handle {
    /// Stops the server without waiting for it to end. The server accepts no new connections and
    /// starts no more commands, but completes the running commands.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Reads the files of the certificate again, for new connections. If this fails, logs the reason
    /// and keeps the old certificate. Does nothing without a port for TLS.
    pub fn reload_certificates(&self) {
        if self.shared.certificates().is_none() {
            return;
        }
        match Certificates::of(&self.shared.process.config) {
            Ok(certificates) => {
                self.shared.set_certificates(certificates);
                log(format_args!(
                    "the certificate of tls-cert-file was read again"
                ));
            }
            Err(error) => log(format_args!("the old certificate stays in use: {error}")),
        }
    }

    /// Returns whether any thread has waited for events, or begun to handle them, within this time.
    pub fn responds(&self, time: Duration) -> bool {
        let now = self.shared.process.now_microseconds() / 1000;
        let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let mut threads = self.shared.threads.iter();
        threads.any(|thread| !thread.is_busy_for(now, time))
    }

    /// Opens the file of the audit log again, after it was renamed. Does nothing without an audit log.
    pub fn reopen_audit_log(&self) {
        if let Some(log) = &self.shared.files.audit {
            log.reopen();
        }
    }

    /// Removes the files of the Unix sockets, for a process that exits without stopping the server.
    pub fn withdraw(&self) {
        for published in self.published.iter().filter_map(Weak::upgrade) {
            published.remove();
        }
    }
}

impl Server {
    /// Listens on the configured addresses: on `port` at each address in `bind`, unless `port` is
    /// 0, and on `unixsocket`. Raises the limit on open descriptors so that `maxclients` clients
    /// can connect.
    ///
    /// # Errors
    /// If the server cannot listen on an address, if no address is configured, or if the users that
    /// the configuration or the ACL file defines are not valid.
    pub fn bind(store: Store, config: Config, options: Options) -> Result<Server, Error> {
        let inherits_tls = options.inherited.iter().any(|socket| socket.is_encrypted);
        let certificates = match config.integer("tls-port") {
            0 if !inherits_tls => None,
            _ => Some(Certificates::of(&config).map_err(|error| {
                let error = io::Error::new(io::ErrorKind::InvalidInput, error);
                Error::new("preparing to encrypt connections", error)
            })?),
        };
        let listeners = match options.inherited.is_empty() {
            true => listen(&config)?,
            false => {
                let inherited = options.inherited.into_iter();
                let listeners =
                    inherited.map(|given| Listener::inherited(given.socket, given.is_encrypted));
                listeners.collect::<Result<Vec<_>, _>>()?
            }
        };
        let threads = match options.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let fail = |error| Error::new("preparing to wait for connections", error);
        let mut polls = Vec::with_capacity(threads);
        let mut seen = Vec::with_capacity(threads);
        for _ in 0..threads {
            polls.push(Poll::new().map_err(fail)?);
            seen.push(Thread::new(Waker::new().map_err(fail)?));
        }
        let plain = listeners.iter().filter(|listener| !listener.is_encrypted);
        let port = plain.map(Listener::port).max().unwrap_or(0);
        let files = Files {
            config: options.config_file,
            journal: options.journal,
            snapshot: options
                .snapshot
                .map(|path| Arc::new(DumpFile::new(path)))
                .into(),
            users: options.users,
            renames: options.renames,
            proxies: proxies(&config)?,
            audit: audit_file(&config)?,
            sandbox: OnceLock::new(),
        };
        // A server that sends the changes of the store decides how many replicas it requires.
        let ended = store.has_sender().and_then(|has_sender| match has_sender {
            true => Ok(()),
            false => end_requirement(&store, &config),
        });
        ended.map_err(|error| {
            Error::new(
                "ending the requirement of replicas",
                io::Error::other(error),
            )
        })?;
        let shared = Shared::new(store, config, seen, port, files);
        if let Some(certificates) = certificates {
            shared.set_certificates(certificates);
        }
        shared
            .define_users(&shared.store())
            .map_err(|text| Error::new("loading the users (ACL)", io::Error::other(text)))?;
        if options.forwards_writes {
            shared.forwarding.turn_on();
        }
        let (room, wanted) = shared.room();
        if room == 0 {
            return Err(Error::new(
                "starting with this limit on open files",
                io::Error::other(format!(
                    "the server needs {OTHER_DESCRIPTORS} file descriptors and one more for each \
                     client; raise the limit with ulimit -n"
                )),
            ));
        }
        if room < wanted.max(0) as u64 {
            log(format_args!(
                "the limit on open file descriptors allows {room} clients, not the requested \
                 {wanted} (maxclients); raise it with ulimit -n"
            ));
        }
        Ok(Server {
            shared: shared.share(),
            source: options.source,
            listeners,
            polls,
        })
    }

    /// Restricts the server to the files that its configuration names, if `sandbox` says so. Must be
    /// called before any thread starts.
    ///
    /// # Errors
    /// If `sandbox` is `yes` and the kernel cannot restrict the server.
    pub fn enter_sandbox(&self) -> Result<(), Error> {
        let config = &self.shared.process.config;
        let wanted = text(config.value("sandbox"));
        if wanted == "no" {
            return Ok(());
        }
        match Sandbox::enter(self.folders()) {
            Ok(sandbox) => {
                log(format_args!(
                    "sandbox: the server can open only the files that it needs, and no more ports{}",
                    match sandbox.is_complete {
                        true => "",
                        false =>
                            "; this kernel enforces only a part of this (Landlock before ABI 7)",
                    }
                ));
                // A server enters its sandbox only once.
                let _ = self.shared.files.sandbox.set(sandbox);
                Ok(())
            }
            Err(reason) if wanted == "yes" => Err(Error::new(
                "entering the sandbox ('sandbox no' runs without it)",
                io::Error::other(reason),
            )),
            Err(reason) => {
                log(format_args!(
                    "sandbox: none, the server can open all files of its user: {reason}"
                ));
                Ok(())
            }
        }
    }

    /// Returns the folders that the configuration names.
    fn folders(&self) -> Folders {
        let config = &self.shared.process.config;
        let store = self.shared.store();
        let path = |name| {
            Some(PathBuf::from(text(config.value(name))))
                .filter(|path| !path.as_os_str().is_empty())
        };
        let folder_of = |path: PathBuf| {
            let path = std::path::absolute(path).ok()?;
            path.parent().map(Path::to_owned)
        };
        let journals = [
            store.journal().map(|journal| journal.folder),
            self.shared.files.journal.clone(),
            journal_folder(store.path()),
        ];
        // A journal's folder is itself created and removed.
        let mut written: Vec<PathBuf> = journals
            .into_iter()
            .flatten()
            .filter_map(folder_of)
            .collect();
        let files = ["unixsocket", "aclfile", "audit-log"]
            .into_iter()
            .filter_map(path);
        written.extend(files.chain([store.path().to_owned()]).filter_map(folder_of));
        written.extend(path("dir"));
        // The data set for some replicas is kept in a file without a name.
        written.push(std::env::temp_dir());
        let (folders, files): (Vec<_>, Vec<_>) =
            FILES_OF_TLS.iter().partition(|name| name.ends_with("-dir"));
        let mut read: Vec<PathBuf> = files
            .into_iter()
            .filter_map(|name| folder_of(path(name)?))
            .collect();
        read.extend(folders.into_iter().filter_map(path));
        Folders { written, read }
    }

    /// Returns the addresses on which the server listens. Each is `ip:port` or the path of a Unix
    /// socket.
    pub fn addresses(&self) -> Vec<&str> {
        self.listeners.iter().map(|l| l.name.as_str()).collect()
    }

    /// Returns whether clients on other machines are rejected, because no password is set and
    /// protected mode is on.
    pub fn is_protected(&self) -> bool {
        self.shared.is_protected()
    }

    /// Returns whether clients can use the server without a password.
    pub fn needs_no_password(&self) -> bool {
        self.shared.needs_no_password()
    }

    /// Sets the function that reopens the store. If the store's file is removed or replaced, the
    /// server switches to the store that the function returns. Without such a function, commands
    /// that write return an error after the file is removed or replaced.
    pub fn reopen_by(&self, reopen: Reopen) {
        self.shared.change.reopen_by(reopen);
    }

    /// Returns the number of threads that serve connections.
    pub fn threads(&self) -> usize {
        self.polls.len()
    }

    /// Returns a handle that stops the server.
    pub fn handle(&self) -> Handle {
        let published = self.listeners.iter().filter_map(|l| l.published.as_ref());
        Handle {
            shared: self.shared.clone(),
            published: published.map(Arc::downgrade).collect(),
        }
    }

    /// Serves clients until [`Handle::stop`] is called or a client sends SHUTDOWN. The calling
    /// thread becomes one of the server's threads.
    ///
    /// # Errors
    /// If a thread cannot be started, or if waiting for events fails.
    pub fn run(self) -> Result<(), Error> {
        let Server {
            shared,
            source,
            listeners,
            polls,
        } = self;
        let fail = |error| Error::new("waiting for connections", error);
        let listeners = Arc::new(listeners);
        let mailboxes = Arc::new(Mailboxes::new(polls.len()));
        let mut workers = Vec::with_capacity(polls.len());
        for (index, poll) in polls.into_iter().enumerate() {
            let worker = Worker::new(
                (shared.clone(), mailboxes.clone()),
                index,
                poll,
                Arc::clone(&listeners),
            );
            workers.push(worker.map_err(fail)?);
        }
        let mut workers = workers.into_iter();
        let Some(first) = workers.next() else {
            return Ok(());
        };
        drop(listeners);
        let syncing = sync_thread::start(&shared);
        let syncing = syncing.map_err(|error| Error::new("starting a thread", error))?;
        let mut threads = Vec::new();
        for (index, worker) in (1..).zip(workers) {
            let thread = thread::Builder::new().name(format!("serve-{index}"));
            let guard = StopOnEnd(shared.clone());
            let spawned = thread.spawn(move || {
                let _guard = guard;
                worker.run()
            });
            threads.push(spawned.map_err(|error| Error::new("starting a thread", error))?);
        }
        let guard = StopOnEnd(shared.clone());
        follow(&shared, source);
        let mut result = first.run();
        drop(guard);
        shared.following.end();
        for thread in threads {
            match thread.join() {
                Ok(ended) => result = result.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        if let Err(panic) = syncing.join() {
            std::panic::resume_unwind(panic);
        }
        result.map_err(fail)
    }
}

/// Follows a source: the given one, or the one that a server followed last.
fn follow(shared: &Shared, source: Option<(String, u16)>) {
    let store = shared.store();
    let last = || {
        let link = store.source_link().ok().flatten();
        let link = link.filter(|link| link.is_server && store.is_replica());
        link.map(|link| (link.host, link.port))
    };
    if let Some((host, port)) = source.or_else(last)
        && let Err(error) = shared.follow(Some((&host, port)))
    {
        log(format_args!("{host}:{port} is not followed: {error}"));
    }
}

/// Stops the server when one of its threads ends with an error or a panic, because the thread's
/// connections would otherwise hang.
struct StopOnEnd(Arc<Shared>);

impl Drop for StopOnEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn listen(config: &Config) -> Result<Vec<Listener>, Error> {
    let backlog = config.integer("tcp-backlog") as i32;
    let mut listeners = Vec::new();
    let addresses = text(config.value("bind"));
    for (name, is_encrypted) in [("port", false), ("tls-port", true)] {
        let Ok(port @ 1..) = u16::try_from(config.integer(name)) else {
            continue;
        };
        for address in addresses.split(' ').filter(|address| !address.is_empty()) {
            listeners.extend(Listener::tcp(address, (port, is_encrypted), backlog)?);
        }
    }
    let path = text(config.value("unixsocket"));
    if !path.is_empty() {
        let mode = u32::from_str_radix(&text(config.value("unixsocketperm")), 8).unwrap_or(0);
        let access = SocketAccess::new(mode, &text(config.value("unixsocketgroup")))?;
        listeners.push(Listener::unix(Path::new(&path), &access, backlog)?);
    }
    if listeners.is_empty() {
        let text = "expected a port above 0 with an address to bind, or a unix socket";
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, text);
        return Err(Error::new("listening", error));
    }
    Ok(listeners)
}

/// Opens the file of the audit log, if the configuration names one.
fn audit_file(config: &Config) -> Result<Option<Arc<AuditFile>>, Error> {
    let path = text(config.value("audit-log"));
    if path.is_empty() {
        return Ok(None);
    }
    let file = AuditFile::open(Path::new(&path), config.boolean("audit-log-required"));
    let file = file.map_err(|error| Error::new(format!("opening the audit log {path}"), error))?;
    Ok(Some(Arc::new(file)))
}

/// Returns the proxies that announce their clients.
fn proxies(config: &Config) -> Result<Proxies, Error> {
    let sources = Proxies::parse(&text(config.value("proxy-protocol-sources")));
    let fail = |text: String| {
        let error = io::Error::new(io::ErrorKind::InvalidInput, text);
        Error::new("preparing for proxies", error)
    };
    match (config.boolean("proxy-protocol"), sources.map_err(fail)?) {
        (true, sources) if sources.is_empty() => Err(fail(
            "proxy-protocol is yes: expected the addresses of the proxies in proxy-protocol-sources"
                .to_owned(),
        )),
        (true, sources) => Ok(sources),
        (false, _) => Ok(Proxies::default()),
    }
}

fn text(value: Value) -> String {
    String::from_utf8_lossy(&value.text()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use undercroft_engine::Options as StoreOptions;

    #[test]
    fn panic_of_a_thread_stops_the_server() {
        let directory = tempfile::tempdir().expect("a directory");
        let options = StoreOptions {
            capacity: Some(64 << 20),
            shards: Some(1),
            ring: None,
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a store");
        let config = default_config();
        let socket = directory.path().join("socket");
        for (name, value) in [
            ("port", "0"),
            ("unixsocket", socket.to_str().expect("ASCII")),
        ] {
            let set = config.set_at_start(name, value);
            assert_eq!(set, Ok(None));
        }
        let server = Server::bind(store, config, Options::default()).expect("a free path");
        let shared = server.shared.clone();
        let panicked = thread::spawn(move || {
            let _guard = StopOnEnd(shared);
            panic!("as a thread that serves might");
        });
        server.run().expect("it ends");
        assert!(panicked.join().is_err() && !socket.exists());
    }
}
