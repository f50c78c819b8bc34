//! The part of a stream's changes that a store applies.

use undercroft_engine::AppliedPosition;

use crate::follow::error::FollowError;
use crate::follow::filter::{Effect, KeyFilter};

/// Decides which changes of a stream a store applies. A decision can become invalid before the change
/// is committed, if keys move between the masters of a cluster.
pub(super) trait Part {
    /// The lane of the stream, if the source is a cluster.
    fn lane(&self) -> Option<u8>;

    /// Returns whether every change is applied as it is.
    fn is_all(&self) -> bool;

    /// Returns whether the stream's changes of function libraries are applied.
    fn has_libraries(&self) -> bool;

    /// Returns how a command applies that ends at a place in the stream.
    ///
    /// # Errors
    /// Fails if this cannot be decided, or if the work must end.
    fn effect(&self, place: AppliedPosition, words: &[&[u8]]) -> Result<Effect, FollowError>;

    /// Begins the decisions of a transaction.
    fn begin(&self);

    /// Runs `commit` while the decisions of the transaction are valid. Returns false, without running
    /// it, if they are not, so that they must be made again.
    ///
    /// # Errors
    /// Returns the error of `commit`.
    fn commit(
        &self,
        commit: &mut dyn FnMut() -> Result<(), FollowError>,
    ) -> Result<bool, FollowError>;
}

/// The keys of a single server that a filter has.
impl Part for KeyFilter {
    fn lane(&self) -> Option<u8> {
        None
    }

    fn is_all(&self) -> bool {
        KeyFilter::is_all(self)
    }

    fn has_libraries(&self) -> bool {
        true
    }

    fn effect(&self, place: AppliedPosition, words: &[&[u8]]) -> Result<Effect, FollowError> {
        let has = |database, key: &[u8]| self.has(database, key);
        Ok(KeyFilter::effect(self, place.database, words, &has))
    }

    fn begin(&self) {}

    fn commit(
        &self,
        commit: &mut dyn FnMut() -> Result<(), FollowError>,
    ) -> Result<bool, FollowError> {
        commit().map(|()| true)
    }
}
