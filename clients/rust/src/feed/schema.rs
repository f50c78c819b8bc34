use super::joined;
use crate::command::{Cmd, ToArgs};

/// The schema of a new feed: the size of its values, the widths of its attributes, and its order.
///
/// ```
/// use undercroft::FeedSchema;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// store.feed("times").create(FeedSchema::sorted("UINT32").attributes(&[4]).unique())?;
/// store.feed("times").add("*", 1_718_000_123, Some(&[3]))?;
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSchema(pub(super) Cmd);

impl FeedSchema {
    /// Returns the schema of a list, which accepts items at any position. Each value has `size` bytes
    /// (1 to 255).
    ///
    /// ```
    /// let schema = undercroft::FeedSchema::list(12).attributes(&[4, 3, 1]);
    /// ```
    pub fn list(size: u8) -> FeedSchema {
        FeedSchema::new(("SIZE", size))
    }

    /// Returns the schema of a queue, which adds and moves items only at its ends.
    ///
    /// ```
    /// let schema = undercroft::FeedSchema::queue(8);
    /// ```
    pub fn queue(size: u8) -> FeedSchema {
        FeedSchema::new(("SIZE", size, "ORDER", "QUEUE"))
    }

    /// Returns the schema of a feed whose items are ordered by value, for values of a fixed-size
    /// type: `INT32`, `UINT32`, `INT64`, `UINT64`, `FLOAT32` or `FLOAT64`.
    ///
    /// ```
    /// let schema = undercroft::FeedSchema::sorted("FLOAT64");
    /// ```
    pub fn sorted(kind: &str) -> FeedSchema {
        FeedSchema::new(("ORDER", "SORTED", "TYPE", kind))
    }

    /// Returns the schema of a feed whose items are ordered by value: texts of at most `size` bytes.
    ///
    /// ```
    /// let schema = undercroft::FeedSchema::sorted_text(40).unique();
    /// ```
    pub fn sorted_text(size: u8) -> FeedSchema {
        FeedSchema::new(("SIZE", size, "ORDER", "SORTED", "TYPE", "TEXT"))
    }

    fn new(words: impl ToArgs) -> FeedSchema {
        let mut schema = Cmd::new();
        schema.arg(words);
        FeedSchema(schema)
    }

    /// Gives each item attributes of these widths in bits (1 to 32), at most 16 of them.
    ///
    /// ```
    /// let schema = undercroft::FeedSchema::list(12).attributes(&[1, 32]);
    /// ```
    #[must_use]
    pub fn attributes(mut self, widths: &[u32]) -> FeedSchema {
        if !widths.is_empty() {
            self.0.arg(("ATTRS", joined(widths)));
        }
        self
    }

    /// Keeps an index, so that a list or a queue finds items by value without a search.
    ///
    /// ```
    /// let schema = undercroft::FeedSchema::list(12).index();
    /// ```
    #[must_use]
    pub fn index(mut self) -> FeedSchema {
        self.0.arg("INDEX");
        self
    }

    /// Keeps the values of a sorted feed unique.
    ///
    /// ```
    /// let schema = undercroft::FeedSchema::sorted("INT64").unique();
    /// ```
    #[must_use]
    pub fn unique(mut self) -> FeedSchema {
        self.0.arg("UNIQUE");
        self
    }
}
