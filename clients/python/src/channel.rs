//! Channels, which are bounded queues of messages between processes.
//!
//! Each message is one item of a list. The item's first byte is its kind: plain bytes, text, or any
//! other value as encoded by `undercroft.channels.channel`. An item can also be the name of an object in the
//! store, which only the consumer that holds the message may remove.

use std::time::Duration;

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use pyo3::{create_exception, import_exception};
use undercroft_embedded::{
    self as embedded, ChannelError, ChannelPatience, ChannelStore, NAME_ITEM, ShortItem, refuses,
    short_item, short_value,
};
use undercroft_engine::channels::Received;
use undercroft_engine::waiting::Look;
use undercroft_engine::{Error, Ranges, Store, defer_signals, unlimited_patience};

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

/// A client's handle to one channel.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct ChannelLink {
    client: Py<Client>,
    link: embedded::ChannelLink,
    pickles: bool,
    held: GilCell<Held>,
}

/// The messages that this handle's consumer holds.
#[derive(Default)]
struct Held {
    count: usize,
    /// The number of removed stores that the client had left when it received these messages.
    removals: u64,
}

/// Returns the patience of a call with Python's arguments.
fn patience(block: bool, timeout: Option<f64>) -> PyResult<ChannelPatience> {
    match timeout {
        _ if !block => Ok(ChannelPatience::None),
        None => Ok(ChannelPatience::Ever),
        Some(seconds) if seconds >= 0.0 => {
            let span = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            Ok(ChannelPatience::of(span))
        }
        Some(seconds) => Err(PyValueError::new_err(format!(
            "expected a timeout of at least 0 seconds, got {seconds}"
        ))),
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

    /// Makes a call to the channel in a store, and raises its error. `length` is the number of bytes
    /// that the call adds.
    fn on<R>(
        &self,
        py: Python<'_>,
        store: &Store,
        length: usize,
        call: impl FnOnce(ChannelStore<'_>) -> Result<R, ChannelError>,
    ) -> PyResult<R> {
        let detached = |step: &mut (dyn FnMut() + Send)| py.detach(step);
        let at = ChannelStore {
            store,
            database: self.client.get().database(py),
            detached: &detached,
        };
        call(at).map_err(|error| match error {
            ChannelError::Failed(error) => self.raise(py, store, length, error),
            ChannelError::Closed | ChannelError::Pickle => closed(),
        })
    }

    /// Adds items in order, waiting for room. Returns the number added before the timeout.
    fn send(
        &self,
        py: Python<'_>,
        items: &[&[u8]],
        patience: &ChannelPatience,
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
        patience: &ChannelPatience,
    ) -> PyResult<usize> {
        let length = items.iter().map(|item| item.len()).sum();
        self.on(py, store, length, |at| self.link.send(at, items, patience))
    }

    fn send_one(
        &self,
        py: Python<'_>,
        item: &[u8],
        patience: &ChannelPatience,
        within: Option<u64>,
    ) -> PyResult<()> {
        match self.send(py, &[item], patience, within)? {
            0 => Err(Full::new_err(())),
            _ => Ok(()),
        }
    }

    /// Removes up to `count` messages, waiting for the first.
    fn take(
        &self,
        py: Python<'_>,
        count: u64,
        patience: &ChannelPatience,
    ) -> PyResult<(Received, Ranges)> {
        let accepts = |item: &[u8]| item.first() != Some(&NAME_ITEM) && self.accepts(item);
        let received = self.call(py, |shared| {
            let take = |at: ChannelStore<'_>| self.link.take(at, count, &accepts, patience);
            self.on(py, &shared.store, 0, take)
        });
        received?.ok_or_else(|| Empty::new_err(()))
    }

    /// Holds one message and returns it. Returns None if the message is a pickle and the channel
    /// does not read pickles.
    fn hold<'py>(
        &self,
        py: Python<'py>,
        taken: &Bound<'py, PyList>,
        patience: &ChannelPatience,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let accepts = |item: &[u8]| self.accepts(item);
        let held = self.call(py, |shared| {
            let hold = |at: ChannelStore<'_>| self.link.hold(at, &accepts, patience);
            self.on(py, &shared.store, 0, hold)
        });
        let (received, (consumer, items)) = held?.ok_or_else(|| Empty::new_err(()))?;
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
            let ended = store.end_hold(database, self.link.channel(), consumer, item, goes_back);
            ended.map_err(|error| self.raise(py, store, 0, error))
        })?;
        self.held
            .with(py, |held| held.count = held.count.saturating_sub(1));
        Ok(ended)
    }

    /// Puts items back at the front.
    fn put_back(&self, py: Python<'_>, items: &[&[u8]]) -> PyResult<()> {
        let shared = self.client.get().enter(py)?;
        self.on(py, &shared.store, 0, |at| {
            Ok(self.link.put_back(at, items)?)
        })
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
        self.pickles || !refuses(item)
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
    match short_value(item) {
        Some((bytes, false)) => {
            let bytes = PyBytes::new(py, bytes);
            Ok(PyMemoryView::from(&bytes)?.into_any())
        }
        Some((text, true)) => Ok(PyString::from_bytes(py, text)?.into_any()),
        None => Ok(PyBytes::new(py, item).into_any()),
    }
}

