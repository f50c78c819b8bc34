//! Provides the stream commands.

use std::time::Duration;

use crate::command::{Cmd, FromReply, Reply, ToArgs, ToSingleArg, cmd};
use crate::error::Result;
use crate::store::Store;

/// An entry of a stream.
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// store.xadd("events", "1-1", ("kind", "login"))?;
/// let entry: undercroft::StreamEntry = store.xrange("events", "-", "+")?.remove(0);
/// assert_eq!((&*entry.id, entry.get("kind")), ("1-1", Some(&b"login"[..])));
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamEntry {
    /// The entry's ID, such as `1718000000000-0`.
    pub id: String,
    /// The fields and their values. A consumer's pending entry that was deleted has none.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl StreamEntry {
    /// Returns the value of the first field with a name.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.xadd("events", "*", ("kind", "login"))?;
    /// assert_eq!(store.xrange("events", "-", "+")?[0].get("user"), None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get(&self, field: impl AsRef<[u8]>) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(name, _)| name == field.as_ref());
        found.map(|(_, value)| &value[..])
    }
}

impl FromReply for StreamEntry {
    fn from_reply(reply: Reply) -> Result<StreamEntry> {
        let (id, fields) = reply.to::<(String, Option<Vec<(Vec<u8>, Vec<u8>)>>)>()?;
        let fields = fields.unwrap_or_default();
        Ok(StreamEntry { id, fields })
    }
}

/// The entries that were read from each of several streams.
type ReadEntries = Vec<(Vec<u8>, Vec<StreamEntry>)>;

/// Options for reading streams with [`Store::xread_options`].
///
/// ```
/// use std::time::Duration;
/// use undercroft::StreamReadOptions;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let options = StreamReadOptions::new().count(10).block(Duration::from_millis(1));
/// assert!(store.xread_options("events", "$", &options)?.is_empty());
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamReadOptions {
    block: Option<Duration>,
    count: Option<u64>,
    group: Option<(Vec<u8>, Vec<u8>)>,
    noack: bool,
}

impl StreamReadOptions {
    /// Returns the defaults: all entries, without waiting and without a group.
    ///
    /// ```
    /// assert_eq!(undercroft::StreamReadOptions::new(), Default::default());
    /// ```
    pub fn new() -> StreamReadOptions {
        StreamReadOptions::default()
    }

    /// Waits for entries for at most this time, in whole milliseconds. [`Duration::ZERO`] waits
    /// without a limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = undercroft::StreamReadOptions::new().block(Duration::from_secs(5));
    /// ```
    #[must_use]
    pub fn block(mut self, time: Duration) -> StreamReadOptions {
        self.block = Some(time);
        self
    }

    /// Limits the number of entries from each stream.
    ///
    /// ```
    /// let options = undercroft::StreamReadOptions::new().count(100);
    /// ```
    #[must_use]
    pub fn count(mut self, count: u64) -> StreamReadOptions {
        self.count = Some(count);
        self
    }

    /// Reads as a consumer of a group (XREADGROUP). The ID `>` requests entries that no consumer has
    /// received.
    ///
    /// ```
    /// let options = undercroft::StreamReadOptions::new().group("workers", "worker 1");
    /// ```
    #[must_use]
    pub fn group(
        mut self,
        group: impl ToSingleArg,
        consumer: impl ToSingleArg,
    ) -> StreamReadOptions {
        let text = (
            group.with_arg(<[u8]>::to_vec),
            consumer.with_arg(<[u8]>::to_vec),
        );
        self.group = Some(text);
        self
    }

    /// Counts the entries as acknowledged when a group's consumer receives them.
    ///
    /// ```
    /// let options = undercroft::StreamReadOptions::new().group("workers", "worker 1").noack();
    /// ```
    #[must_use]
    pub fn noack(mut self) -> StreamReadOptions {
        self.noack = true;
        self
    }

    fn command(&self) -> Cmd {
        let mut command = match &self.group {
            None => cmd("XREAD"),
            Some(group) => {
                let mut command = cmd("XREADGROUP");
                command.arg("GROUP").arg(group);
                command
            }
        };
        command.arg(self.count.map(|count| ("COUNT", count)));
        let block = self.block.map(|time| match time.as_millis() {
            // A positive time below a millisecond must not become 0, which means forever.
            0 if time > Duration::ZERO => 1,
            milliseconds => milliseconds.min(i64::MAX as u128 / 2) as u64,
        });
        command.arg(block.map(|time| ("BLOCK", time)));
        command.arg((self.noack && self.group.is_some()).then_some("NOACK"));
        command
    }
}

