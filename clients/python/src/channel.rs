//! Channels, which are bounded queues of messages between processes.
//!
//! Each message is one item of a list. The item's first byte is its kind: plain bytes, text, or any
//! other value as encoded by `undercroft.channels.channel`. An item can also be the name of an object in the
//! store, which only the consumer that holds the message may remove.

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use pyo3::{create_exception, import_exception};
use smallvec::SmallVec;
use undercroft_engine::channels::{Channel, Received, Sent};
use undercroft_engine::lists::End;
use undercroft_engine::waiting::{Answer, Look, Looked, Take, Wanted};
use undercroft_engine::{
    Error, Ranges, Store, coarse_milliseconds, defer_signals, unlimited_patience,
};

use crate::client::{Client, Use};
use crate::objects;
use crate::threads::gil_cell::GilCell;

import_exception!(queue, Empty);
import_exception!(queue, Full);
create_exception!(
    undercroft,
    ChannelClosed,
    PyException,
    "The channel is closed and empty: it accepts no more items, and all its items were received."
);
create_exception!(
    undercroft._native,
    MovedError,
    PyException,
    "The client has left a removed store. Items that were put into that store must be put again."
);

/// The first byte of an item that is plain bytes, text, or the name of an object. Any other item is
/// an encoded object.
const BYTES: u8 = b'b';
const TEXT: u8 = b's';
const NAME: u8 = b'r';
/// The magic number of an encoded object, and the kind byte of a pickle. Only channels opened with
/// `pickles` read pickles.
const OBJECT: &[u8] = b"\xc1UO";
const PICKLE: u8 = b'p';
/// Values of at least this many bytes are stored as separate objects, and their items contain the
/// objects' names.
const INLINE_MAX: usize = 32 << 10;
/// The interval at which a waiting consumer checks for dead consumers that still hold messages.
const RECALL: Duration = Duration::from_secs(1);
/// The maximum time to poll before sleeping, and the number of checks before each yield to the
/// scheduler.
const WINDOW: Duration = Duration::from_micros(50);
const LOOKS: u32 = 4;
/// A producer that finds the channel full first sleeps until one part in `FREE_PART` of the
/// capacity is free, so that it does not wake for every consumed message. After `LULL` it accepts
/// room for one message, because the consumers may be waiting for the producer and leave the
/// remaining messages unread.
const FREE_PART: u64 = 4;
const LULL: Duration = Duration::from_millis(2);
/// The backoff after a poll that found nothing: the initial and the maximum number of waits that
/// skip polling.
const RESTS: (u32, u32) = (1, 64);

/// A client's handle to one channel.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct ChannelLink {
    client: Py<Client>,
    channel: Channel,
    most: u64,
    pickles: bool,
    /// When this handle last checked for dead consumers, in milliseconds.
    recalled: AtomicU64,
    held: GilCell<Held>,
    eagerness: Eagerness,
}

/// The messages that this handle's consumer holds.
#[derive(Default)]
struct Held {
    count: usize,
    /// The number of removed stores that the client had left when it received these messages.
    removals: u64,
}

/// Backoff that decides whether to poll before sleeping, based on recent success.
struct Eagerness {
    rests: AtomicU32,
    next: AtomicU32,
}

impl Eagerness {
    /// Polls for up to [`WINDOW`] and returns whether the condition became true. Returns false
    /// without polling during the backoff after a poll that found nothing.
    fn look(&self, mut is_there: impl FnMut() -> bool) -> bool {
        let rests = self.rests.load(Ordering::Relaxed);
        if rests > 0 {
            self.rests.store(rests - 1, Ordering::Relaxed);
            return false;
        }
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if is_there() {
                    self.next.store(RESTS.0, Ordering::Relaxed);
                    return true;
                }
                hint::spin_loop();
            }
            if start.elapsed() >= WINDOW {
                break;
            }
            thread::yield_now();
        }
        let next = self.next.load(Ordering::Relaxed);
        self.rests.store(next, Ordering::Relaxed);
        self.next.store((next * 2).min(RESTS.1), Ordering::Relaxed);
        false
    }
}

/// The maximum time that a call waits.
enum Patience {
    /// Does not wait.
    None,
    Until(Instant),
    Ever,
}

