use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use undercroft_embedded::{
    ChannelMessage, ChannelPatience, ChannelValue, NAME_ITEM, new_object_id, refuses,
};

use super::objects::check_length;
use crate::command::{FromReply, Pipeline, Script, cmd, pipe};
use crate::error::{Error, Result};
use crate::remote::Pool;

/// The maximum time that a waiting consumer and a waiting producer sleep between checks.
const SLICE: Duration = Duration::from_secs(1);
const ROOM_SLICE: Duration = Duration::from_millis(100);
/// The shortest wait that a server does not take for an unlimited one.
const SLICE_MIN: Duration = Duration::from_millis(1);
/// The interval at which consumers look for holders past their deadline.
const RECALL: Duration = Duration::from_secs(1);
/// The milliseconds for which a waiting producer stays registered, and the maximum number of its
/// tokens.
const WANTED: u64 = 2000;
const TOKENS: i64 = 64;
/// The milliseconds for which the token that wakes consumers exists.
const WAKING: u64 = 10_000;
/// The server's clock has not been read yet.
const UNKNOWN: i64 = i64::MIN;

/// Returns the messages of a consumer past its deadline to the channel.
const RECALL_SCRIPT: &str = "local late = redis.call('ZSCORE', KEYS[2], ARGV[1]) \
    if not late or tonumber(late) >= tonumber(ARGV[2]) then return 0 end \
    local count = 0 \
    while redis.call('LMOVE', KEYS[3], KEYS[1], 'RIGHT', 'LEFT') do count = count + 1 end \
    redis.call('ZREM', KEYS[2], ARGV[1]) \
    return count";

/// A channel on a server, through commands that every Redis server since 6.2 has. `RemoteLink` in
/// Python and PHP uses the same keys in the same way.
///
/// A producer appends an item and receives the new number of items. If that exceeds the bound, or the
/// channel is closed, the producer removes the item again, unless a consumer already has. Waiters
/// sleep only briefly before they check again, so no progress depends on a wakeup.
pub(super) struct RemoteChannel {
    pool: Pool,
    bound: u64,
    visibility: Duration,
    items: String,
    closed: String,
    consumers: String,
    /// The keys of the tokens that wake producers and consumers, and of the flag of a waiting
    /// producer.
    room: String,
    wake: String,
    wanted: String,
    /// The start of the names of this handle's holds, and the number of the next hold.
    start: String,
    next: AtomicU64,
    /// The difference between the server's clock and this machine's, in milliseconds, or [`UNKNOWN`].
    offset: AtomicI64,
    begun: Instant,
    /// When this handle last looked for holders past their deadline, in milliseconds after `begun`,
    /// plus 1, or 0 if it never did.
    recalled: AtomicU64,
}

/// A message that a consumer holds on a server.
pub(super) struct RemoteHold {
    pub(super) message: ChannelMessage,
    consumer: String,
    item: Vec<u8>,
}

impl RemoteChannel {
    /// Returns the channel with a name, without contacting the server. A `bound` of 0 means no bound.
    pub(super) fn new(pool: Pool, name: &str, bound: u64, visibility: Duration) -> RemoteChannel {
        let items = format!("undercroft:channel:{{{name}}}");
        let key = |kind: &str| format!("{items}:{kind}");
        RemoteChannel {
            pool,
            bound,
            visibility,
            closed: key("closed"),
            consumers: key("consumers"),
            room: key("room"),
            wake: key("wake"),
            wanted: key("wanted"),
            items,
            start: format!("~{}-", String::from_utf8_lossy(&new_object_id())),
            next: AtomicU64::new(0),
            offset: AtomicI64::new(UNKNOWN),
            begun: Instant::now(),
            recalled: AtomicU64::new(0),
        }
    }

