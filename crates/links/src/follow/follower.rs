//! Follows a source until it is told to stop.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use undercroft_commands::context::Host;
use undercroft_engine::{AppliedPosition, LinkStatus, RoleLock, Source, SourceLink, Store};

use crate::follow::applying::{self, LOAD_PAUSE, PAUSES, RECORDING};
use crate::follow::changes::Changes;
use crate::follow::client::SourceClient;
use crate::follow::cluster;
use crate::follow::error::{FollowError, is_lack_of_space};
use crate::follow::handshake::{self, Begun};
use crate::follow::link::{LOOK, Link};
use crate::follow::options::FollowOptions;
use crate::follow::part::Part;
use crate::follow::probe;
use crate::follow::sentinel;
use crate::follow::source_url::Address;
use crate::follow::state::FollowState;
use crate::follow::transfer;

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
        let mut pause = PAUSES.0;
        while !self.must_stop() {
            match self.is_cluster() {
                Ok(false) => return self.follow_server(),
                Ok(true) => return self.follow_cluster(),
                Err(error) => {
                    let text = error.to_string();
                    self.state.update(|progress| progress.error = Some(text));
                    self.record()?;
                    if error.is_final() {
                        return Err(error);
                    }
                }
            }
            self.wait(pause);
            pause = (2 * pause).min(PAUSES.1);
        }
        Ok(())
    }

    /// Returns whether the source is a node of a cluster.
    fn is_cluster(&self) -> Result<bool, FollowError> {
        let url = &self.options.url;
        if url.is_cluster || url.master.is_some() {
            return Ok(url.is_cluster);
        }
        if let Some(address) = url.addresses.first() {
            self.note_address(address);
        }
        let stops = || self.must_stop();
        let asked =
            SourceClient::connect(url, &stops).and_then(|mut client| client.info("cluster"));
        match asked {
            Ok(lines) => Ok(lines.contains(&("cluster_enabled".into(), "1".into()))),
            // A user who may not run INFO can still replicate.
            Err(FollowError::Command(_)) => Ok(false),
            // Other nodes of a cluster can be there.
            Err(FollowError::Io(_)) if self.store.cluster_source()?.is_some() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Follows all masters of a cluster until the work must end.
    fn follow_cluster(&self) -> Result<(), FollowError> {
        if let Some(address) = self.options.url.addresses.first() {
            self.note_address(address);
        }
        let stops = || self.must_stop();
        let record = || self.record();
        cluster::run(
            (self.store, self.host),
            &self.options,
            (self.state, &record),
            &stops,
        )
    }

    /// Follows a single server until the work must end.
    fn follow_server(&self) -> Result<(), FollowError> {
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
        let mut link = self.link.borrow_mut();
        self.state.fill(&mut link, self.store.now());
        link.is_server = self.options.is_server;
        link.is_encrypted = self.options.url.is_encrypted;
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
        let mut link = Link::connect(&address, &self.options.url, &stops)?;
        link.log_in(&self.options.url)?;
        handshake::introduce(&mut link, self.options.listening_port)?;
        let known = self.known()?;
        let source = match handshake::begin(&mut link, known)? {
            Begun::Partial(source) => {
                if known.is_none_or(|known| known.id != source.id) {
                    // A replica took its source's place.
                    self.store.set_source(&source)?;
                }
                self.state.update(|progress| progress.partial_resyncs += 1);
                source
            }
            Begun::Full(source) => self.load(&mut link, &source)?,
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

    /// Returns the place in the source's stream that the store has.
    fn known(&self) -> Result<Option<Source>, FollowError> {
        let filter = self.options.filter.to_bytes();
        if self.store.source_filter()? != filter || self.store.cluster_source()?.is_some() {
            // The store has another part of the source, or another source.
            self.store.forget_source()?;
            self.store.set_source_filter(&filter)?;
        }
        Ok(self.store.source()?.filter(|_| !self.must_reload.get()))
    }

    /// Loads the data set that the source sends, and replaces all keys with it in one step. Until then,
    /// all processes read the old ones.
    fn load(&self, link: &mut Link<'_>, source: &Source) -> Result<Source, FollowError> {
        self.state
            .update(|progress| progress.status = LinkStatus::Loading);
        self.record()?;
        let recorded = Cell::new(Instant::now());
        let record = || {
            if recorded.get().elapsed() >= RECORDING {
                recorded.set(Instant::now());
                // The data set matters more than the reports.
                let _ = self.record();
            }
        };
        let place = |database, key: &[u8]| {
            let is_followed = self.options.filter.has(database, key);
            is_followed.then_some(database)
        };
        let (to, options) = ((self.store, self.state), &self.options.load);
        self.store.begin_loading()?;
        let received = transfer::receive(link, to, source, options, &place, &record)?;
        // If this process dies in between, the place in the stream is not recorded, and the next
        // process receives everything again.
        self.load_libraries(&received.libraries)?;
        self.store.finish_loading(&received.source)?;
        self.state.update(|progress| {
            progress.loaded_keys = received.keys;
            progress.full_resyncs += 1;
        });
        self.must_reload.set(false);
        Ok(received.source)
    }

    fn changes<'c>(
        &'c self,
        stops: &'c dyn Fn() -> bool,
        position: AppliedPosition,
    ) -> Result<Changes<'c>, FollowError> {
        let (filter, load) = (&self.options.filter, &self.options.load);
        let to = (self.store, filter as &dyn Part, load.drop_field_expiry);
        Changes::new(to, self.host, self.state, stops, position)
    }

    /// Replaces the store's function libraries with those of the source.
    fn load_libraries(&self, texts: &[Vec<u8>]) -> Result<(), FollowError> {
        let position = AppliedPosition::default();
        let stops = || self.must_stop();
        let mut changes = self.changes(&stops, position)?;
        changes.replace_libraries(texts)
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
        let wait = |time| {
            self.wait(time);
            match self.must_stop() {
                true => Err(FollowError::Stopped),
                false => Ok(()),
            }
        };
        applying::apply(link, &mut changes, self.state, &|| self.record(), &wait)
    }
}