impl Patience {
    fn of(block: bool, timeout: Option<f64>) -> PyResult<Patience> {
        match timeout {
            _ if !block => Ok(Patience::None),
            None => Ok(Patience::Ever),
            Some(seconds) if seconds >= 0.0 => {
                let span = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                // A deadline beyond the clock's range means an unlimited wait.
                Ok(match Instant::now().checked_add(span) {
                    Some(until) => Patience::Until(until),
                    None => Patience::Ever,
                })
            }
            Some(seconds) => Err(PyValueError::new_err(format!(
                "expected a timeout of at least 0 seconds, got {seconds}"
            ))),
        }
    }

    /// Returns the remaining time, or None if no time remains.
    fn left(&self) -> Option<Duration> {
        match self {
            Patience::None => None,
            Patience::Ever => Some(Duration::MAX),
            Patience::Until(until) => {
                let left = until.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(left)
            }
        }
    }
}

fn closed() -> PyErr {
    ChannelClosed::new_err("the channel is closed")
}

impl ChannelLink {
    fn raise(&self, py: Python<'_>, store: &Store, length: usize, error: Error) -> PyErr {
        objects::raise(py, self.client.get(), store, length, error)
    }

    /// Makes a call, and retries it once if the store's file was removed and the client leaves that
    /// store. If the consumer held messages from the old store, the call raises an error instead,
    /// because those messages are lost.
    fn call<R>(
        &self,
        py: Python<'_>,
        mut call: impl FnMut(&Use<'_, '_>) -> PyResult<R>,
    ) -> PyResult<R> {
        let done = self.call_within(py, None, &mut call);
        match done {
            Err(error) if error.is_instance_of::<MovedError>(py) => self
                .call_within(py, None, &mut call)
                .map_err(|error| match error.is_instance_of::<MovedError>(py) {
                    true => self.client.get().removed(),
                    false => error,
                }),
            done => done,
        }
    }

    /// Makes a call in the client's current store. Raises [`MovedError`] if `within` differs from
    /// the number of stores that the client has left, or if the client leaves the store during the
    /// call.
    fn call_within<R>(
        &self,
        py: Python<'_>,
        within: Option<u64>,
        mut call: impl FnMut(&Use<'_, '_>) -> PyResult<R>,
    ) -> PyResult<R> {
        let client = self.client.get();
        let since = within.unwrap_or_else(|| client.removals(py));
        let shared = client.enter(py)?;
        let removals = client.removals(py);
        if self.ends_holds(py, removals) {
            return Err(client.removed());
        }
        if within.is_some_and(|within| within != removals) {
            return Err(MovedError::new_err(()));
        }
        let done = call(&shared);
        drop(shared);
        match done {
            Err(error) if client.is_left(py, since, &error) && !self.ends_holds(py, u64::MAX) => {
                Err(MovedError::new_err(()))
            }
            done => done,
        }
    }

    /// Records the number of stores that the client has left. Returns whether the consumer held
    /// messages from an earlier store.
    fn ends_holds(&self, py: Python<'_>, removals: u64) -> bool {
        self.held.with(py, |held| {
            let ends = held.count > 0 && held.removals != removals;
            if held.removals != removals {
                *held = Held { count: 0, removals };
            }
            ends
        })
    }

    /// Waits until an item or room may be available, depending on `look`. Returns false on timeout.
    fn wait(
        &self,
        py: Python<'_>,
        store: &Store,
        look: Look,
        longest: Duration,
        patience: &Patience,
    ) -> PyResult<bool> {
        let Some(left) = patience.left() else {
            return Ok(false);
        };
        let database = self.client.get().database(py);
        let is_there = || store.glance_at_channel(database, &self.channel, look) != Looked::Nothing;
        if py.detach(|| self.eagerness.look(is_there)) {
            return Ok(true);
        }
        let wanted = Wanted {
            database,
            keys: &self.channel.looked_at(),
            take: Take::Look(look),
        };
        let slice = left.min(longest);
        let timeout = (slice < Duration::MAX).then_some(slice);
        let answer = store.take_or_wait(&wanted, timeout);
        match answer.map_err(|error| self.raise(py, store, 0, error))? {
            Answer::TimedOut if slice == left => Ok(false),
            _ => Ok(true),
        }
    }

