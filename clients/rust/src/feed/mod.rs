//! Provides feeds: lists of small values with attributes and filters.
//!
//! - `query`: the conditions on the items of a query.
//! - `schema`: the schema of a new feed.

mod query;
mod schema;

use std::ops::Range;

pub use query::{FeedQuery, FeedSeen};
pub use schema::FeedSchema;

use crate::client::Client;
use crate::command::{Cmd, FromReply, Reply, ToArgs, ToSingleArg, cmd};
use crate::error::{Error, Result};
use crate::remote::Pool;
use crate::store::Store;

/// A value of a feed, and its attributes.
type Item = (Vec<u8>, Vec<u32>);

/// An end of a feed.
///
/// ```
/// use undercroft::{FeedEnd, FeedSchema};
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let feed = store.feed("jobs");
/// feed.create(FeedSchema::queue(1))?;
/// feed.add(-1, ["a", "b"], None)?;
/// assert_eq!(feed.pop(FeedEnd::Right, 1)?, [b"b"]);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedEnd {
    /// The first item.
    Left,
    /// The last item.
    Right,
}

/// The facts that FEED.INFO reports about a feed.
///
/// ```
/// use undercroft::FeedSchema;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let feed = store.feed("board");
/// feed.create(FeedSchema::list(12).attributes(&[4, 1]))?;
/// let info: undercroft::FeedInfo = feed.info()?;
/// assert_eq!((info.size, &*info.attributes), (12, &[4, 1][..]));
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FeedInfo {
    /// The size of each value in bytes.
    pub size: u32,
    /// The widths of the attributes in bits.
    pub attributes: Vec<u32>,
    /// The order: `list`, `queue` or `sorted`.
    pub order: String,
    /// All facts by name, as FEED.INFO returns them.
    pub all: Vec<(String, Reply)>,
}

/// A feed: a list of up to many millions of small values of one size, each with attributes and a
/// mark that hides it (see [`Store::feed`]). Reading a page of the visible items that match a filter
/// takes O(log n), wherever the page is.
///
/// ```
/// use undercroft::{FeedQuery, FeedSchema};
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let board = store.feed("board");
/// board.create(FeedSchema::list(12).attributes(&[4, 3, 1]))?;
/// board.add(0, "thread000001", Some(&[3, 0, 1]))?;
/// board.add(0, ["thread000002", "thread000003"], None)?;
/// let page = board.range(0..10, &FeedQuery::new().filter("3::1"))?;
/// assert_eq!(page, [(b"thread000001".to_vec(), vec![3, 0, 1])]);
/// board.hide("thread000001")?;
/// assert_eq!(board.count(&FeedQuery::new())?, 2);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Feed {
    client: Client,
    key: Vec<u8>,
}

impl Store {
    /// Returns the feed at a key, whether it exists or not.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.feed("board").count(&undercroft::FeedQuery::new())?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn feed(&self, key: impl ToSingleArg) -> Feed {
        Client::from(self.clone()).feed(key)
    }
}

impl Pool {
    /// Returns the feed at a key of an Undercroft server, whether it exists or not.
    ///
    /// ```
    /// # use undercroft::{CacheOptions, FeedQuery, FeedSchema, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let url = served.url();
    /// let pool = Pool::open(&url, CacheOptions::new())?;
    /// let board = pool.feed("board");
    /// board.create(FeedSchema::list(1).attributes(&[8]))?;
    /// board.add(-1, ["a", "b"], Some(&[7]))?;
    /// assert_eq!(board.range(1..2, &FeedQuery::new())?, [(b"b".to_vec(), vec![7])]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn feed(&self, key: impl ToSingleArg) -> Feed {
        Client::from(self.clone()).feed(key)
    }
}

impl Client {
    /// Returns the feed at a key, whether it exists or not.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let client = undercroft::Client::open(&url)?;
    /// assert_eq!(client.feed("board").count(&undercroft::FeedQuery::new())?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn feed(&self, key: impl ToSingleArg) -> Feed {
        Feed {
            client: self.clone(),
            key: key.with_arg(<[u8]>::to_vec),
        }
    }
}

impl Feed {
    fn command(&self, name: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(&self.key);
        command
    }

    fn run<T: FromReply>(&self, command: &Cmd) -> Result<T> {
        command.query(&self.client)
    }