/// Returns the item for a value if the value is short bytes or text.
fn item(value: &Bound<'_, PyAny>) -> Option<ShortItem> {
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        short_item(bytes.as_bytes(), false)
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        short_item(text.to_str().ok()?.as_bytes(), true)
    } else {
        None
    }
}

#[pymethods]
impl ChannelLink {
    #[new]
    fn new(client: Py<Client>, name: &[u8], most: u64, pickles: bool) -> ChannelLink {
        ChannelLink {
            client,
            link: embedded::ChannelLink::new(name, most),
            pickles,
            held: GilCell::new(Held::default()),
        }
    }

    /// Put a value if it is short bytes or text. Return False without putting any other value.
    #[pyo3(signature = (value, block=true, timeout=None))]
    fn put(&self, value: &Bound<'_, PyAny>, block: bool, timeout: Option<f64>) -> PyResult<bool> {
        let Some(item) = item(value) else {
            return Ok(false);
        };
        self.send_one(value.py(), &item, &patience(block, timeout)?, None)?;
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
        self.send_one(py, item, &patience(block, timeout)?, within)
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
        self.send(first.py(), &bytes, &patience(block, timeout)?, within)
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
        let patience = patience(block, timeout)?;
        let (received, items) = self.take(py, 1, &patience)?;
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
        let patience = patience(block, timeout)?;
        let mut count = count;
        loop {
            let (received, items) = self.take(py, count, &patience)?;
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
        self.hold(taken.py(), taken, &patience(block, timeout)?)
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
            let closed = store.close_channel(database, self.link.channel());
            closed.map_err(|error| self.raise(py, store, 0, error))
        })
    }

    /// Put the messages held by dead consumers back into the channel, and return their number.
    fn recall(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, |shared| {
            let (store, database) = (&shared.store, self.client.get().database(py));
            let recalled = store.recall(database, self.link.channel());
            recalled.map_err(|error| self.raise(py, store, 0, error))
        })
    }
}

impl ChannelLink {
    /// Returns the condition that a waiting task checks: room for a message, or an available item.
    pub(crate) fn look(&self, for_room: bool) -> Look {
        self.link.look(for_room)
    }

    pub(crate) fn looked_at(&self) -> [&[u8]; 2] {
        self.link.channel().looked_at()
    }
}

/// Adds the channel class and its exceptions to the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<ChannelLink>()?;
    module.add("MovedError", py.get_type::<MovedError>())?;
    module.add("ChannelClosed", py.get_type::<ChannelClosed>())
}
