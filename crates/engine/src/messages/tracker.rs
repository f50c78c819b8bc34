//! Reading the names of changed keys (M3), for a server whose clients cache values.

use std::ops::Deref;
use std::os::fd::BorrowedFd;

use undercroft_memory::{ChangedKey, TrackerPlace, changed_keys, defer_signals};

use crate::error::Error;
use crate::handle::store::Store;
use crate::messages::seating::Seating;
use crate::messages::tracked_keys::TrackedKeys;
use crate::structures::roots::CHANGED_KEYS;

/// A reader of the names of changed keys, for use by one thread at a time. While any tracker is
/// active, all processes record the changes of the keys that any tracker tracks.
///
/// ```
/// # use undercroft_engine::{Options, Store};
/// # use undercroft_engine::messages::{ChangedKey, Tracker};
/// # let directory = tempfile::tempdir_in("/dev/shm").unwrap();
/// # let path = directory.path().join("store");
/// let store = Store::open_or_create(&path, &Options::default())?;
/// let mut tracker = Tracker::new(&store);
/// let mut tracked = tracker.begin()?;
/// tracked.add(b"key", true);
/// store.set(0, b"key", b"value")?;
/// store.set(0, b"another", b"value")?;
/// let mut keys = Vec::new();
/// tracker.collect(|changed| {
///     if let ChangedKey::Key(key, _) = changed {
///         keys.push(key.to_vec());
///     }
/// })?;
/// assert_eq!(keys, [b"key"]);
/// # Ok::<(), undercroft_engine::Error>(())
/// ```
pub struct Tracker<S: Deref<Target = Store>> {
    store: S,
    seating: Seating,
    /// The place in the list of trackers, while the tracker is active.
    place: Option<TrackerPlace>,
    /// Whether all keys are tracked.
    tracks_all: bool,
    /// The position of the next record in each shard. Empty while the tracker is not active.
    positions: Vec<u64>,
    bytes: Vec<u8>,
}

impl<S: Deref<Target = Store>> Tracker<S> {
    /// Creates a tracker that is not active.
    pub fn new(store: S) -> Tracker<S> {
        Tracker {
            store,
            seating: Seating::default(),
            place: None,
            tracks_all: false,
            positions: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Returns whether the tracker is active.
    pub fn is_active(&self) -> bool {
        self.place.is_some()
    }

    /// Makes the tracker active, if it is not, and returns the keys that it tracks: none at first.
    ///
    /// # Errors
    /// Fails if the tracker is active, if the store is not writable, if a lock cannot be acquired, or
    /// if 16 processes track keys already.
    pub fn begin(&mut self) -> Result<TrackedKeys<S>, Error>
    where
        S: Clone,
    {
        if self.is_active() {
            return Err(Error::Name("the tracker is active already".into()));
        }
        self.seating.take(&self.store.segment)?;
        let Some(place) = self.seating.begin_tracking(&self.store.segment)? else {
            return Err(Error::Name(
                "16 servers track changed keys of this store; stop one of them first".into(),
            ));
        };
        self.place = Some(place);
        match self.ends() {
            Ok(positions) => {
                self.positions = positions;
                Ok(TrackedKeys::new(self.store.clone(), place))
            }
            Err(error) => {
                self.end();
                Err(error)
            }
        }
    }

    /// Returns the positions after the last records of all shards.
    fn ends(&self) -> Result<Vec<u64>, Error> {
        let shards = self.store.all_shards();
        self.store.read(shards, |reader| {
            let end = |shard| reader.view().root(shard, CHANGED_KEYS);
            Ok::<_, Error>(shards.iter().map(end).collect())
        })
    }

    /// Tracks all keys: [`collect`](Self::collect) then returns every key whose change was not visible
    /// before this call returned. Has no effect on a tracker that is not active. Locks all shards
    /// once, unless all keys are tracked already.
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired. No further keys are then tracked.
    pub fn track_all(&mut self) -> Result<(), Error> {
        let Some(place) = self.place.filter(|_| !self.tracks_all) else {
            return Ok(());
        };
        self.tracks_all = true;
        self.store.segment.track_all_keys(place, true);
        let waited = self.store.write(self.store.all_shards(), |_| Ok(()));
        waited.inspect_err(|_| self.track_fewer())
    }

    /// Ends the tracking of all keys. The [tracked keys](TrackedKeys) remain.
    pub fn track_fewer(&mut self) {
        if let Some(place) = self.place.filter(|_| self.tracks_all) {
            self.tracks_all = false;
            self.store.segment.track_all_keys(place, false);
        }
    }

    /// Returns the number with which [`Origin`](crate::Origin) attributes changes to a client of this
    /// process. The tracker must be active.
    pub fn origin_of(&self, client: u64) -> u64 {
        let seat = self.seating.name(&self.store.segment);
        seat.map_or(0, |seat| seat.bits().rotate_left(48) ^ client)
    }

    /// Ends the tracking of keys. Processes record changed keys as long as another tracker is active.
    pub fn end(&mut self) {
        self.positions = Vec::new();
        (self.place, self.tracks_all) = (None, false);
        self.seating.end_tracking(&self.store.segment);
    }

    /// Calls `found` with all tracked keys that were changed since the last call, up to one moment,
    /// and with other keys of the same slots. A key can be returned several times.
    /// [`ChangedKey::All`] also stands for keys that were overwritten before they were read. O(changed keys + shards).
    ///
    /// # Errors
    /// Fails if a writer holds a lock for too long. The keys are then returned by a later call.
    pub fn collect(&mut self, mut found: impl FnMut(ChangedKey<'_>)) -> Result<(), Error> {
        if !self.is_active() {
            return Ok(());
        }
        let ends = self.ends()?;
        for (shard, (position, end)) in self.positions.iter_mut().zip(ends).enumerate() {
            if *position == end {
                continue;
            }
            self.bytes.clear();
            let (from, segment) = (*position, &self.store.segment);
            *position = end;
            match segment.read_changed_keys(shard, (from, end), &mut self.bytes) {
                true => changed_keys(from, &self.bytes).for_each(&mut found),
                false => found(ChangedKey::All),
            }
        }
        Ok(())
    }

    /// Returns a descriptor for event loops. The descriptor is readable when keys were changed, and
    /// also ten times a second, because a killed process can lose a wake.
    ///
    /// # Errors
    /// Fails if the store is not writable.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        self.seating.take(&self.store.segment)?;
        self.seating.descriptor(&self.store.segment)
    }

    /// Prepares for a wait at the [descriptor](Self::descriptor): the next change makes it readable.
    /// `rung` indicates whether it was readable. Returns whether the caller must
    /// [collect](Self::collect) once more before it waits.
    pub fn arm(&mut self, rung: bool) -> bool {
        self.seating.arm(&self.store.segment, rung)
    }
}

impl<S: Deref<Target = Store>> Drop for Tracker<S> {
    fn drop(&mut self) {
        let _deferred = defer_signals();
        self.end();
        self.seating.leave(&self.store.segment);
    }
}
