//! A cache for the tests of programs that use a cache.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::stream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use undercroft_engine::glob::{Case, matches};
use undercroft_engine::{ForkGuard, ForkMutex};

use crate::cache::{Cache, sealed};
use crate::command::{Batch, Reply};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::message::{Event, Message, check_names};
use crate::remote::{SetWords, shared};
use crate::set_options::{Deadline, SetOptions, expiry_milliseconds};
use crate::subscription::Subscription;

/// A cache for tests, which keeps strings in the memory of the test. Requires the crate's `mock`
/// feature.
///
/// The mock records all calls. A test selects which calls fail ([`fail_next`](Self::fail_next)),
/// what [`command`](Cache::command) replies ([`reply_next`](Self::reply_next)), and how much time
/// passes ([`advance`](Self::advance)). Leases have the same meaning as in other caches. Clones share
/// the same values.
///
/// ```
/// use std::time::Duration;
/// use undercroft::{Cache, Error, MockCache, SetOptions};
///
/// /// The code under test.
/// async fn visits(cache: &dyn Cache) -> i64 {
///     cache.incr(b"visits", 1).await.unwrap_or(-1)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> undercroft::Result<()> {
/// let mock = MockCache::new();
/// assert_eq!(visits(&mock).await, 1);
/// mock.fail_next(Error::TimedOut(Duration::from_secs(5)));
/// assert_eq!(visits(&mock).await, -1);
/// assert_eq!(mock.calls(), ["INCRBY visits 1", "INCRBY visits 1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MockCache(Arc<ForkMutex<State>>);

#[derive(Default)]
struct State {
    values: HashMap<Vec<u8>, Value>,
    /// The token of each key's lease, and the time at which the lease ends.
    leases: HashMap<Vec<u8>, (Vec<u8>, Duration)>,
    tokens: u64,
    /// The Unix time at which the mock was created.
    start: Duration,
    /// The time that has passed since then.
    now: Duration,
    calls: Vec<String>,
    failures: VecDeque<Error>,
    replies: VecDeque<Result<Reply>>,
    subscribers: Vec<Subscriber>,
    is_closed: bool,
}

struct Value {
    bytes: Vec<u8>,
    /// The time at which the value expires.
    until: Option<Duration>,
}

struct Subscriber {
    names: Vec<Vec<u8>>,
    are_patterns: bool,
    events: UnboundedSender<Result<Event>>,
}

impl MockCache {
    /// Returns an empty mock.
    ///
    /// ```
    /// assert!(undercroft::MockCache::new().calls().is_empty());
    /// ```
    pub fn new() -> MockCache {
        let start = SystemTime::now().duration_since(UNIX_EPOCH);
        let state = State {
            start: start.unwrap_or_default(),
            ..State::default()
        };
        MockCache(Arc::new(ForkMutex::new(state, State::default)))
    }

    /// Makes the next call fail. Repeated calls of this method queue several errors.
    ///
    /// ```
    /// use undercroft::{Cache, Error, MockCache};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mock = MockCache::new();
    /// mock.fail_next(Error::Closed);
    /// assert!(mock.get(b"key").await.is_err());
    /// assert!(mock.get(b"key").await.is_ok());
    /// # }
    /// ```
    pub fn fail_next(&self, error: Error) {
        self.state().failures.push_back(error);
    }

