//! Follows a source until it is told to stop.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use undercroft_commands::context::Host;
use undercroft_engine::{
    AppliedPosition, LinkStatus, REPLICATION_ID, RoleLock, Source, SourceLink, Store,
};

use crate::follow::changes::Changes;
use crate::follow::error::{FollowError, is_lack_of_space};
use crate::follow::filter::KeyFilter;
use crate::follow::link::{LOOK, Link};
use crate::follow::probe;
use crate::follow::sentinel;
use crate::follow::source_url::{Address, SourceUrl};
use crate::follow::state::FollowState;
use crate::follow::transfer;
use crate::load::LoadOptions;

/// The interval at which the source is told how far its changes are applied.
const ACKNOWLEDGING: Duration = Duration::from_secs(1);
/// The interval at which the state of the connection is recorded in the store, so that other
/// processes know that it is current.
const RECORDING: Duration = Duration::from_secs(1);
/// The pauses before the first and between later attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The pause before a change is tried again for which there was no space.
const SPACE_PAUSE: Duration = Duration::from_millis(500);
/// The minimum pause before a data set is requested again for which there was no space, because it
/// costs the source as much as a snapshot.
const LOAD_PAUSE: Duration = Duration::from_secs(10);

/// How to follow a source.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// The source.
    pub url: SourceUrl,
    /// How to load its data sets.
    pub load: LoadOptions,
    /// The keys of the source that the store has.
    pub filter: KeyFilter,
    /// Whether to wait while another process follows a source for the store, and to take its place
    /// when it ends. Otherwise, this is an error.
    pub is_elected: bool,
    /// The port that the source shows for this replica, or 0.
    pub listening_port: u16,
    /// Whether a server follows, which does so again after its next start.
    pub is_server: bool,
}

/// A follower of a source.
pub struct Follower<'a> {
    store: &'a Store,
    host: Host<'a>,
    options: FollowOptions,
    state: &'a FollowState,
    stops: &'a dyn Fn() -> bool,
    /// The record of the connection in the store.
    link: RefCell<SourceLink>,
    /// Whether the next connection must load the data set, although the store has a place in the
    /// stream.
    must_reload: Cell<bool>,
}

/// How the source continues.
enum Begun {
    /// With the changes after the place that the store has.
    Partial(Source),
    /// With a complete data set.
    Full(Source),
}

