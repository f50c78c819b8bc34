//! Implements the server's interface for commands.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use undercroft_commands::config::{Parameter, Value};
use undercroft_commands::context::{
    Connections, Control, Facts, ForwardedRequest, Host, Inbox, Replicas, ShutdownOptions,
    SnapshotFile,
};
use undercroft_commands::reply::Tree;
use undercroft_commands::session::{ClientInfo, KillFilter, Moment, Session, Tracking};
use undercroft_engine::messages::Topic;
use undercroft_engine::waiting::{WaitOutcome, Wanted};
use undercroft_engine::{Access, Error, Store};

use crate::log::log;
use crate::shared::exchange;
use crate::shared::files::dump_file::DumpFile;
use crate::shared::forwarding::Terms;
use crate::shared::limits::make_room_for;
use crate::shared::source;
use crate::shared::state::Shared;
use crate::shared::tracking::Reader;
use crate::sockets::certificates::Certificates;

/// The minimum interval between two log lines about HTTP requests, in microseconds.
const BETWEEN_SUSPICIONS: i64 = 60_000_000;

/// How long SHUTDOWN waits until all changes are durable.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The parameters that name files which a changed TLS configuration reads.
pub(crate) const FILES_OF_TLS: &[&str] = &[
    "tls-cert-file",
    "tls-key-file",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
];

impl Shared {
    /// Returns how the server is restricted: `landlock`, `partial` on a kernel that does not enforce
    /// all restrictions, or `none`.
    fn sandbox_state(&self) -> &'static str {
        match self.files.sandbox.get() {
            Some(sandbox) if sandbox.is_complete => "landlock",
            Some(_) => "partial",
            None => "none",
        }
    }

    /// Returns the server's interface for commands.
    pub(crate) fn host(&self) -> Host<'_> {
        Host::of(&self.process, self)
    }
}

impl Connections for Shared {
    fn clients(&self) -> Vec<ClientInfo> {
        self.registry
            .clients(self.process.now_microseconds() / 1000)
    }

    fn change_users(&self) {
        self.announce_users();
    }

    fn fail_login(&self, session: &Session) {
        let now = self.process.now_microseconds() / 1000;
        self.login_delays.fail(&session.peer.address, now);
    }

    fn login_delay(&self, session: &Session) -> Option<Duration> {
        let now = self.process.now_microseconds() / 1000;
        self.login_delays.delay(&session.peer.address, now)
    }

    fn pause(&self, until: i64, all: bool) -> Result<(), String> {
        self.pause.begin(until, all);
        self.store().keep_expired_until(self.pause.until());
        Ok(())
    }

    fn unpause(&self) {
        self.pause.end();
        self.store().keep_expired_until(0);
    }

    fn kill(&self, filter: &KillFilter) -> usize {
        let killed = self
            .registry
            .kill(filter, self.process.now_microseconds() / 1000);
        for card in &killed {
            self.threads[card.worker].close_killed();
        }
        killed.len()
    }

    fn suspect(&self, session: &Session) {
        let now = self.process.now_microseconds();
        let told = self.told_suspicion.load(Ordering::Relaxed);
        let is_told = now.saturating_sub(told) < BETWEEN_SUSPICIONS && told != 0;
        let mine = || {
            let swapped = self.told_suspicion.compare_exchange(
                told,
                now,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            swapped.is_ok()
        };
        if !is_told && mine() {
            log(format_args!(
                "disconnected {}: it sent POST or Host: as a command, which may be an attack from \
                 a web page in a browser (cross-protocol scripting)",
                session.peer.address
            ));
        }
    }

    fn is_monitored(&self) -> bool {
        self.monitors.any()
    }

    fn monitor(&self, session: &Session) -> Result<(), String> {
        self.monitors.begin(session.peer.route);
        Ok(())
    }

    fn is_connected(&self, id: u64) -> bool {
        self.registry.route(id).is_some()
    }

    fn begin_tracking(&self, session: &Session, tracking: &Tracking) -> Result<u64, Error> {
        self.tracking.begin(session, tracking)
    }

    fn end_tracking(&self, session: &Session) {
        self.tracking.end(session.id);
    }

    fn remember_keys(
        &self,
        session: &Session,
        moment: Moment,
        keys: &mut dyn Iterator<Item = &[u8]>,
    ) {
        let reader = Reader {
            id: session.id,
            moment,
        };
        self.with_surroundings(|around| self.tracking.remember(reader, keys, around));
    }

    fn end_monitor(&self, session: &Session) {
        self.monitors.end(session.peer.route);
    }

    fn show(&self, session: &Session, line: &[u8]) {
        self.monitors.show(line, |thread| {
            // Do not wake the thread that runs the command: it sends its own lines before it
            // sleeps.
            if thread != session.peer.route.0 {
                self.threads[thread].waker.wake();
            }
        });
    }
}

impl Inbox for Shared {
    fn take_or_wait(
        &self,
        session: &Session,
        _: Access<'_>,
        wanted: &Wanted<'_>,
        _: Option<Duration>,
    ) -> Result<WaitOutcome, Error> {
        // The connection's thread handles the timeout.
        self.waiting(session.peer.route.0).begin(wanted)
    }