    /// Queues the reply to a later call of [`command`](Cache::command), which the mock does not
    /// execute.
    ///
    /// ```
    /// use undercroft::{Cache, MockCache, Reply};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// let mock = MockCache::new();
    /// mock.reply_next(Reply::Integer(3));
    /// assert_eq!(mock.command(&[b"LLEN", b"jobs"]).await?, Reply::Integer(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reply_next(&self, reply: Reply) {
        self.state()
            .replies
            .push_back(crate::command::outcome(reply));
    }

    /// Returns all calls since the mock was created, as the commands that a cache on a server
    /// sends. Bytes that are not UTF-8 are replaced.
    ///
    /// ```
    /// use undercroft::{Cache, MockCache};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// let mock = MockCache::new();
    /// mock.get(b"key").await?;
    /// assert_eq!(mock.calls(), ["GET key"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// Moves the mock's clock, by which values and leases expire.
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::{Cache, MockCache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// let mock = MockCache::new();
    /// mock.set_options(b"key", b"value", SetOptions::new().ttl(Duration::from_secs(60))).await?;
    /// mock.advance(Duration::from_secs(61));
    /// assert_eq!(mock.get(b"key").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&self, time: Duration) {
        let mut state = self.state();
        state.now += time;
        let now = state.now;
        let is_alive = |until: Option<Duration>| until.is_none_or(|until| until > now);
        state.values.retain(|_, value| is_alive(value.until));
        state.leases.retain(|_, (_, until)| is_alive(Some(*until)));
    }

    /// Returns a lease on a key with the value that the key had when the lease was taken, for
    /// functions that expect a lease. A lease that another caller holds is replaced, as if its term
    /// had ended.
    ///
    /// ```
    /// use undercroft::{Cache, MockCache, SetOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// let mock = MockCache::new();
    /// let lease = mock.lease(b"page", Some(b"old"));
    /// assert_eq!(lease.value(), Some(&b"old"[..]));
    /// assert!(mock.set_leased(lease, b"new", SetOptions::new()).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(&self, key: &[u8], value: Option<&[u8]>) -> Lease {
        self.new_lease(key, value.map(<[u8]>::to_vec), Duration::from_secs(10))
    }

    fn new_lease(&self, key: &[u8], value: Option<Vec<u8>>, term: Duration) -> Lease {
        let mut state = self.state();
        state.tokens += 1;
        let token = state.tokens.to_string().into_bytes();
        let until = state.now.saturating_add(term);
        state.leases.insert(key.to_vec(), (token.clone(), until));
        drop(state);
        let shared = self.clone();
        Lease::new(key, token, value, move |key, token| {
            let mut state = shared.state();
            if state.leases.get(key).is_some_and(|held| held.0 == token) {
                state.leases.remove(key);
            }
        })
    }

    fn state(&self) -> ForkGuard<'_, State> {
        self.0.lock()
    }

    /// Records a call. Fails if the test wants the call to fail.
    fn begin(&self, name: &str, arguments: &[&[u8]]) -> Result<ForkGuard<'_, State>> {
        let mut state = self.state();
        let mut text = name.to_owned();
        for argument in arguments {
            text.push(' ');
            text.push_str(&String::from_utf8_lossy(argument));
        }
        state.calls.push(text);
        match state.failures.pop_front() {
            Some(error) => Err(error),
            None if state.is_closed => Err(Error::Closed),
            None => Ok(state),
        }
    }

    fn receive(&self, names: &[&[u8]], are_patterns: bool) -> Result<Subscription> {
        check_names(names)?;
        let name = if are_patterns {
            "PSUBSCRIBE"
        } else {
            "SUBSCRIBE"
        };
        let mut state = self.begin(name, names)?;
        let (events, receiver) = unbounded_channel();
        let names = names.iter().map(|name| name.to_vec()).collect();
        state.subscribers.push(Subscriber {
            names,
            are_patterns,
            events,
        });
        let next = |mut receiver: tokio::sync::mpsc::UnboundedReceiver<_>| async {
            receiver.recv().await.map(|event| (event, receiver))
        };
        Ok(Subscription::new(stream::unfold(receiver, next)))
    }
}

impl Default for MockCache {
    fn default() -> MockCache {
        MockCache::new()
    }
}

