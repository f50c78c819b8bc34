//! Computes missing values. Only one caller at a time computes a given value.

use std::convert::Infallible;
use std::future::Future;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::cache::Cache;
use crate::caching::Caching;
use crate::command::ToSingleArg;
use crate::computing::{expect_other, inside, inside_task};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::set_options::SetOptions;
use crate::store::Store;

/// The first and the longest pause between two checks for a value that another caller is computing.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(50);

/// The reason why a call returns no value.
pub(crate) enum Failed<E> {
    Store(Error),
    Computation(E),
}

impl<E> From<Error> for Failed<E> {
    fn from(error: Error) -> Failed<E> {
        Failed::Store(error)
    }
}

impl<E: From<Error>> Failed<E> {
    pub(crate) fn into_error(self) -> E {
        match self {
            Failed::Store(error) => error.into(),
            Failed::Computation(error) => error,
        }
    }
}

impl Failed<Infallible> {
    pub(crate) fn into_own(self) -> Error {
        match self {
            Failed::Store(error) => error,
            Failed::Computation(never) => match never {},
        }
    }
}

/// Limits how long a caller waits while another caller computes the value.
pub(crate) struct Wait {
    start: Instant,
    most: Duration,
    pause: Duration,
}

impl Wait {
    pub(crate) fn new(caching: &Caching) -> Wait {
        Wait {
            start: Instant::now(),
            most: caching.wait,
            pause: FIRST_PAUSE,
        }
    }

    /// Returns the remaining waiting time, or an error if none remains.
    pub(crate) fn left(&self) -> Result<Duration> {
        match self.most.saturating_sub(self.start.elapsed()) {
            Duration::ZERO => Err(Error::TimedOut(self.most)),
            left => Ok(left),
        }
    }

    /// Returns the pause before the next check for the value.
    pub(crate) fn pause(&mut self) -> Result<Duration> {
        // The pause is random, so that waiting callers do not all check at the same moment.
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        Ok(pause.min(self.left()?))
    }
}

/// Computes the value of a leased key with `compute`, stores it with `store`, and returns it. If
/// another caller stored a value just before the lease was taken, returns that value instead.
pub(crate) fn computed<E>(
    keys: u64,
    mut lease: Lease,
    (caching, reply_polling): (&Caching, f64),
    compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    store: impl FnOnce(Lease, &[u8], SetOptions) -> Result<bool>,
) -> std::result::Result<Vec<u8>, Failed<E>> {
    if let Some(value) = came_first(&mut lease, reply_polling) {
        return Ok(value);
    }
    let begun = Instant::now();
    let value = inside(keys, &lease.key, compute).map_err(Failed::Computation)?;
    let (stored, options) = caching.close(&value, begun.elapsed());
    store(lease, &stored, options)?;
    Ok(value)
}

/// Returns the value that another caller stored just before the lease was taken, unless that value
/// is also due for a refresh.
fn came_first(lease: &mut Lease, reply_polling: f64) -> Option<Vec<u8>> {
    let mut value = lease.value.take()?;
    (!Caching::open(&mut value, reply_polling)).then_some(value)
}

