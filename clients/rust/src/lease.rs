//! Defines leases. The holder of a key's lease is the caller that computes the key's value.

use std::fmt;
use std::sync::Arc;

use undercroft_embedded::OpenStore;

/// A function that releases a lease, given the lease's key and token.
type GiveBack = Box<dyn Fn(&[u8], &[u8]) + Send + Sync>;

/// The right to compute a key's value, which one caller holds at a time.
///
/// Dropping the lease releases it. On a server, that happens in the background, and only if the
/// runtime on which the lease was taken is still running. See
/// [`Cache::take_lease`](crate::Cache::take_lease).
///
/// ```
/// use std::time::Duration;
/// use undercroft::{Cache, SetOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
/// let term = Duration::from_secs(10);
/// let lease = cache.take_lease(b"page", term).await?.expect("the lease is free");
/// assert!(cache.take_lease(b"page", term).await?.is_none());
/// assert!(cache.set_leased(lease, b"<html>", SetOptions::new()).await?);
/// # Ok(())
/// # }
/// ```
pub struct Lease {
    pub(crate) key: Vec<u8>,
    pub(crate) token: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    give_back: Option<GiveBack>,
    /// The store in which the lease was taken, or `None` if the lease is on a server.
    pub(crate) of: Option<Arc<OpenStore>>,
}

impl Lease {
    pub(crate) fn new(
        key: &[u8],
        token: Vec<u8>,
        value: Option<Vec<u8>>,
        give_back: impl Fn(&[u8], &[u8]) + Send + Sync + 'static,
    ) -> Lease {
        Lease {
            key: key.to_vec(),
            token,
            value,
            give_back: Some(Box::new(give_back)),
            of: None,
        }
    }

    /// Returns this lease, bound to the open store in which it was taken.
    pub(crate) fn of(self, open: Arc<OpenStore>) -> Lease {
        // Change the lease in place, because fields cannot be moved out of a type that implements
        // `Drop`.
        let mut lease = self;
        lease.of = Some(open);
        lease
    }

    /// Returns the key whose value may be computed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let lease = cache.take_lease(b"page", Duration::from_secs(10)).await?;
    /// assert_eq!(lease.expect("it was free").key(), b"page");
    /// # Ok(())
    /// # }
    /// ```
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the value that the key had when the lease was taken. Another caller may have stored
    /// that value just before that.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use undercroft::Cache;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let lease = cache.take_lease(b"page", Duration::from_secs(10)).await?;
    /// assert_eq!(lease.expect("it was free").value(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    /// Marks the lease as released, so that dropping it does nothing.
    pub(crate) fn is_ended(&mut self) {
        self.give_back = None;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            give_back(&self.key, &self.token);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("token", &String::from_utf8_lossy(&self.token))
            .finish_non_exhaustive()
    }
}
