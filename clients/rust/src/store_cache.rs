//! Implements the cache in shared memory.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::coop::consume_budget;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use undercroft_commands::table::{Flag, find};
use undercroft_embedded::{OpenStore, StoreOf};
use undercroft_engine::messages::{Subscriber, Topic};
use undercroft_engine::{self as engine, limit_patience};

use crate::cache::{Cache, sealed};
use crate::command::{Batch, Reply, sealed::Run};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::message::{Event, Message, check_names};
use crate::observe;
use crate::remote::shared;
use crate::set_options::SetOptions;
use crate::store::{Store, copies};
use crate::subscription::Subscription;

/// The maximum time that a call blocks its event loop to wait for a lock (M6). In normal operation,
/// locks are held for less time than this.
const MOMENT: Duration = Duration::from_millis(1);
/// The minimum size in bytes of a value whose copy counts against the task's budget.
const LONG: usize = 64 << 10;
/// The longest pause between two attempts to acquire a lock.
const PAUSE_MAX: Duration = Duration::from_millis(20);

thread_local! {
    /// The number of calls made by this thread, modulo 256.
    static CALLS: Cell<u8> = const { Cell::new(0) };
}

/// A cache in shared memory, whose calls need no socket, no server and no task switch.
///
/// Calls complete when they are first polled, with one exception: every 2,048th call in a row first
/// yields to other tasks (every 128th call if values have 64 KiB or more). If another process holds
/// a lock, a call yields to the event loop and retries until the store's lock timeout.
///
/// ```
/// use undercroft::{Cache, SetOptions, StoreCache};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// # let directory = undercroft_testkit::fresh::directory();
/// # let url = format!("undercroft://{}/store", directory.path().display());
/// let cache = StoreCache::open(&url)?; // undercroft://sessions, say
/// cache.set(b"key", b"value").await?;
/// assert_eq!(cache.get(b"key").await?.as_deref(), Some(&b"value"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StoreCache {
    store: Store,
    is_closed: Arc<AtomicBool>,
}

impl From<Store> for StoreCache {
    fn from(store: Store) -> StoreCache {
        StoreCache {
            store,
            is_closed: Arc::default(),
        }
    }
}

impl StoreCache {
    /// Opens a store, creating it if it does not exist (see [`Store::open`]).
    ///
    /// # Errors
    /// The errors of `Store::open`.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("undercroft://{}/store", directory.path().display());
    /// let cache = undercroft::StoreCache::open(&url)?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn open(url: &str) -> Result<StoreCache> {
        Store::open(url).map(StoreCache::from)
    }

    /// Opens the store at a path, creating it if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Store::open_path`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn open_path(path: impl AsRef<std::path::Path>) -> Result<StoreCache> {
        Store::open_path(path).map(StoreCache::from)
    }

    /// Returns the underlying store, which has more calls than the trait.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// let cache = undercroft::StoreCache::open_path(directory.path().join("store"))?;
    /// cache.store().incr("visits", 1)?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Makes a call, and retries it while another process holds a lock.
    async fn patiently<R>(&self, mut call: impl FnMut(&Store) -> Result<R> + Send) -> Result<R> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        // Without a yield, a loop of calls that never wait would starve all other tasks.
        if is_counted() {
            consume_budget().await;
        }
        let store = &self.store;
        let mut made = momentarily(store, &mut call);
        if matches!(made, Err(Error::Busy(_))) {
            let until = Instant::now() + store.with(engine::Store::patience);
            let mut pause = MOMENT;
            while matches!(made, Err(Error::Busy(_))) && Instant::now() < until {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                made = momentarily(store, &mut call);
            }
        }
        if store.with(engine::Store::has_backlog) {
            self.settle().await;
        }
        made
    }

    /// Runs any command that neither waits for keys nor changes the state of a connection.
    async fn run(&self, words: &[&[u8]]) -> Result<Reply> {
        // The same commands are refused as on a server, so that a program that works on one cache
        // works on all of them.
        let words = shared(words)?;
        let name = words.first().copied().unwrap_or_default();
        if waits_for_keys(&words) {
            return Err(Error::argument(format!(
                "{} waits for keys, which would block the event loop; use the methods of Store on \
                 a separate thread, or poll without waiting",
                String::from_utf8_lossy(name)
            )));
        }
        if !is_script(name) {
            copied(words.iter().map(|word| word.len()).sum());
            return self.patiently(|store| store.command(&words)).await;
        }
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        // A script may run for seconds, so it runs on a separate thread.
        let store = self.store.clone();
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
        let ran = spawn_blocking(move || store.command(&words)).await;
        ran.unwrap_or(Err(Error::Closed))
    }

    /// Completes the steps after a commit that a busy lock postponed, such as serving the tasks
    /// that wait for a key.
    async fn settle(&self) {
        let until = Instant::now() + self.store.with(engine::Store::patience);
        while Instant::now() < until {
            let again = momentarily(&self.store, &mut |store| {
                Ok(store.with(engine::Store::settle_waits))
            });
            let Ok(Some(after)) = again else { return };
            sleep(after.clamp(MOMENT, PAUSE_MAX)).await;
        }
    }

    async fn receive(&self, topic: Topic, names: &[&[u8]]) -> Result<Subscription> {
        check_names(names)?;
        let receiver = self.patiently(|store| Receiver::new(store, topic, names));
        let receiver = receiver.await?;
        Ok(Subscription::new(stream::unfold(
            Some(receiver),
            |receiver| async {
                let mut receiver = receiver?;
                let event = receiver.next().await;
                // After the store is removed, no further event can arrive.
                let is_over = matches!(event, Err(Error::Removed(_)));
                Some((event, Some(receiver).filter(|_| !is_over)))
            },
        )))
    }
}