    /// Adds items in order, waiting for room. Returns the number added before the timeout.
    fn send(
        &self,
        py: Python<'_>,
        items: &[&[u8]],
        patience: &Patience,
        within: Option<u64>,
    ) -> PyResult<usize> {
        let send = |shared: &Use<'_, '_>| self.send_to(py, &shared.store, items, patience);
        match within {
            None => self.call(py, send),
            within => self.call_within(py, within, send),
        }
    }

    fn send_to(
        &self,
        py: Python<'_>,
        store: &Store,
        items: &[&[u8]],
        patience: &Patience,
    ) -> PyResult<usize> {
        let database = self.client.get().database(py);
        let mut sent = 0;
        // After a timeout, tries once more before returning.
        let mut is_last = false;
        let mut is_first = true;
        while sent < items.len() {
            let left = &items[sent..];
            match store.send(database, &self.channel, self.most, left) {
                Ok(Sent::Some(count)) => {
                    sent += count;
                    is_first = true;
                }
                Ok(Sent::Closed) if sent > 0 => break,
                Ok(Sent::Closed) => return Err(closed()),
                Ok(Sent::Full) if is_last => break,
                Ok(Sent::Full) => {
                    let (most, longest) = match is_first {
                        true => (self.most - self.most / FREE_PART, LULL),
                        false => (self.most, Duration::MAX),
                    };
                    is_first = false;
                    is_last = !self.wait(py, store, Look::Room(most), longest, patience)?;
                    if is_last && matches!(patience, Patience::None) {
                        break;
                    }
                }
                Err(error) => {
                    let length = left.iter().map(|item| item.len()).sum();
                    return Err(self.raise(py, store, length, error));
                }
            }
        }
        Ok(sent)
    }

    fn send_one(
        &self,
        py: Python<'_>,
        item: &[u8],
        patience: &Patience,
        within: Option<u64>,
    ) -> PyResult<()> {
        match self.send(py, &[item], patience, within)? {
            0 => Err(Full::new_err(())),
            _ => Ok(()),
        }
    }

    /// Calls `receive` until it returns items, waiting for the first item.
    fn receive<R>(
        &self,
        py: Python<'_>,
        patience: &Patience,
        receive: impl Fn(&Store, usize) -> Result<(Received, R), Error>,
    ) -> PyResult<(Received, R)> {
        self.call(py, |shared| {
            self.receive_from(py, &shared.store, patience, &receive)
        })
    }

    fn receive_from<R>(
        &self,
        py: Python<'_>,
        store: &Store,
        patience: &Patience,
        receive: impl Fn(&Store, usize) -> Result<(Received, R), Error>,
    ) -> PyResult<(Received, R)> {
        let database = self.client.get().database(py);
        let mut is_last = false;
        loop {
            let now = coarse_milliseconds();
            let recalled = self.recalled.load(Ordering::Relaxed);
            if now.wrapping_sub(recalled) >= RECALL.as_millis() as u64 {
                self.recalled.store(now, Ordering::Relaxed);
                let recalled = store.recall(database, &self.channel);
                recalled.map_err(|error| self.raise(py, store, 0, error))?;
            }
            let received = receive(store, database);
            match received.map_err(|error| self.raise(py, store, 0, error))? {
                (Received::Closed, _) => return Err(closed()),
                (Received::Empty, _) if is_last || matches!(patience, Patience::None) => {
                    return Err(Empty::new_err(()));
                }
                (Received::Empty, _) => {
                    is_last = !self.wait(py, store, Look::Item, RECALL, patience)?;
                }
                received => return Ok(received),
            }
        }
    }