impl<'a> Follower<'a> {
    /// Returns a follower that is not connected. `store` must be a handle that
    /// [applies a source](Store::apply_source). `stops` returns true to end the work.
    pub fn new(
        store: &'a Store,
        host: Host<'a>,
        options: FollowOptions,
        state: &'a FollowState,
        stops: &'a dyn Fn() -> bool,
    ) -> Follower<'a> {
        Follower {
            store,
            host,
            options,
            state,
            stops,
            link: RefCell::default(),
            must_reload: Cell::default(),
        }
    }

    /// Makes the store a replica and follows the source. Connects again whenever the connection is
    /// lost. Returns once `stops` returns true or the store is no replica any more.
    ///
    /// # Errors
    /// Fails if another attempt cannot succeed: the store fails, or the source has data or changes
    /// that a store cannot hold.
    pub fn run(&self) -> Result<(), FollowError> {
        let Some(_lock) = self.lock()? else {
            return Ok(());
        };
        self.state.update(|progress| progress.error = None);
        // After the death of another follower the store is a replica, unless the role has just ended.
        if !self.store.is_replica() {
            self.store.set_replica(true)?;
        }
        if let Some(before) = self.store.source_link()? {
            // How current the store is does not depend on the process that follows.
            self.link.borrow_mut().current = before.current;
        }
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let (url, state) = (&self.options.url, self.state);
            let probe = scope.spawn(|| probe::run(url, state, &ends));
            let ended = self.follow();
            ends.store(true, Ordering::Release);
            probe.thread().unpark();
            ended
        })
    }

    /// Follows the source until the work must end.
    fn follow(&self) -> Result<(), FollowError> {
        let mut pause = PAUSES.0;
        while !self.must_stop() {
            let (connected, mut least) = (Instant::now(), Duration::ZERO);
            // No change has to wait until it is durable, because the place in the source's stream is
            // recovered together with the changes before it.
            let (ended, _) = self.store.deferring(|| self.follow_once());
            self.state
                .update(|progress| progress.status = LinkStatus::Down);
            let ended = ended.and(self.record());
            match ended {
                Ok(()) | Err(FollowError::Stopped) => {}
                Err(error) => {
                    let text = error.to_string();
                    self.state.update(|progress| progress.error = Some(text));
                    let _ = self.record();
                    if error.is_final() {
                        return Err(error);
                    }
                    if matches!(error, FollowError::Unfiltered(_)) {
                        self.must_reload.set(true);
                    }
                    if error.is_lack_of_space() {
                        least = LOAD_PAUSE;
                        // Readers and other stores need the memory of the incomplete data set.
                        let _ = self.store.begin_loading();
                    }
                }
            }
            if connected.elapsed() > PAUSES.1 {
                pause = PAUSES.0;
            }
            self.wait(pause.max(least));
            pause = (2 * pause).min(PAUSES.1);
        }
        Ok(())
    }

    /// Takes the lock of the process that follows a source. Returns `None` if the work must end.
    fn lock(&self) -> Result<Option<RoleLock>, FollowError> {
        let mut was_replica = false;
        loop {
            let lock = self.store.lock_following()?;
            let is_replica = self.store.is_replica();
            if was_replica && !is_replica {
                // The role was ended, and must not begin again.
                return Ok(None);
            }
            was_replica |= is_replica;
            match lock {
                Some(lock) => return Ok(Some(lock)),
                None if !self.options.is_elected => return Err(FollowError::Followed),
                None if (self.stops)() => return Ok(None),
                None => {
                    let text =
                        "another process follows a source for this store; waiting for its end";
                    self.state
                        .update(|progress| progress.error = Some(text.to_owned()));
                    thread::sleep(LOOK);
                }
            }
        }
    }

    /// Records the state of the connection in the store, for all processes.
    fn record(&self) -> Result<(), FollowError> {
        self.state.settle();
        let progress = self.state.progress();
        let now = self.store.now();
        let mut link = self.link.borrow_mut();
        if link.status != progress.status || link.since == 0 {
            (link.status, link.since) = (progress.status, now);
        }
        if let Some(heard) = progress.heard {
            link.heard = now.saturating_sub(heard.elapsed().as_millis() as u64);
        }
        if let Some(current) = progress.current {
            link.current = now.saturating_sub(current.elapsed().as_millis() as u64);
        }
        link.is_server = self.options.is_server;
        link.recorded = now;
        link.offset = progress.offset;
        link.source_offset = progress.source_offset;
        link.loaded_bytes = progress.loaded_bytes;
        link.error = progress.error.unwrap_or_default();
        match self.store.set_source_link(&link) {
            // The reports matter less than the changes.
            Err(error) if is_lack_of_space(&error) => Ok(()),
            recorded => Ok(recorded?),
        }
    }

    /// Notes the address of the source in the record.
    fn note_address(&self, address: &Address) {
        let mut link = self.link.borrow_mut();
        (link.host, link.port) = match address {
            Address::Tcp { host, port } => (host.clone(), *port),
            Address::Unix(path) => (path.display().to_string(), 0),
        };
    }

    fn must_stop(&self) -> bool {
        (self.stops)() || !self.store.is_replica()
    }

    /// Connects once, and follows until the connection is lost.
    fn follow_once(&self) -> Result<(), FollowError> {
        let stops = || self.must_stop();
        let address = sentinel::find(&self.options.url, &stops)?;
        self.note_address(&address);
        self.record()?;
        let mut link = Link::connect(&address, self.options.url.is_encrypted, &stops)?;
        link.log_in(&self.options.url)?;
        self.introduce(&mut link)?;
        let source = match self.begin(&mut link)? {
            Begun::Partial(source) => {
                self.state.update(|progress| progress.partial_resyncs += 1);
                source
            }
            Begun::Full(source) => {
                self.state
                    .update(|progress| progress.status = LinkStatus::Loading);
                self.record()?;
                let load = (&self.options.load, &self.options.filter);
                let recorded = Cell::new(Instant::now());
                let record = || {
                    if recorded.get().elapsed() >= RECORDING {
                        recorded.set(Instant::now());
                        // The data set matters more than the reports.
                        let _ = self.record();
                    }
                };
                let libraries = |texts: &[Vec<u8>]| self.load_libraries(texts);
                let to = (self.store, self.state);
                let source = transfer::receive(&mut link, to, &source, load, &record, &libraries)?;
                self.must_reload.set(false);
                source
            }
        };
        self.state.forget_source();
        self.state.update(|progress| {
            progress.status = LinkStatus::Up;
            progress.offset = source.position.offset;
            progress.error = None;
        });
        self.record()?;
        self.apply(&mut link, source.position)
    }

    /// Tells the source the abilities of this replica.
    fn introduce(&self, link: &mut Link<'_>) -> Result<(), FollowError> {
        link.expect_ok(&[b"PING"])?;
        if self.options.listening_port != 0 {
            let port = self.options.listening_port.to_string();
            link.expect_ok(&[b"REPLCONF", b"listening-port", port.as_bytes()])?;
        }
        link.expect_ok(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])
    }

    /// Begins the replication, if possible where the store's changes end.
    fn begin(&self, link: &mut Link<'_>) -> Result<Begun, FollowError> {
        let filter = self.options.filter.to_bytes();
        if self.store.source_filter()? != filter {
            // The store has another part of the source.
            self.store.forget_source()?;
            self.store.set_source_filter(&filter)?;
        }
        let known = self.store.source()?.filter(|_| !self.must_reload.get());
        let reply = match &known {
            Some(source) => {
                let next = (source.position.offset + 1).to_string();
                link.ask(&[b"PSYNC", &source.id, next.as_bytes()])?
            }
            None => link.ask(&[b"PSYNC", b"?", b"-1"])?,
        };
        let words: Vec<&str> = reply.split_ascii_whitespace().collect();
        let wrong = || FollowError::Protocol(format!("{:.100}", reply.escape_debug()));
        match (&words[..], known) {
            ([first, ..], _) if first.starts_with('-') => {
                Err(FollowError::Refused(reply[1..].to_owned()))
            }
            (["+CONTINUE"], Some(source)) => Ok(Begun::Partial(source)),
            (["+CONTINUE", id], Some(source)) => {
                let id = replication_id(id).ok_or_else(wrong)?;
                let source = Source { id, ..source };
                self.store.set_source(&source)?;
                Ok(Begun::Partial(source))
            }
            (["+FULLRESYNC", id, offset], _) => {
                let id = replication_id(id).ok_or_else(wrong)?;
                let offset = offset.parse().ok();
                let offset = offset.filter(|&offset: &u64| offset < 1 << 59);
                let position = AppliedPosition {
                    offset: offset.ok_or_else(wrong)?,
                    database: 0,
                };
                Ok(Begun::Full(Source { id, position }))
            }
            _ => Err(wrong()),
        }
    }

    fn changes<'c>(
        &'c self,
        stops: &'c dyn Fn() -> bool,
        position: AppliedPosition,
    ) -> Result<Changes<'c>, FollowError> {
        let (filter, load) = (&self.options.filter, &self.options.load);
        let to = (self.store, filter, load.drop_field_expiry);
        Changes::new(to, self.host, self.state, stops, position)
    }

    /// Replaces the store's function libraries with those of the source.
    fn load_libraries(&self, texts: &[Vec<u8>]) -> Result<(), FollowError> {
        let position = AppliedPosition::default();
        let stops = || self.must_stop();
        let mut changes = self.changes(&stops, position)?;
        changes.replace_libraries(texts)
    }

    /// Reports that there is no space for a change, and waits before the next attempt.
    fn wait_for_space(&self, error: &FollowError) -> Result<(), FollowError> {
        let text = error.to_string();
        self.state.update(|progress| progress.error = Some(text));
        self.wait(SPACE_PAUSE);
        match self.must_stop() {
            true => Err(FollowError::Stopped),
            false => Ok(()),
        }
    }

    /// Waits for some time, or until the work must end.
    fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.must_stop() {
            thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn apply(&self, link: &mut Link<'_>, position: AppliedPosition) -> Result<(), FollowError> {
        let stops = || self.must_stop();
        let mut changes = self.changes(&stops, position)?;
        let (mut acknowledged, mut recorded) = (None, Instant::now());
        let mut lacks_space = false;
        loop {
            let (used, applied) = changes.apply(&link.input);
            link.input.drain(..used);
            let lacked_space = std::mem::replace(
                &mut lacks_space,
                applied.as_ref().is_err_and(FollowError::is_lack_of_space),
            );
            match &applied {
                Err(error) if lacks_space => self.wait_for_space(error)?,
                _ => applied?,
            }
            if lacked_space && !lacks_space {
                self.state.update(|progress| progress.error = None);
            }
            // A process may wait for a place after which the source has sent no change.
            changes.record_position()?;
            let is_due = acknowledged.is_none_or(|at: Instant| at.elapsed() >= ACKNOWLEDGING);
            if is_due || changes.wants_position {
                changes.wants_position = false;
                acknowledged = Some(Instant::now());
                let offset = changes.applied().offset;
                let heard = link.heard();
                self.state.update(|progress| {
                    progress.heard = Some(heard);
                    progress.offset = offset;
                });
                // The source must hear from this replica even while there is no space.
                link.send(&[b"REPLCONF", b"ACK", offset.to_string().as_bytes()])?;
                if recorded.elapsed() >= RECORDING {
                    recorded = Instant::now();
                    self.record()?;
                }
            }
            if !lacks_space {
                link.receive()?;
            }
        }
    }
}

fn replication_id(text: &str) -> Option<[u8; REPLICATION_ID]> {
    let id: [u8; REPLICATION_ID] = text.as_bytes().try_into().ok()?;
    id.iter().all(u8::is_ascii_hexdigit).then_some(id)
}