impl Store {
    /// Returns the string value of a key. If the key does not exist, computes the value with
    /// `compute` and stores it.
    ///
    /// Only one caller across all processes computes the value at a time, and the other callers
    /// wait for the result. If `compute` panics or its process is killed, another caller takes over
    /// immediately. If its process is stopped, or if it takes longer than [`Caching::lease`],
    /// another caller takes over when the lease expires. A value that is computed after the lease
    /// has expired is returned to its caller but not stored. A value that is due for a refresh
    /// ([`Caching::stale`], [`Caching::early`]) is recomputed by one caller, while the others
    /// receive the old value.
    ///
    /// A hit costs the same as [`get`](Store::get). Values with `stale` or `early` are stored with
    /// a 16-byte header that contains their times and is visible to other commands.
    ///
    /// # Errors
    /// - [`Error::TimedOut`] if other callers computed the value for longer than [`Caching::wait`].
    /// - [`Error::Recursion`] if `compute` requests the same key and would wait for itself.
    /// - An error reply if the key does not hold a string.
    /// - The errors of [`set_options`](Store::set_options).
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::Caching;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let minute = Caching::new().ttl(Duration::from_secs(60));
    /// let page = store.get_or_insert_with("page:1", &minute, || "<html>".into())?;
    /// assert_eq!(page, b"<html>");
    /// let page = store.get_or_insert_with("page:1", &minute, || unreachable!())?;
    /// assert_eq!(page, b"<html>");
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn get_or_insert_with(
        &self,
        key: impl ToSingleArg,
        caching: &Caching,
        compute: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>> {
        let computed = key.with_arg(|key| self.found_or_made(key, caching, || Ok(compute())));
        computed.map_err(Failed::<Infallible>::into_own)
    }

    /// Like [`get_or_insert_with`](Self::get_or_insert_with), but `compute` can fail. After a
    /// failure nothing is stored, and the next caller computes the value.
    ///
    /// # Errors
    /// The error of `compute`, and the errors of `get_or_insert_with`.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let caching = undercroft::Caching::new();
    /// let failed: Result<Vec<u8>, Box<dyn std::error::Error>> =
    ///     store.try_get_or_insert_with("answer", &caching, || Err("no answer".into()));
    /// assert_eq!(failed.unwrap_err().to_string(), "no answer");
    /// assert_eq!(store.get("answer")?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn try_get_or_insert_with<E: From<Error>>(
        &self,
        key: impl ToSingleArg,
        caching: &Caching,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, E> {
        let computed = key.with_arg(|key| self.found_or_made(key, caching, compute));
        computed.map_err(Failed::into_error)
    }

    #[inline]
    fn found_or_made<E>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, Failed<E>> {
        let mut stored = Vec::new();
        let reply_polling = caching.reply_polling();
        let found = self.get_into(key, &mut stored)?;
        if found && !Caching::open(&mut stored, reply_polling) {
            return Ok(stored);
        }
        self.made(
            key,
            caching,
            reply_polling,
            found.then_some(stored),
            compute,
        )
    }

    #[cold]
    fn made<E>(
        &self,
        key: &[u8],
        caching: &Caching,
        reply_polling: f64,
        mut stale: Option<Vec<u8>>,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Vec<u8>, Failed<E>> {
        let wait = Wait::new(caching);
        let lease = loop {
            if let Some(lease) = self.take_lease(key, caching.term()?)? {
                break lease;
            }
            if let Some(stale) = stale {
                return Ok(stale);
            }
            expect_other(self.keys(), key)?;
            self.wait_for_lease(key, wait.left()?)?;
            stale = self.get(key)?;
            if let Some(value) = &mut stale
                && !Caching::open(value, reply_polling)
            {
                return Ok(stale.unwrap_or_default());
            }
        };
        let keys = self.keys();
        computed(
            keys,
            lease,
            (caching, reply_polling),
            compute,
            |lease, value, options| self.set_leased(lease, value, options),
        )
    }
}

/// Provides [`get_or_insert_with`](Store::get_or_insert_with) for every [`Cache`].
///
/// In a store, the tasks of all processes compete for one lease. On a server, the tasks on all
/// machines compete for a lease that is itself a key: it is set only if missing (NX), it expires
/// (PX), and it is checked before a value is stored (EVAL).
///
/// ```
/// use undercroft::{Caching, GetOrInsert};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
/// let caching = Caching::new();
/// for made in ["first", "second"] {
///     let found = cache.get_or_insert_with(b"key", &caching, async || made.into());
///     assert_eq!(found.await?, b"first");
/// }
/// # Ok(())
/// # }
/// ```
pub trait GetOrInsert: Cache {
    /// Returns the string value of a key. If the key does not exist, computes the value with
    /// `compute` and stores it.
    ///
    /// Only one caller computes the value at a time. The other callers poll until the value is
    /// stored, initially after 1 ms and eventually every 50 ms. If `compute` panics or is
    /// cancelled, another caller takes over immediately, and in a [`StoreCache`](crate::StoreCache)
    /// also if the process is killed. Otherwise another caller takes over when the
    /// [`Caching::lease`] expires. A value that is computed later is returned to its caller but not
    /// stored.
    ///
    /// # Errors
    /// The errors of [`Store::get_or_insert_with`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::{Caching, GetOrInsert};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let cache = undercroft::cache(&url)?; // undercroft://pages, redis://localhost, ...
    /// let minute = Caching::new().ttl(Duration::from_secs(60));
    /// let page = cache.get_or_insert_with(b"page:1", &minute, async || b"<html>".to_vec());
    /// assert_eq!(page.await?, b"<html>");
    /// # Ok(())
    /// # }
    /// ```
    fn get_or_insert_with<F, M>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: F,
    ) -> impl Future<Output = Result<Vec<u8>>> + Send
    where
        F: FnOnce() -> M + Send,
        M: Future<Output = Vec<u8>> + Send,
    {
        async move {
            let compute = || async { Ok::<_, Infallible>(compute().await) };
            let made = found_or_made(self, key, caching, compute).await;
            made.map_err(Failed::into_own)
        }
    }

    /// Like [`get_or_insert_with`](Self::get_or_insert_with), but `compute` can fail. After a
    /// failure nothing is stored, and the next caller computes the value.
    ///
    /// # Errors
    /// The error of `compute`, and the errors of `get_or_insert_with`.
    ///
    /// ```
    /// use undercroft::{Cache, Caching, GetOrInsert};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// let failing = async || Err::<Vec<u8>, undercroft::Error>(undercroft::Error::Closed);
    /// let failed = cache.try_get_or_insert_with(b"key", &Caching::new(), failing).await;
    /// assert!(failed.is_err());
    /// assert_eq!(cache.get(b"key").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    fn try_get_or_insert_with<F, M, E>(
        &self,
        key: &[u8],
        caching: &Caching,
        compute: F,
    ) -> impl Future<Output = std::result::Result<Vec<u8>, E>> + Send
    where
        F: FnOnce() -> M + Send,
        M: Future<Output = std::result::Result<Vec<u8>, E>> + Send,
        E: From<Error> + Send,
    {
        async move {
            let made = found_or_made(self, key, caching, compute).await;
            made.map_err(Failed::into_error)
        }
    }
}