    /// Holds one message and returns it. Returns None if the message is a pickle and the channel
    /// does not read pickles.
    fn hold<'py>(
        &self,
        py: Python<'py>,
        taken: &Bound<'py, PyList>,
        patience: &Patience,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let accepts = |item: &[u8]| self.accepts(item);
        let (received, (consumer, items)) = self.receive(py, patience, |store, database| {
            let mut items = Ranges::new();
            let channel = &self.channel;
            let held = store.receive_and_hold(database, channel, 1, &accepts, &mut items);
            held.map(|(received, consumer)| (received, (consumer, items)))
        })?;
        if received != Received::Some {
            return Ok(None);
        }
        self.held.with(py, |held| held.count += 1);
        let pair = [&consumer[..], items.get(0)].map(|bytes| PyBytes::new(py, bytes));
        let pair = PyTuple::new(py, pair);
        let entry = pair.as_ref().map(|pair| pair.clone().into_any());
        keep(taken, entry.map_err(|error| error.clone_ref(py)), || {
            // Ignore any error from the undo, because the original exception is raised.
            let _ = self.end(py, &consumer, items.get(0), true);
        })?;
        pair.map(Some)
    }

    /// Ends a hold, deferring signals until the hold has ended.
    fn end(&self, py: Python<'_>, consumer: &[u8], item: &[u8], goes_back: bool) -> PyResult<bool> {
        let _deferred = defer_signals();
        unlimited_patience(|| self.end_once(py, consumer, item, goes_back))
    }

    fn end_once(
        &self,
        py: Python<'_>,
        consumer: &[u8],
        item: &[u8],
        goes_back: bool,
    ) -> PyResult<bool> {
        let ended = self.call(py, |shared| {
            let (store, database) = (&shared.store, self.client.get().database(py));
            let ended = store.end_hold(database, &self.channel, consumer, item, goes_back);
            ended.map_err(|error| self.raise(py, store, 0, error))
        })?;
        self.held
            .with(py, |held| held.count = held.count.saturating_sub(1));
        Ok(ended)
    }

    /// Puts items back at the front, deferring signals until all items are back.
    fn put_back(&self, py: Python<'_>, items: &[&[u8]]) -> PyResult<()> {
        let client = self.client.get();
        let shared = client.enter(py)?;
        let (store, database) = (&shared.store, client.database(py));
        let [key, _] = self.channel.looked_at();
        if items.is_empty() {
            return Ok(());
        }
        // Push the items in reverse order, because a left push leaves the last item at the front.
        let turned: SmallVec<[&[u8]; 16]> = items.iter().rev().copied().collect();
        let _deferred = defer_signals();
        unlimited_patience(|| store.list_push(database, key, End::Left, &turned))
            .map(drop)
            .map_err(|error| self.raise(py, store, 0, error))
    }

    /// Returns to the channel the messages in one entry of an interrupted call's `taken` list.
    fn give_back_one(&self, py: Python<'_>, entry: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(item) = entry.cast::<PyBytes>() {
            return self.put_back(py, &[item.as_bytes()]);
        }
        if let Ok(items) = entry.cast::<PyList>() {
            let items: Vec<Bound<'_, PyAny>> = items.iter().collect();
            let bytes = items
                .iter()
                .filter_map(|item| Some(item.cast::<PyBytes>().ok()?.as_bytes()));
            return self.put_back(py, &bytes.collect::<Vec<_>>());
        }
        if let Ok((consumer, item)) = entry.extract::<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>() {
            return self
                .end(py, consumer.as_bytes(), item.as_bytes(), true)
                .map(drop);
        }
        objects::put_again(py, self.client.get(), entry)
    }

    fn accepts(&self, item: &[u8]) -> bool {
        self.pickles || item.get(..3) != Some(OBJECT) || item.get(3) != Some(&PICKLE)
    }
}

/// Records in `taken` what a call removed from a channel, so that `give_back` can return it. The
/// entry is an item, a list of items, or a consumer's name together with the item that the consumer
/// holds. If memory runs out, `undo` returns the messages to the channel.
fn keep<'py>(
    taken: &Bound<'py, PyList>,
    entry: PyResult<Bound<'py, PyAny>>,
    undo: impl FnOnce(),
) -> PyResult<()> {
    entry
        .and_then(|entry| taken.append(entry))
        .inspect_err(|_| undo())
}

/// Returns an item's value if the item is bytes or text, otherwise the item's raw bytes.
fn value<'py>(py: Python<'py>, item: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match item.split_first() {
        Some((&BYTES, bytes)) => {
            let bytes = PyBytes::new(py, bytes);
            Ok(PyMemoryView::from(&bytes)?.into_any())
        }
        Some((&TEXT, text)) => match std::str::from_utf8(text) {
            Ok(text) => Ok(PyString::new(py, text).into_any()),
            Err(_) => Ok(PyBytes::new(py, item).into_any()),
        },
        _ => Ok(PyBytes::new(py, item).into_any()),
    }
}

/// Returns the item for a value if the value is bytes or text shorter than [`INLINE_MAX`].
fn item(value: &Bound<'_, PyAny>) -> Option<SmallVec<[u8; 256]>> {
    let (tag, bytes) = if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        (BYTES, bytes.as_bytes())
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        (TEXT, text.to_str().ok()?.as_bytes())
    } else {
        return None;
    };
    if bytes.len() >= INLINE_MAX {
        return None;
    }
    let mut item = SmallVec::with_capacity(bytes.len() + 1);
    item.push(tag);
    item.extend_from_slice(bytes);
    Some(item)
}