/// Returns whether a call counts against its task's budget. The runtime grants a budget of 128 per
/// turn, and every 16th call counts. A call takes about 1 us, which is short compared with a turn
/// of all other tasks.
#[inline]
fn is_counted() -> bool {
    CALLS.with(|calls| {
        calls.set(calls.get().wrapping_add(1));
        calls.get() % 16 == 0
    })
}

/// Records how many bytes a call copied. After a long copy, the next call counts against the
/// budget.
#[inline]
fn copied(bytes: usize) {
    if bytes >= LONG {
        CALLS.with(|calls| calls.set(15));
    }
}

/// Returns whether a command waits until a key has data.
fn waits_for_keys(words: &[&[u8]]) -> bool {
    let name = words.first().copied().unwrap_or_default();
    let is_blocking = find(name).is_some_and(|command| command.flags.has(Flag::Blocking));
    // XREAD and XREADGROUP wait only if an option before the keys says so.
    let is_read = name.len() >= 5 && name[..5].eq_ignore_ascii_case(b"XREAD");
    let mut options = words
        .iter()
        .take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"));
    is_blocking && (!is_read || options.any(|word| word.eq_ignore_ascii_case(b"BLOCK")))
}

/// Returns whether a command runs a script or a function.
fn is_script(name: &[u8]) -> bool {
    let begins = |with: &[u8]| {
        name.get(..with.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    begins(b"EVAL") || begins(b"FCALL")
}

/// Makes a call that waits for a lock for at most `MOMENT`.
fn momentarily<R>(store: &Store, call: &mut impl FnMut(&Store) -> Result<R>) -> Result<R> {
    let _limited = limit_patience(MOMENT);
    call(store)
}

/// Makes a call on this cache and observes it.
#[inline]
fn watched<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T>>,
) -> impl Future<Output = Result<T>> {
    observe::call("StoreCache", operation, call)
}

impl sealed::Sealed for StoreCache {}

#[async_trait]
impl Cache for StoreCache {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let call = self.patiently(|store| store.get(key));
        let found = watched("get", call).await;
        copied(
            found
                .as_ref()
                .map_or(0, |value| value.as_ref().map_or(0, Vec::len)),
        );
        found
    }

    async fn mget(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let call = self.patiently(|store| store.mget(keys));
        let found = watched("mget", call).await;
        let lengths = found.iter().flatten().flatten().map(Vec::len);
        copied(lengths.sum());
        found
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<()> {
        copied(value.len());
        watched("set", self.patiently(|store| store.set(key, value))).await
    }

    async fn set_options(&self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool> {
        copied(value.len());
        let call = self.patiently(|store| store.set_options(key, value, options));
        watched("set", call).await
    }

    async fn set_get_old(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<Option<Vec<u8>>> {
        copied(value.len());
        let call = self.patiently(|store| store.set_get_old(key, value, options));
        watched("set_get_old", call).await
    }

    async fn del(&self, keys: &[&[u8]]) -> Result<u64> {
        watched("del", self.patiently(|store| store.del(keys))).await
    }

    async fn exists(&self, keys: &[&[u8]]) -> Result<u64> {
        watched("exists", self.patiently(|store| store.exists(keys))).await
    }

    async fn expire(&self, key: &[u8], after: Duration) -> Result<bool> {
        watched("expire", self.patiently(|store| store.expire(key, after))).await
    }

    async fn ttl(&self, key: &[u8]) -> Result<Option<Duration>> {
        watched("ttl", self.patiently(|store| store.ttl(key))).await
    }

    async fn incr(&self, key: &[u8], delta: i64) -> Result<i64> {
        watched("incr", self.patiently(|store| store.incr(key, delta))).await
    }

    async fn command(&self, words: &[&[u8]]) -> Result<Reply> {
        watched("command", self.run(words)).await
    }

    async fn take_lease(&self, key: &[u8], term: Duration) -> Result<Option<Lease>> {
        self.patiently(|store| store.take_lease(key, term)).await
    }

    async fn set_leased(
        &self,
        mut lease: Lease,
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool> {
        let set = self.patiently(|store| store.try_set_leased(&lease, value, options));
        let done = set.await?;
        lease.is_ended();
        Ok(done)
    }

    async fn publish(&self, channel: &[u8], message: &[u8]) -> Result<u64> {
        let call = self.patiently(|store| store.publish(channel, message));
        watched("publish", call).await
    }

    async fn subscribe(&self, channels: &[&[u8]]) -> Result<Subscription> {
        watched("subscribe", self.receive(Topic::Channel, channels)).await
    }

    async fn psubscribe(&self, patterns: &[&[u8]]) -> Result<Subscription> {
        let call = self.receive(Topic::Pattern, patterns);
        watched("psubscribe", call).await
    }

    async fn run_batch(&self, batch: &Batch<'_>) -> Result<Reply> {
        for words in &batch.commands {
            shared(words)?;
        }
        let call = async {
            if batch.atomic {
                // A transaction that a lock interrupted changed nothing, so it can be repeated.
                let run = |store: &Store| (&mut store.session()).run_batch(batch);
                return self.patiently(run).await;
            }
            let mut replies = Vec::with_capacity(batch.commands.len());
            for words in &batch.commands {
                replies.push(self.run(words).await);
            }
            batch.reply(replies)
        };
        watched("pipeline", call).await
    }

    fn place(&self) -> u64 {
        self.store.keys()
    }

    async fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// A subscriber, and the file descriptor that wakes the task waiting for its messages.
struct Receiver {
    open: Arc<OpenStore>,
    subscriber: Subscriber<StoreOf>,
    bell: AsyncFd<std::os::fd::OwnedFd>,
    /// The remaining copies of a published message that matches several subscriptions.
    queue: Vec<Message>,
    /// Whether the descriptor has become readable since the last check for messages.
    rung: bool,
}

impl Receiver {
    fn new(store: &Store, topic: Topic, names: &[&[u8]]) -> Result<Receiver> {
        let open = store.current()?;
        let refuse = |error| Error::engine(&open.store, error);
        let mut subscriber = Subscriber::new(StoreOf(open.clone()));
        let mut new: Vec<&[u8]> = names.to_vec();
        new.sort_unstable();
        new.dedup();
        subscriber.subscribe(topic, &new).map_err(refuse)?;
        let failed = |error: std::io::Error| Error::Open(error.to_string().into());
        let bell = subscriber.descriptor().map_err(refuse)?;
        let bell = bell.try_clone_to_owned().map_err(failed)?;
        // The function that replaces this deprecated function is unsafe, because a type may change
        // its descriptor.
        #[expect(deprecated, reason = "an owned descriptor is never reassigned")]
        let bell = AsyncFd::with_interest(bell, Interest::READABLE).map_err(failed)?;
        Ok(Receiver {
            open: open.clone(),
            subscriber,
            bell,
            queue: Vec::new(),
            rung: true,
        })
    }

    async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(message) = self.queue.pop() {
                return Ok(Event::Message(message));
            }
            match self.look() {
                Ok(Some(event)) => return Ok(event),
                // If another process holds a lock, retry after the next wake-up: the descriptor
                // becomes readable at least ten times a second.
                Ok(None) | Err(Error::Busy(_)) => {}
                Err(error) => return Err(error),
            }
            let failed = |error: std::io::Error| Error::Open(error.to_string().into());
            let mut ready = self.bell.readable().await.map_err(failed)?;
            // From this point on, any new message makes the descriptor readable again.
            ready.clear_ready();
            self.rung = true;
        }
    }

    /// Returns the next event, or `None` if none has arrived.
    fn look(&mut self) -> Result<Option<Event>> {
        let _limited = limit_patience(MOMENT);
        let rung = std::mem::take(&mut self.rung);
        let event = self.subscriber.try_next_after(rung);
        match event.map_err(|error| Error::engine(&self.open.store, error))? {
            None => Ok(None),
            Some(engine::messages::Event::Lost(count)) => Ok(Some(Event::Lost(Some(count)))),
            Some(engine::messages::Event::Message(message)) => {
                copies(&message, &mut self.queue);
                Ok(self.queue.pop().map(Event::Message))
            }
        }
    }
}