impl<C: Cache + ?Sized> GetOrInsert for C {}

async fn found_or_made<C, F, M, E>(
    cache: &C,
    key: &[u8],
    caching: &Caching,
    compute: F,
) -> std::result::Result<Vec<u8>, Failed<E>>
where
    C: Cache + ?Sized,
    F: FnOnce() -> M,
    M: Future<Output = std::result::Result<Vec<u8>, E>>,
{
    let reply_polling = caching.reply_polling();
    let mut wait = Wait::new(caching);
    let mut lease = loop {
        let mut stale = cache.get(key).await?;
        if let Some(value) = &mut stale
            && !Caching::open(value, reply_polling)
        {
            return Ok(stale.unwrap_or_default());
        }
        if let Some(lease) = cache.take_lease(key, caching.term()?).await? {
            break lease;
        }
        if let Some(stale) = stale {
            return Ok(stale);
        }
        expect_other(cache.place(), key)?;
        sleep(wait.pause()?).await;
    };
    if let Some(value) = came_first(&mut lease, reply_polling) {
        return Ok(value);
    }
    let begun = Instant::now();
    let keys = cache.place();
    let computing = inside(keys, key, compute);
    let computed = inside_task(keys, key, computing).await;
    let value = computed.map_err(Failed::Computation)?;
    let (stored, options) = caching.close(&value, begun.elapsed());
    cache.set_leased(lease, &stored, options).await?;
    Ok(value)
}