impl Store {
    /// Adds an entry to a stream, with an ID or `*` for a new one. The fields and values are given as
    /// in [`hset`](Self::hset). Returns the entry's ID.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if the ID is not greater than all others.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.xadd("events", "1-1", [("kind", "login"), ("user", "ada")])?, "1-1");
    /// assert!(store.xadd("events", "*", ("kind", "logout"))?.ends_with("-0"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xadd(
        &self,
        key: impl ToSingleArg,
        id: impl ToSingleArg,
        items: impl ToArgs,
    ) -> Result<String> {
        self.ask("XADD", (key, id, items))
    }

    /// Returns the number of entries of a stream.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.xlen("events")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xlen(&self, key: impl ToSingleArg) -> Result<u64> {
        self.ask("XLEN", key)
    }

    /// Deletes entries by their IDs. Returns the number of entries that existed.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let id = store.xadd("events", "*", ("kind", "login"))?;
    /// assert_eq!(store.xdel("events", id)?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xdel(&self, key: impl ToSingleArg, ids: impl ToArgs) -> Result<u64> {
        self.ask("XDEL", (key, ids))
    }

    /// Returns the entries between two IDs, inclusive. `-` and `+` are the lowest and highest IDs.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if an ID is invalid.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.xadd("events", "1-1", ("kind", "login"))?;
    /// assert_eq!(store.xrange("events", "-", "+")?.len(), 1);
    /// assert_eq!(store.xrange("events", "(1-1", "+")?.len(), 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xrange(
        &self,
        key: impl ToSingleArg,
        start: impl ToSingleArg,
        end: impl ToSingleArg,
    ) -> Result<Vec<StreamEntry>> {
        self.ask("XRANGE", (key, start, end))
    }

    /// Returns at most `count` entries between two IDs, like [`xrange`](Self::xrange).
    ///
    /// # Errors
    /// The errors of `xrange`.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(store.xrange_count("events", "-", "+", 10)?.is_empty());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xrange_count(
        &self,
        key: impl ToSingleArg,
        start: impl ToSingleArg,
        end: impl ToSingleArg,
        count: u64,
    ) -> Result<Vec<StreamEntry>> {
        self.ask("XRANGE", (key, start, end, "COUNT", count))
    }

    /// Returns the entries after an ID from each of several streams. Streams without such entries
    /// are left out.
    ///
    /// # Errors
    /// Fails if a key holds a value of another type, or unless each key has an ID.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.xadd("a", "1-1", ("n", 1))?;
    /// let read = store.xread(["a", "b"], ["0", "0"])?;
    /// assert_eq!((&*read[0].0, read[0].1.len(), read.len()), (&b"a"[..], 1, 1));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xread(&self, keys: impl ToArgs, ids: impl ToArgs) -> Result<ReadEntries> {
        self.xread_options(keys, ids, &StreamReadOptions::new())
    }

    /// Like [`xread`](Self::xread), with options for waiting, the number of entries, and the group.
    ///
    /// # Errors
    /// The errors of `xread`, and an error reply if the group does not exist.
    ///
    /// ```
    /// use undercroft::StreamReadOptions;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.xgroup_create_mkstream("events", "workers", "$")?;
    /// let id = store.xadd("events", "*", ("kind", "login"))?;
    /// let options = StreamReadOptions::new().group("workers", "worker 1");
    /// let read = store.xread_options("events", ">", &options)?;
    /// assert_eq!(read[0].1[0].id, id);
    /// assert_eq!(store.xack("events", "workers", id)?, 1);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xread_options(
        &self,
        keys: impl ToArgs,
        ids: impl ToArgs,
        options: &StreamReadOptions,
    ) -> Result<ReadEntries> {
        let mut command = options.command();
        command.arg("STREAMS").arg(keys).arg(ids);
        Ok(command.query::<Option<_>>(self)?.unwrap_or_default())
    }

    /// Creates a group of consumers that receives the entries after an ID, and the stream if it does
    /// not exist.
    ///
    /// # Errors
    /// An error reply with the code `BUSYGROUP` if the group exists.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.xgroup_create_mkstream("events", "workers", "0")?;
    /// let error = store.xgroup_create_mkstream("events", "workers", "0").unwrap_err();
    /// assert_eq!(error.code(), Some("BUSYGROUP"));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xgroup_create_mkstream(
        &self,
        key: impl ToSingleArg,
        group: impl ToSingleArg,
        id: impl ToSingleArg,
    ) -> Result<()> {
        self.ask("XGROUP", ("CREATE", key, group, id, "MKSTREAM"))
    }

    /// Acknowledges entries that a group's consumers have processed. Returns the number of entries
    /// that were pending.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.xack("events", "workers", "1-1")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn xack(
        &self,
        key: impl ToSingleArg,
        group: impl ToSingleArg,
        ids: impl ToArgs,
    ) -> Result<u64> {
        self.ask("XACK", (key, group, ids))
    }
}
