use crate::command::Cmd;

/// The items that a query returns, by the mark that hides them.
///
/// ```
/// use undercroft::{FeedQuery, FeedSeen};
/// let hidden = FeedQuery::new().seen(FeedSeen::Hidden);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeedSeen {
    /// Items that are not hidden.
    #[default]
    Visible,
    /// Hidden items.
    Hidden,
    /// All items.
    All,
}

/// The conditions on the items of a query, and their order.
///
/// ```
/// use undercroft::FeedQuery;
/// let query = FeedQuery::new().filter("a0=3 a2=1").reverse();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedQuery {
    seen: FeedSeen,
    filter: Option<String>,
    reverse: bool,
}

impl FeedQuery {
    /// Returns a query for all visible items, in their order.
    ///
    /// ```
    /// assert_eq!(undercroft::FeedQuery::new(), Default::default());
    /// ```
    pub fn new() -> FeedQuery {
        FeedQuery::default()
    }

    /// Selects visible, hidden, or all items.
    ///
    /// ```
    /// let all = undercroft::FeedQuery::new().seen(undercroft::FeedSeen::All);
    /// ```
    #[must_use]
    pub fn seen(mut self, seen: FeedSeen) -> FeedQuery {
        self.seen = seen;
        self
    }

    /// Selects the items whose attributes match a filter, such as `3::1` or `a0=3 a2!=1`.
    ///
    /// ```
    /// let query = undercroft::FeedQuery::new().filter("3::1");
    /// ```
    #[must_use]
    pub fn filter(mut self, filter: &str) -> FeedQuery {
        self.filter = Some(filter.to_owned());
        self
    }

    /// Returns the items in the reverse order.
    ///
    /// ```
    /// let query = undercroft::FeedQuery::new().reverse();
    /// ```
    #[must_use]
    pub fn reverse(mut self) -> FeedQuery {
        self.reverse = true;
        self
    }

    /// Adds the words that select items.
    pub(super) fn select(&self, command: &mut Cmd) {
        command.arg(match self.seen {
            FeedSeen::Visible => None,
            FeedSeen::Hidden => Some("HIDDEN"),
            FeedSeen::All => Some("ALL"),
        });
        command.arg(self.filter.as_ref().map(|filter| ("WHERE", filter)));
    }

    /// Adds the words that select and order items, and request their attributes.
    pub(super) fn write(&self, command: &mut Cmd) {
        self.select(command);
        command.arg("WITHATTRS").arg(self.reverse.then_some("REV"));
    }
}