    fn unblock(&self, id: u64, with_error: bool) -> Result<bool, Error> {
        match self.registry.ticket(id) {
            Some(ticket) => self.store().unblock(ticket, with_error),
            None => {
                let thread = self.registry.unblock_wait(id, with_error);
                if let Some(thread) = thread {
                    self.threads[thread].look_at_waits();
                }
                Ok(thread.is_some())
            }
        }
    }

    fn subscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let (thread, token) = session.peer.route;
        self.hub(thread).subscribe(token, topic, names)
    }

    fn unsubscribe(&self, session: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let (thread, token) = session.peer.route;
        self.hub(thread).unsubscribe(token, topic, names);
        Ok(())
    }
}

impl Control for Shared {
    fn follow(&self, source: Option<(&str, u16)>) -> Result<bool, String> {
        let store = self.store();
        let failed = |error: &dyn std::fmt::Display| format!("ERR {error}");
        match source {
            Some((host, port)) => {
                // Changes are refused from now on, not only once the source answers.
                store.set_replica(true).map_err(|error| failed(&error))?;
                // A replica refuses WAIT.
                self.look_at_waits();
                let (server, address) = (self.me.upgrade(), (host.to_owned(), port));
                let begun = self.following.begin((host, port), move |must_stop| {
                    let Some(server) = server else { return };
                    if let Err(error) = source::follow(&server, address, must_stop) {
                        log(format_args!("the source is no longer followed: {error}"));
                    }
                });
                begun.map_err(|error| failed(&error))
            }
            None => {
                self.following.end();
                store.set_replica(false).map_err(|error| failed(&error))?;
                store.forget_source().map_err(|error| failed(&error))?;
                Ok(true)
            }
        }
    }

    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        const AT_START: &[&str] = &["port", "tls-port", "bind"];
        let fixed = changes.iter().find(|(parameter, value)| {
            AT_START.contains(&parameter.name)
                && *value != self.process.config.value(parameter.name)
        });
        if let Some((parameter, _)) = fixed {
            return Err((
                parameter,
                "it can be set only when the server starts".into(),
            ));
        }
        if let Some(sandbox) = self.files.sandbox.get() {
            for (parameter, value) in changes {
                let writes = parameter.name == "dir";
                let path = value.text();
                if (writes || FILES_OF_TLS.contains(&parameter.name)) && !path.is_empty() {
                    let path = Path::new(OsStr::from_bytes(&path));
                    sandbox
                        .check(path, writes)
                        .map_err(|error| (*parameter, error))?;
                }
            }
        }
        // Make the changes that can fail first, so that either all changes are made or none.
        let of_tls = |(parameter, _): &&(&Parameter, Value)| parameter.name.starts_with("tls-");
        let certificates = match changes.iter().find(of_tls) {
            Some((parameter, _)) if self.certificates().is_some() => {
                let value = |name: &str| {
                    let changed = changes.iter().find(|(parameter, _)| parameter.name == name);
                    let value = changed.map(|(_, value)| value.clone());
                    let value = value.unwrap_or_else(|| self.process.config.value(name));
                    String::from_utf8_lossy(&value.text()).into_owned()
                };
                let loaded = Certificates::load(&value);
                Some(loaded.map_err(|error| (*parameter, error))?)
            }
            _ => None,
        };
        let new = |name: &str| {
            let changed = changes.iter().find(|(parameter, _)| parameter.name == name);
            changed.map(|(parameter, value)| (*parameter, value.text()))
        };
        let (folder, name) = (new("dir"), new("dbfilename"));
        let old = |name: &str| self.process.config.value(name).text();
        let snapshot = match (&folder, &name) {
            (Some((parameter, folder)), name) => {
                let name = name.as_ref().map(|(_, name)| name.clone());
                let name = name.unwrap_or_else(|| old("dbfilename"));
                Some(DumpFile::in_folder(folder, &name).map_err(|error| (*parameter, error))?)
            }
            (None, Some((parameter, name))) if !old("dir").is_empty() => {
                Some(DumpFile::in_folder(&old("dir"), name).map_err(|error| (*parameter, error))?)
            }
            _ => None,
        };
        for (parameter, value) in changes {
            if let ("maxclients", Value::Integer(clients)) = (parameter.name, value) {
                let room = make_room_for(*clients as u64);
                if room < *clients as u64 {
                    let text = format!(
                        "The operating system is not able to handle the specified number of clients, try with {room}"
                    );
                    return Err((parameter, text));
                }
                self.room.store(room, Ordering::Relaxed);
                self.maxclients.store(*clients, Ordering::Relaxed);
            }
        }
        if let Some(snapshot) = snapshot {
            self.files.snapshot.store(Some(Arc::new(snapshot)));
        }
        if let Some(certificates) = certificates {
            self.set_certificates(certificates);
        }
        Ok(())
    }

    fn log(&self, level: u8, text: &[u8]) {
        const LEVELS: [&str; 4] = ["debug", "verbose", "notice", "warning"];
        let told = self.process.config.value("loglevel").text();
        let least = LEVELS.iter().position(|level| level.as_bytes() == told);
        if least.is_some_and(|least| usize::from(level) >= least) {
            log(format_args!("script: {}", String::from_utf8_lossy(text)));
        }
    }

    fn facts(&self) -> Facts {
        let totals = &self.totals;
        let total = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tracking = self.tracking.counts();
        Facts {
            tcp_port: self.tcp_port,
            sandbox: self.sandbox_state(),
            certificate_seconds_left: self.certificates().map(|loaded| loaded.seconds_left()),
            threads: self.threads.len(),
            config_file: self.files.config.clone(),
            connected_clients: self.registry.count(),
            blocked_clients: self.parked.load(Ordering::Relaxed) as u64
                + self.blocked.load(Ordering::Relaxed).max(0) as u64,
            tracking_clients: tracking.clients,
            tracking_keys: tracking.keys,
            tracking_items: tracking.items,
            tracking_prefixes: tracking.prefixes,
            connections: total(&totals.connections),
            rejected_connections: total(&totals.rejected),
            commands: total(&totals.commands),
            commands_per_second: total(&totals.commands_per_second),
            input_bytes: total(&totals.input_bytes),
            output_bytes: total(&totals.output_bytes),
            input_per_second: total(&totals.input_per_second),
            output_per_second: total(&totals.output_per_second),
            reads: total(&totals.reads),
            writes: total(&totals.writes),
            hits: total(&totals.hits),
            misses: total(&totals.misses),
            errors: total(&totals.errors),
        }
    }

    fn reset_statistics(&self) {
        let totals = &self.totals;
        for counter in [
            &totals.connections,
            &totals.rejected,
            &totals.commands,
            &totals.input_bytes,
            &totals.output_bytes,
            &totals.reads,
            &totals.writes,
            &totals.hits,
            &totals.misses,
            &totals.errors,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    fn journal_folder(&self) -> Option<PathBuf> {
        self.files.journal.clone()
    }

    fn snapshot_file(&self) -> Option<Arc<dyn SnapshotFile>> {
        let file = self.files.snapshot.load_full();
        file.map(|file| file as Arc<dyn SnapshotFile>)
    }

    fn exchange(
        &self,
        server: (&str, u16),
        timeout: Duration,
        commands: &[Vec<Vec<u8>>],
    ) -> Result<Vec<Option<String>>, String> {
        exchange::exchange(server, timeout, commands)
    }

    fn forwards_writes(&self) -> bool {
        self.forwarding.is_on()
    }

    fn forward(&self, request: &ForwardedRequest) -> Result<Tree, String> {
        let store = self.store();
        let config = &self.process.config;
        let terms = Terms {
            store: &store,
            user: config.value("masteruser").text(),
            password: config.value("masterauth").text(),
            value: &|name| String::from_utf8_lossy(&config.value(name).text()).into_owned(),
            stops: &|| self.stopping(),
        };
        self.forwarding.forward(&terms, request)
    }

    fn replicas(&self) -> Option<&dyn Replicas> {
        Some(self)
    }

    fn is_stopping(&self) -> bool {
        self.stopping()
    }

    fn sleep(&self, time: Duration) {
        let (lock, stopped) = &self.stopped;
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // The caller does not need to know whether the time elapsed or the server stopped.
        let _ = stopped.wait_timeout_while(guard, time, |()| !self.stopping());
    }

    fn shutdown(&self, options: ShutdownOptions) -> Result<(), String> {
        if options.abort {
            return Err("ERR No shutdown in progress.".into());
        }
        let store = self.store();
        let is_journaled = store.journal().is_some();
        let snapshot = self.snapshot_file().filter(|_| options.save == Some(true));
        if options.save == Some(true) && !is_journaled && snapshot.is_none() {
            return Err(
                "ERR the store has no journal: begin one with CONFIG SET appendonly yes, copy the \
                 store with undercroft export, or use SHUTDOWN NOSAVE"
                    .into(),
            );
        }
        if is_journaled && options.save != Some(false) && !options.force {
            let durable = store.wait_until_durable(store.journal_head(), LAST_WAIT);
            if let Err(error) = durable {
                log(format_args!("not shutting down: {error}"));
                return Err("ERR Errors trying to SHUTDOWN. Check logs.".into());
            }
        }
        if let Some(snapshot) = snapshot {
            let written = Store::open(store.path(), true)
                .map_err(|error| error.to_string())
                .and_then(|store| snapshot.write(&store));
            if written.is_err() && !options.force {
                return Err("ERR Errors trying to SHUTDOWN. Check logs.".into());
            }
        }
        self.stop();
        Ok(())
    }
}