#[pymethods]
impl ChannelLink {
    #[new]
    fn new(client: Py<Client>, name: &[u8], most: u64, pickles: bool) -> ChannelLink {
        ChannelLink {
            client,
            channel: Channel::new(name),
            most,
            pickles,
            recalled: AtomicU64::new(0),
            held: GilCell::new(Held::default()),
            eagerness: Eagerness {
                rests: AtomicU32::new(0),
                next: AtomicU32::new(RESTS.0),
            },
        }
    }

    /// Put a value if it is short bytes or text. Return False without putting any other value.
    #[pyo3(signature = (value, block=true, timeout=None))]
    fn put(&self, value: &Bound<'_, PyAny>, block: bool, timeout: Option<f64>) -> PyResult<bool> {
        let Some(item) = item(value) else {
            return Ok(false);
        };
        self.send_one(value.py(), &item, &Patience::of(block, timeout)?, None)?;
        Ok(true)
    }

    /// Return the number of removed stores that the client has left.
    ///
    /// Read this count before storing objects, and pass it as `within` when putting their names.
    /// The put raises `MovedError` if the client has since left the store that contains the
    /// objects. The caller must then store the objects again.
    fn removals(&self, py: Python<'_>) -> u64 {
        self.client.get().removals(py)
    }

    /// Put one encoded item.
    #[pyo3(signature = (item, block, timeout, within=None))]
    fn put_item(
        &self,
        py: Python<'_>,
        item: &[u8],
        block: bool,
        timeout: Option<f64>,
        within: Option<u64>,
    ) -> PyResult<()> {
        self.send_one(py, item, &Patience::of(block, timeout)?, within)
    }

    /// Put several encoded items in order.
    ///
    /// Return the number of items put before the timeout or before the channel was closed.
    #[pyo3(signature = (items, block, timeout, within=None))]
    fn put_items(
        &self,
        items: &Bound<'_, PyList>,
        block: bool,
        timeout: Option<f64>,
        within: Option<u64>,
    ) -> PyResult<usize> {
        let items: Vec<Bound<'_, PyAny>> = items.iter().collect();
        let bytes = items.iter().map(|item| match item.cast::<PyBytes>() {
            Ok(bytes) => Ok(bytes.as_bytes()),
            Err(_) => Err(PyTypeError::new_err("expected items of type bytes")),
        });
        let bytes: Vec<&[u8]> = bytes.collect::<PyResult<_>>()?;
        let Some(first) = items.first() else {
            return Ok(0);
        };
        self.send(first.py(), &bytes, &Patience::of(block, timeout)?, within)
    }