    /// Creates the feed.
    ///
    /// # Errors
    /// An error reply if the key exists or the schema is invalid.
    ///
    /// ```
    /// use undercroft::FeedSchema;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.feed("board").create(FeedSchema::list(12))?;
    /// assert!(store.feed("board").create(FeedSchema::list(12)).is_err());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn create(&self, schema: FeedSchema) -> Result<()> {
        self.run(self.command("FEED.CREATE").arg(schema.0.words()))
    }

    /// Inserts values before a position that counts all items: 0 is before the first item, -1 after
    /// the last one, and `"*"` is the place in a sorted feed. All values get the same attributes; by
    /// default they are 0. Returns the new number of items.
    ///
    /// # Errors
    /// Fails if the feed does not exist, or if a value or an attribute does not fit its schema.
    ///
    /// ```
    /// use undercroft::FeedSchema;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("letters");
    /// feed.create(FeedSchema::list(1).attributes(&[8]))?;
    /// assert_eq!(feed.add(-1, ["a", "b"], Some(&[255]))?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn add(
        &self,
        position: impl ToSingleArg,
        values: impl ToArgs,
        attributes: Option<&[u32]>,
    ) -> Result<u64> {
        let attributes = attributes.map(|numbers| ("ATTRS", joined(numbers)));
        let mut command = self.command("FEED.ADD");
        command.arg(position);
        let mut list = Cmd::new();
        list.arg(values);
        for value in list.words() {
            command.arg(value).arg(&attributes);
        }
        self.run(&command)
    }

    /// Returns the values and attributes at some positions among the items that the query selects.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if the filter is invalid.
    ///
    /// ```
    /// use undercroft::{FeedQuery, FeedSchema};
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("letters");
    /// feed.create(FeedSchema::list(1))?;
    /// feed.add(-1, ["a", "b", "c"], None)?;
    /// let page = feed.range(1..3, &FeedQuery::new())?;
    /// assert_eq!(page, [(b"b".to_vec(), vec![]), (b"c".to_vec(), vec![])]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn range(&self, positions: Range<u64>, query: &FeedQuery) -> Result<Vec<Item>> {
        let count = positions.end.saturating_sub(positions.start);
        let mut command = self.command("FEED.RANGE");
        query.write(command.arg((positions.start, count)));
        items(self.run(&command)?)
    }

    /// Returns the items of a sorted feed with values between two limits, which are written as in
    /// ZRANGEBYSCORE for numbers (`5`, `(5`, `-inf`) and as in ZRANGEBYLEX for texts (`[ada`, `(bob`).
    ///
    /// # Errors
    /// Fails if the feed is not sorted, or if a limit or the filter is invalid.
    ///
    /// ```
    /// use undercroft::{FeedQuery, FeedSchema};
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("numbers");
    /// feed.create(FeedSchema::sorted("INT32"))?;
    /// feed.add("*", [3, 1, 2], None)?;
    /// let found = feed.between(1, "(3", &FeedQuery::new())?;
    /// assert_eq!(found, [(b"1".to_vec(), vec![]), (b"2".to_vec(), vec![])]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn between(
        &self,
        low: impl ToSingleArg,
        high: impl ToSingleArg,
        query: &FeedQuery,
    ) -> Result<Vec<Item>> {
        let mut command = self.command("FEED.BETWEEN");
        query.write(command.arg((low, high)));
        items(self.run(&command)?)
    }

    /// Returns the number of items that the query selects, or 0 if the feed does not exist.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type, or if the filter is invalid.
    ///
    /// ```
    /// use undercroft::FeedQuery;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.feed("board").count(&FeedQuery::new())?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn count(&self, query: &FeedQuery) -> Result<u64> {
        let mut command = self.command("FEED.COUNT");
        query.select(&mut command);
        self.run(&command)
    }

    /// Returns the position of the first visible item with a value.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// use undercroft::FeedSchema;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("letters");
    /// feed.create(FeedSchema::list(1).index())?;
    /// feed.add(-1, ["a", "b"], None)?;
    /// assert_eq!((feed.position("b")?, feed.position("c")?), (Some(1), None));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn position(&self, value: impl ToSingleArg) -> Result<Option<u64>> {
        self.run(self.command("FEED.POS").arg(value))
    }

    /// Removes and returns up to `count` visible items at an end.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// use undercroft::FeedEnd;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(store.feed("jobs").pop(FeedEnd::Left, 10)?.is_empty());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn pop(&self, end: FeedEnd, count: u64) -> Result<Vec<Vec<u8>>> {
        let end = match end {
            FeedEnd::Left => "LEFT",
            FeedEnd::Right => "RIGHT",
        };
        let popped: Option<_> = self.run(self.command("FEED.POP").arg((end, count)))?;
        Ok(popped.unwrap_or_default())
    }

    /// Moves the first item with a value to a position that counts all items. Returns whether the
    /// value exists.
    ///
    /// # Errors
    /// Fails if the feed does not exist or is sorted.
    ///
    /// ```
    /// use undercroft::{FeedQuery, FeedSchema};
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("letters");
    /// feed.create(FeedSchema::list(1))?;
    /// feed.add(-1, ["a", "b"], None)?;
    /// assert!(feed.move_to("b", 0)?);
    /// assert_eq!(feed.range(0..1, &FeedQuery::new())?[0].0, b"b");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn move_to(&self, value: impl ToSingleArg, position: i64) -> Result<bool> {
        self.run(self.command("FEED.MOVE").arg((value, position)))
    }

    /// Deletes all items with the given values. Returns the number of items.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("letters");
    /// feed.create(undercroft::FeedSchema::list(1))?;
    /// feed.add(-1, ["a", "b", "a"], None)?;
    /// assert_eq!(feed.del("a")?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn del(&self, values: impl ToArgs) -> Result<u64> {
        self.run(self.command("FEED.DEL").arg(values))
    }

    /// Hides all items with the given values. Returns the number of items that changed.
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("letters");
    /// feed.create(undercroft::FeedSchema::list(1))?;
    /// feed.add(-1, ["a", "b"], None)?;
    /// assert_eq!((feed.hide("a")?, feed.show(["a", "b"])?), (1, 1));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn hide(&self, values: impl ToArgs) -> Result<u64> {
        self.run(self.command("FEED.HIDE").arg(values))
    }

    /// Shows all hidden items with the given values (see [`hide`](Self::hide)).
    ///
    /// # Errors
    /// Fails if the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("letters");
    /// feed.create(undercroft::FeedSchema::list(1))?;
    /// assert_eq!(feed.show("a")?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn show(&self, values: impl ToArgs) -> Result<u64> {
        self.run(self.command("FEED.SHOW").arg(values))
    }

    /// Sets the attributes of all items with a value; `None` leaves an attribute unchanged. Returns
    /// the number of items.
    ///
    /// # Errors
    /// Fails if the attributes do not fit the feed's schema.
    ///
    /// ```
    /// use undercroft::{FeedQuery, FeedSchema};
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let feed = store.feed("letters");
    /// feed.create(FeedSchema::list(1).attributes(&[8, 8]))?;
    /// feed.add(0, "a", Some(&[1, 2]))?;
    /// assert_eq!(feed.set_attributes("a", &[None, Some(7)])?, 1);
    /// assert_eq!(feed.range(0..1, &FeedQuery::new())?[0].1, [1, 7]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn set_attributes(
        &self,
        value: impl ToSingleArg,
        attributes: &[Option<u32>],
    ) -> Result<u64> {
        let text = |number: &Option<u32>| number.map_or(String::new(), |number| number.to_string());
        let texts: Vec<String> = attributes.iter().map(text).collect();
        self.run(self.command("FEED.SETATTR").arg((value, texts.join(":"))))
    }

    /// Returns the feed's schema and figures.
    ///
    /// # Errors
    /// An error reply if the feed does not exist.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert!(store.feed("none").info().is_err());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn info(&self) -> Result<FeedInfo> {
        let all: Vec<(String, Reply)> = self.run(&self.command("FEED.INFO"))?;
        let find = |name: &str| {
            let found = all.iter().find(|(other, _)| other == name);
            found.map_or(Reply::Nil, |(_, value)| value.clone())
        };
        Ok(FeedInfo {
            size: find("size").to()?,
            attributes: numbers(&find("attributes").to::<String>()?)?,
            order: find("order").to()?,
            all,
        })
    }
}

/// Writes attributes as commands expect them.
fn joined(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    texts.join(":")
}

/// Reads attributes in the form of replies.
fn numbers(text: &str) -> Result<Vec<u32>> {
    let parts = text.split(':').filter(|part| !part.is_empty());
    let numbers: std::result::Result<_, _> = parts.map(str::parse).collect();
    numbers.map_err(|_| Error::Unexpected {
        expected: "attributes such as 3:0:1",
        got: "another text",
    })
}

fn items(pairs: Vec<(Vec<u8>, String)>) -> Result<Vec<Item>> {
    let item = |(value, text): (Vec<u8>, String)| Ok((value, numbers(&text)?));
    pairs.into_iter().map(item).collect()
}