impl State {
    /// Sets a value, subject to the condition and the expiry in the options.
    fn set_options(&mut self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool> {
        let until = match options.deadline()? {
            Deadline::Never => None,
            Deadline::Keep => self.values.get(key).and_then(|value| value.until),
            Deadline::After(after) => Some(self.now + Duration::from_millis(after)),
            // The mock's clock starts at the current time, like that of a new test.
            Deadline::At(at) => Some(Duration::from_millis(at).saturating_sub(self.start)),
        };
        let is_refused = match options.word() {
            Some(b"NX") => self.values.contains_key(key),
            Some(_) => !self.values.contains_key(key),
            None => false,
        };
        if is_refused {
            return Ok(false);
        }
        self.store(key, value, until);
        Ok(true)
    }

    fn store(&mut self, key: &[u8], value: &[u8], until: Option<Duration>) {
        let bytes = value.to_vec();
        self.values.insert(key.to_vec(), Value { bytes, until });
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.values.get(key).map(|value| value.bytes.clone())
    }

    /// Delivers a message. Returns the number of subscriptions that receive it.
    fn publish(&mut self, channel: &[u8], payload: &[u8]) -> u64 {
        let mut receivers = 0;
        self.subscribers.retain(|subscriber| {
            for name in &subscriber.names {
                let is_for = match subscriber.are_patterns {
                    true => matches(name, channel, Case::Sensitive).unwrap_or(false),
                    false => name == channel,
                };
                if is_for && !subscriber.events.is_closed() {
                    receivers += 1;
                    // The receiver may be dropped at any moment, like a real subscription.
                    let _ = subscriber.events.send(Ok(Event::Message(Message {
                        channel: channel.to_vec(),
                        pattern: subscriber.are_patterns.then(|| name.clone()),
                        payload: payload.to_vec(),
                    })));
                }
            }
            !subscriber.events.is_closed()
        });
        receivers
    }
}

impl sealed::Sealed for MockCache {}

#[async_trait]
impl Cache for MockCache {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.begin("GET", &[key])?.get(key))
    }

    async fn mget(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let state = self.begin("MGET", keys)?;
        Ok(keys.iter().map(|key| state.get(key)).collect())
    }

    async fn set(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.set_options(key, value, SetOptions::new())
            .await
            .map(drop)
    }

    async fn set_options(&self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool> {
        let mut words = SetWords::new(key, value, options)?;
        let (words, count) = words.words();
        self.begin("SET", &words[1..count])?
            .set_options(key, value, options)
    }

    async fn set_get_old(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<Option<Vec<u8>>> {
        let mut words = SetWords::new(key, value, options)?.getting_old();
        let (words, count) = words.words();
        let mut state = self.begin("SET", &words[1..count])?;
        let old = state.get(key);
        state.set_options(key, value, options)?;
        Ok(old)
    }

    async fn del(&self, keys: &[&[u8]]) -> Result<u64> {
        let mut state = self.begin("DEL", keys)?;
        let removed = keys
            .iter()
            .filter(|key| state.values.remove(**key).is_some());
        Ok(removed.count() as u64)
    }

    async fn exists(&self, keys: &[&[u8]]) -> Result<u64> {
        let state = self.begin("EXISTS", keys)?;
        let there = keys.iter().filter(|key| state.values.contains_key(**key));
        Ok(there.count() as u64)
    }

    async fn expire(&self, key: &[u8], after: Duration) -> Result<bool> {
        let milliseconds = expiry_milliseconds(after)?;
        let digits = milliseconds.to_string();
        let mut state = self.begin("PEXPIRE", &[key, digits.as_bytes()])?;
        let until = state.now + Duration::from_millis(milliseconds);
        let Some(value) = state.values.get_mut(key) else {
            return Ok(false);
        };
        value.until = Some(until);
        if milliseconds == 0 {
            state.values.remove(key);
        }
        Ok(true)
    }

    async fn ttl(&self, key: &[u8]) -> Result<Option<Duration>> {
        let state = self.begin("PTTL", &[key])?;
        let until = state.values.get(key).and_then(|value| value.until);
        Ok(until.map(|until| until.saturating_sub(state.now)))
    }

    async fn incr(&self, key: &[u8], delta: i64) -> Result<i64> {
        let mut state = self.begin("INCRBY", &[key, delta.to_string().as_bytes()])?;
        let value = state.values.entry(key.to_vec()).or_insert(Value {
            bytes: b"0".to_vec(),
            until: None,
        });
        let Some(before) = undercroft_numbers::parse_integer(&value.bytes) else {
            return Err(Error::reply("ERR value is not an integer or out of range"));
        };
        let Some(sum) = before.checked_add(delta) else {
            return Err(Error::reply("ERR increment or decrement would overflow"));
        };
        value.bytes = sum.to_string().into_bytes();
        Ok(sum)
    }

    async fn command(&self, words: &[&[u8]]) -> Result<Reply> {
        let words = shared(words)?;
        let name = String::from_utf8_lossy(words[0]).into_owned();
        let mut state = self.begin(&name, &words[1..])?;
        state.replies.pop_front().unwrap_or_else(|| {
            Err(Error::argument(format!(
                "the mock has no reply to {name}; queue one with MockCache::reply_next"
            )))
        })
    }

    async fn take_lease(&self, key: &[u8], term: Duration) -> Result<Option<Lease>> {
        let state = self.begin("TAKE_LEASE", &[key])?;
        if state.leases.contains_key(key) {
            return Ok(None);
        }
        let value = state.get(key);
        drop(state);
        Ok(Some(self.new_lease(key, value, term)))
    }

    async fn set_leased(
        &self,
        mut lease: Lease,
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool> {
        let ttl = options.leased_milliseconds()?.map(Duration::from_millis);
        let mut state = self.begin("SET_LEASED", &[&lease.key, value])?;
        let until = ttl.map(|ttl| state.now + ttl);
        let held = state.leases.get(&lease.key);
        let is_held = held.is_some_and(|held| held.0 == lease.token);
        if is_held {
            state.leases.remove(&lease.key);
            state.store(&lease.key, value, until);
        }
        drop(state);
        lease.is_ended();
        Ok(is_held)
    }

    async fn publish(&self, channel: &[u8], message: &[u8]) -> Result<u64> {
        let mut state = self.begin("PUBLISH", &[channel, message])?;
        Ok(state.publish(channel, message))
    }

    async fn subscribe(&self, channels: &[&[u8]]) -> Result<Subscription> {
        self.receive(channels, false)
    }

    async fn psubscribe(&self, patterns: &[&[u8]]) -> Result<Subscription> {
        self.receive(patterns, true)
    }

    async fn run_batch(&self, batch: &Batch<'_>) -> Result<Reply> {
        let mut replies = Vec::new();
        for words in &batch.commands {
            replies.push(self.command(words).await);
        }
        // The queued replies stand for the commands, in a transaction as well.
        let nested = |reply| match reply {
            Err(Error::Reply(text)) => Ok(Reply::Error(text.into())),
            other => other,
        };
        let replies: Result<Vec<Reply>> = replies.into_iter().map(nested).collect();
        replies.map(Reply::Array)
    }

    async fn close(&self) {
        self.state().is_closed = true;
    }
}

impl fmt::Debug for MockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("MockCache")
            .field("keys", &state.values.len())
            .field("calls", &state.calls.len())
            .finish()
    }
}