    /// Return the item for a value that is short bytes or text, or None for any other value.
    #[staticmethod]
    fn pack<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
        item(value).map(|item| PyBytes::new(value.py(), &item))
    }

    /// Return an item's value if the item is bytes or text, otherwise the item itself.
    #[staticmethod]
    fn unpack<'py>(item: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyAny>> {
        value(item.py(), item.as_bytes())
    }

    /// Remove a message.
    ///
    /// Return its value if the message is bytes or text, otherwise its item. If the message is the
    /// name of an object, return a pair as `hold` does. Return None if the message is a pickle and
    /// the channel does not read pickles; the message stays in the channel.
    #[pyo3(signature = (taken, block=true, timeout=None))]
    fn get<'py>(
        &self,
        taken: &Bound<'py, PyList>,
        block: bool,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = taken.py();
        let patience = Patience::of(block, timeout)?;
        let accepts = |item: &[u8]| item.first() != Some(&NAME) && self.accepts(item);
        let (received, items) = self.receive(py, &patience, |store, database| {
            let mut items = Ranges::new();
            let received = store.receive(database, &self.channel, 1, &accepts, &mut items)?;
            Ok((received, items))
        })?;
        match received {
            Received::Some => {
                let item = items.get(0);
                keep(taken, Ok(PyBytes::new(py, item).into_any()), || {
                    // Ignore any error from the undo, because the original exception is raised.
                    let _ = self.put_back(py, &[item]);
                })?;
                value(py, item).map(Some)
            }
            _ => Ok(self.hold(py, taken, &patience)?.map(Bound::into_any)),
        }
    }

    /// Remove up to `count` messages, waiting for the first, and return them as a list.
    ///
    /// If the first message is a pickle or the name of an object, return what `get` returns.
    fn get_items<'py>(
        &self,
        taken: &Bound<'py, PyList>,
        count: u64,
        block: bool,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = taken.py();
        let patience = Patience::of(block, timeout)?;
        let accepts = |item: &[u8]| item.first() != Some(&NAME) && self.accepts(item);
        let mut count = count;
        loop {
            let (received, items) = self.receive(py, &patience, |store, database| {
                let mut items = Ranges::new();
                let channel = &self.channel;
                let received = store.receive(database, channel, count, &accepts, &mut items)?;
                Ok((received, items))
            })?;
            match received {
                Received::Some => {
                    let raw = items.iter().map(|item| PyBytes::new(py, item));
                    let raw = PyList::new(py, raw.collect::<Vec<_>>()).map(Bound::into_any);
                    keep(taken, raw, || {
                        // Ignore any error from the undo, because the original exception is raised.
                        let _ = self.put_back(py, &items.iter().collect::<Vec<_>>());
                    })?;
                    let values = items.iter().map(|item| value(py, item));
                    let values = values.collect::<PyResult<Vec<_>>>()?;
                    return Ok(Some(PyList::new(py, values)?.into_any()));
                }
                // Retry with only the messages before the rejected one.
                Received::Refused(place @ 1..) => count = place as u64,
                _ => return Ok(self.hold(py, taken, &patience)?.map(Bound::into_any)),
            }
        }
    }

    /// Hold a message.
    ///
    /// Return this consumer's name and the item. Return None, as `get` does, for a pickle that the
    /// channel does not read.
    #[pyo3(name = "hold")]
    fn hold_one<'py>(
        &self,
        taken: &Bound<'py, PyList>,
        block: bool,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.hold(taken.py(), taken, &Patience::of(block, timeout)?)
    }

    /// End a consumer's hold on a message, removing the message or returning it to the channel.
    ///
    /// Return whether the message was held. If `taken` is given, its entry is replaced by the item.
    #[pyo3(signature = (consumer, item, goes_back, taken=None))]
    fn end_hold(
        &self,
        py: Python<'_>,
        consumer: &Bound<'_, PyBytes>,
        item: &Bound<'_, PyBytes>,
        goes_back: bool,
        taken: Option<&Bound<'_, PyList>>,
    ) -> PyResult<bool> {
        let ended = self.end_once(py, consumer.as_bytes(), item.as_bytes(), goes_back)?;
        if let Some(taken) = taken {
            taken.set_item(0, item)?;
        }
        Ok(ended)
    }

    /// Put the messages in an interrupted call's `taken` list back into the channel, last first.
    ///
    /// Errors are reported as unraisable exceptions.
    fn give_back(&self, taken: &Bound<'_, PyList>) {
        for entry in taken.iter().rev() {
            if let Err(error) = self.give_back_one(taken.py(), &entry) {
                error.write_unraisable(taken.py(), Some(&entry));
            }
        }
    }

    /// Close the channel for all processes.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |shared| {
            let (store, database) = (&shared.store, self.client.get().database(py));
            let closed = store.close_channel(database, &self.channel);
            closed.map_err(|error| self.raise(py, store, 0, error))
        })
    }

    /// Put the messages held by dead consumers back into the channel, and return their number.
    fn recall(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, |shared| {
            let (store, database) = (&shared.store, self.client.get().database(py));
            let recalled = store.recall(database, &self.channel);
            recalled.map_err(|error| self.raise(py, store, 0, error))
        })
    }
}

impl ChannelLink {
    /// Returns the condition that a waiting task checks: room for a message, or an available item.
    pub(crate) fn look(&self, for_room: bool) -> Look {
        match for_room {
            true => Look::Room(self.most),
            false => Look::Item,
        }
    }

    pub(crate) fn looked_at(&self) -> [&[u8]; 2] {
        self.channel.looked_at()
    }
}

/// Adds the channel class and its exceptions to the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<ChannelLink>()?;
    module.add("MovedError", py.get_type::<MovedError>())?;
    module.add("ChannelClosed", py.get_type::<ChannelClosed>())
}