    /// Returns the connections to the channel's server.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn held(&self, consumer: &str) -> String {
        format!("{}:held:{consumer}", self.items)
    }

    fn object_key(&self, item: &[u8]) -> Option<Vec<u8>> {
        let id = item.strip_prefix(&[NAME_ITEM])?;
        Some([self.items.as_bytes(), b":object:", id].concat())
    }

    /// Sends a value, waiting for room. Returns false if the channel is still full after the timeout.
    pub(super) fn send(&self, value: ChannelValue<'_>, patience: &ChannelPatience) -> Result<bool> {
        let item = value.item().map_err(Error::argument)?;
        check_length(item.len())?;
        while !self.is_added(&item)? {
            let Some(left) = patience.left() else {
                return Ok(false);
            };
            let waiting = (&self.wanted, "1", "PX", WANTED);
            cmd("SET").arg(waiting).exec(&self.pool)?;
            // From here on, consumers that remove a message push a token.
            self.pop(&[&self.room], left.min(ROOM_SLICE))?;
        }
        Ok(true)
    }

    fn is_added(&self, item: &[u8]) -> Result<bool> {
        let mut pipeline = pipe();
        pipeline.atomic().cmd("RPUSH").arg((&self.items, item));
        pipeline.cmd("EXISTS").arg(&self.closed);
        let (length, is_closed): (u64, bool) = pipeline.query(&self.pool)?;
        if !is_closed && (self.bound == 0 || length <= self.bound) {
            return Ok(true);
        }
        let removed: u64 = cmd("LREM").arg((&self.items, -1, item)).query(&self.pool)?;
        match (removed, is_closed) {
            // A consumer has already removed the item, so it counts as sent.
            (0, _) => Ok(true),
            (_, true) => Err(Error::ChannelClosed),
            (_, false) => Ok(false),
        }
    }

    /// Removes and returns the first item of the first list that has one, waiting up to `wait`.
    fn pop(&self, lists: &[&str], wait: Duration) -> Result<Option<(String, Vec<u8>)>> {
        let mut command = cmd("BLPOP");
        let wait = wait.max(SLICE_MIN);
        command.arg(lists).arg(wait.as_secs_f64());
        self.pool.call_blocking(&command.words(), wait)?.to()
    }

    /// Removes and returns the first message, waiting for it. Returns `None` after the timeout.
    pub(super) fn receive(&self, patience: &ChannelPatience) -> Result<Option<ChannelMessage>> {
        loop {
            self.recall_at_times()?;
            let mut pipeline = pipe();
            pipeline.atomic().cmd("LPOP").arg(&self.items);
            let (item, is_closed, is_wanted) = self.with_flags(pipeline)?;
            let item: Vec<u8> = match item {
                Some(item) => {
                    self.wake_producer(is_wanted);
                    item
                }
                None if is_closed => return Err(Error::ChannelClosed),
                None => {
                    let Some(left) = patience.left() else {
                        return Ok(None);
                    };
                    match self.pop(&[&self.items, &self.wake], left.min(SLICE))? {
                        None => continue,
                        Some((key, _)) if key == self.wake => {
                            // Pass the wakeup on, because other consumers wait for it as well.
                            if self.is_closed()? {
                                self.wake_consumers()?;
                            }
                            continue;
                        }
                        Some((_, item)) => item,
                    }
                }
            };
            let message = match refuses(&item) {
                true => Err(pickle()),
                false => self.message(&item, true),
            };
            match message {
                Ok(None) => {}
                Ok(message) => return Ok(message),
                Err(error) => {
                    // Put the item back, and report the first error.
                    let back = cmd("LPUSH").arg((&self.items, item)).exec(&self.pool);
                    return Err(error).inspect_err(|_| drop(back));
                }
            }
        }
    }

    /// Runs a transaction, and returns its last reply, whether the channel is closed, and whether a
    /// producer waits for room.
    fn with_flags<T: FromReply>(&self, mut pipeline: Pipeline) -> Result<(T, bool, bool)> {
        pipeline.cmd("EXISTS").arg(&self.closed);
        pipeline.cmd("EXISTS").arg(&self.wanted);
        pipeline.query(&self.pool)
    }

    /// Returns the message of an item, or `None` if its separately stored value has expired.
    fn message(&self, item: &[u8], takes: bool) -> Result<Option<ChannelMessage>> {
        let Some(key) = self.object_key(item) else {
            return Ok(Some(ChannelMessage::copied(item)));
        };
        let name = if takes { "GETDEL" } else { "GET" };
        let whole: Option<Vec<u8>> = cmd(name).arg(key).query(&self.pool)?;
        Ok(whole.map(|whole| ChannelMessage::copied(&whole)))
    }

    /// Receives the first message and holds it until [`end`](Self::end), or until the visibility has
    /// passed. Returns `None` after the timeout.
    pub(super) fn hold(&self, patience: &ChannelPatience) -> Result<Option<RemoteHold>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let consumer = format!("{}{number}", self.start);
        let held = self.held_by(&consumer, patience);
        if !matches!(held, Ok(Some(_))) {
            // If this fails, another consumer removes the name after the deadline.
            let forget = cmd("ZREM")
                .arg((&self.consumers, &consumer))
                .exec(&self.pool);
            return held.inspect_err(|_| drop(forget));
        }
        held
    }

    fn held_by(&self, consumer: &str, patience: &ChannelPatience) -> Result<Option<RemoteHold>> {
        let held = self.held(consumer);
        loop {
            self.recall_at_times()?;
            // Register the holder before it has a message to recall, with a deadline after this sleep.
            let lasts = self.visibility.saturating_add(SLICE).as_millis();
            let lasts = i64::try_from(lasts).unwrap_or(i64::MAX);
            let deadline = self.time()?.saturating_add(lasts);
            let mut pipeline = pipe();
            let known = (&self.consumers, deadline, consumer);
            pipeline.atomic().cmd("ZADD").arg(known).ignore();
            pipeline
                .cmd("LMOVE")
                .arg((&self.items, &held, "LEFT", "RIGHT"));
            let (item, is_closed, is_wanted) = self.with_flags(pipeline)?;
            let item: Option<Vec<u8>> = match item {
                None if is_closed => return Err(Error::ChannelClosed),
                None => {
                    let Some(left) = patience.left() else {
                        return Ok(None);
                    };
                    let wait = left.clamp(SLICE_MIN, SLICE);
                    let mut command = cmd("BLMOVE");
                    command.arg((&self.items, &held, "LEFT", "RIGHT", wait.as_secs_f64()));
                    self.pool.call_blocking(&command.words(), wait)?.to()?
                }
                item => item,
            };
            let Some(item) = item else { continue };
            self.wake_producer(is_wanted);
            let message = match refuses(&item) {
                true => Err(pickle()),
                false => self.message(&item, false),
            };
            match message {
                Ok(Some(message)) => {
                    return Ok(Some(RemoteHold {
                        message,
                        consumer: consumer.to_owned(),
                        item,
                    }));
                }
                Ok(None) => drop(self.end_hold(consumer, &item, false)?),
                Err(error) => {
                    // If this fails, the message returns after the deadline.
                    let back = self.end_hold(consumer, &item, true);
                    return Err(error).inspect_err(|_| drop(back));
                }
            }
        }
    }

    /// Ends a hold: returns the message to the front of the channel, or deletes it. Returns false if
    /// the message was no longer held.
    pub(super) fn end(&self, hold: &RemoteHold, goes_back: bool) -> Result<bool> {
        self.end_hold(&hold.consumer, &hold.item, goes_back)
    }

    fn end_hold(&self, consumer: &str, item: &[u8], goes_back: bool) -> Result<bool> {
        let held = self.held(consumer);
        let mut pipeline = pipe();
        pipeline.atomic();
        match goes_back {
            true => pipeline
                .cmd("LMOVE")
                .arg((&held, &self.items, "RIGHT", "LEFT")),
            false => pipeline.cmd("LREM").arg((&held, 1, item)),
        };
        pipeline
            .cmd("ZREM")
            .arg((&self.consumers, consumer))
            .ignore();
        let ended = match goes_back {
            true => pipeline
                .query::<(Option<Vec<u8>>,)>(&self.pool)?
                .0
                .is_some(),
            false => pipeline.query::<(bool,)>(&self.pool)?.0,
        };
        if let (true, false, Some(key)) = (ended, goes_back, self.object_key(item)) {
            cmd("UNLINK").arg(key).exec(&self.pool)?;
        }
        Ok(ended)
    }

    /// Wakes a producer if one waits. A producer whose wakeup is lost checks again soon.
    fn wake_producer(&self, is_wanted: bool) {
        if is_wanted {
            let mut pipeline = pipe();
            pipeline.atomic().cmd("RPUSH").arg((&self.room, "1"));
            pipeline.cmd("LTRIM").arg((&self.room, 0, TOKENS - 1));
            pipeline.cmd("PEXPIRE").arg((&self.room, WANTED));
            drop(pipeline.exec(&self.pool));
        }
    }

    /// Wakes waiting consumers, so that they notice that the channel is closed.
    fn wake_consumers(&self) -> Result<()> {
        let mut pipeline = pipe();
        pipeline.atomic().cmd("DEL").arg(&self.wake);
        pipeline.cmd("RPUSH").arg((&self.wake, "1"));
        pipeline.cmd("PEXPIRE").arg((&self.wake, WAKING));
        pipeline.exec(&self.pool)
    }

    fn recall_at_times(&self) -> Result<()> {
        let now = self.begun.elapsed().as_millis() as u64 + 1;
        let last = self.recalled.load(Ordering::Relaxed);
        if last != 0 && now - last.min(now) < RECALL.as_millis() as u64 {
            return Ok(());
        }
        self.recalled.store(now, Ordering::Relaxed);
        if !cmd("EXISTS").arg(&self.consumers).query(&self.pool)? {
            return Ok(());
        }
        let now = self.time()?;
        let late = (&self.consumers, "-inf", format!("({now}"));
        let late: Vec<String> = cmd("ZRANGEBYSCORE").arg(late).query(&self.pool)?;
        for consumer in late {
            let keys = (&self.items, &self.consumers, self.held(&consumer));
            Script::new(RECALL_SCRIPT)
                .key(keys)
                .arg((consumer, now))
                .invoke::<()>(&self.pool)?;
        }
        Ok(())
    }

    /// Returns the server's time in milliseconds.
    fn time(&self) -> Result<i64> {
        let here = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.unwrap_or_default().as_millis() as i64
        };
        let mut known = self.offset.load(Ordering::Relaxed);
        if known == UNKNOWN {
            let (seconds, micros): (i64, i64) = cmd("TIME").query(&self.pool)?;
            known = seconds * 1000 + micros / 1000 - here();
            self.offset.store(known, Ordering::Relaxed);
        }
        Ok(here() + known)
    }

    /// Returns the number of messages, without held ones.
    pub(super) fn length(&self) -> Result<u64> {
        cmd("LLEN").arg(&self.items).query(&self.pool)
    }

    /// Closes the channel for all processes.
    pub(super) fn close(&self) -> Result<()> {
        cmd("SET").arg((&self.closed, "1")).exec(&self.pool)?;
        self.wake_consumers()
    }

    /// Returns whether the channel is closed.
    pub(super) fn is_closed(&self) -> Result<bool> {
        cmd("EXISTS").arg(&self.closed).query(&self.pool)
    }

    /// Deletes all messages, including held ones, and opens the channel again.
    pub(super) fn delete(&self) -> Result<()> {
        let mut lists = vec![self.items.clone()];
        let all = (&self.consumers, 0, -1);
        let consumers: Vec<String> = cmd("ZRANGE").arg(all).query(&self.pool)?;
        lists.extend(consumers.iter().map(|consumer| self.held(consumer)));
        for list in lists {
            loop {
                let items: Option<Vec<Vec<u8>>> =
                    cmd("LPOP").arg((&list, 1000)).query(&self.pool)?;
                let Some(items) = items.filter(|items| !items.is_empty()) else {
                    break;
                };
                let keys: Vec<_> = items
                    .iter()
                    .filter_map(|item| self.object_key(item))
                    .collect();
                if !keys.is_empty() {
                    cmd("UNLINK").arg(keys).exec(&self.pool)?;
                }
            }
        }
        let rest = [&self.closed, &self.consumers, &self.wake];
        cmd("DEL").arg(rest).exec(&self.pool)
    }
}

fn pickle() -> Error {
    Error::reply("ERR the first message is a pickle, which only Python reads; receive it in Python")
}
