//! Implements the functions of channels.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use undercroft_embedded::{
    ChannelError, ChannelPatience, ChannelValue, Delivery, DeliveryError, OpenStore, StoreByName,
    ValueChannel,
};
use undercroft_engine::Error;

use crate::border::{array, bytes, call, check_place, text};
use crate::handle::{Handle, Kind, Pool};
use crate::objects::{ObjectHandle, Reading, Source};
use crate::status::{Outcome, Refused, Status};
use crate::store::{StoreHandle, opened};

/// The C type `uc_channel`: a channel in a database of a store.
pub(crate) struct OpenChannel {
    by_name: StoreByName,
    number: usize,
    channel: Arc<ValueChannel>,
}

impl Kind for OpenChannel {
    const NAME: &'static str = "uc_channel";
    const OPEN: u32 = 0x7563_4310;

    fn pool() -> &'static Pool<OpenChannel> {
        static POOL: Pool<OpenChannel> = Pool::new();
        &POOL
    }
}

pub(crate) type ChannelHandle = Handle<OpenChannel>;

/// Returns the longest wait of a call. A negative time waits forever.
fn patience(timeout_ms: i64) -> ChannelPatience {
    match u64::try_from(timeout_ms) {
        Ok(milliseconds) => ChannelPatience::of(Duration::from_millis(milliseconds)),
        Err(_) => ChannelPatience::Ever,
    }
}

/// Returns the outcome of a call that failed.
#[cold]
fn refuse(open: &OpenStore, error: ChannelError) -> Outcome {
    match error {
        ChannelError::Closed => Ok(Status::Closed),
        ChannelError::Pickle => Err(Refused::new(
            Status::WrongType,
            "expected bytes, text or an array, got a pickle, which only Python reads; receive it in \
             Python",
        )),
        ChannelError::Failed(error) => Err(Refused::engine(&open.store, error)),
    }
}

/// Runs `body` on a channel. If the store's file was removed, runs `body` once more on the store that
/// the name refers to now.
///
/// # Safety
/// `channel` must be null or a handle that this library returned. It must be sound to run `body`
/// twice with the caller's pointers.
unsafe fn call_on(
    channel: *const ChannelHandle,
    mut body: impl FnMut(&OpenChannel, &Arc<OpenStore>) -> Outcome,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `channel` is null or a handle from this library.
        let opened = unsafe { Handle::shared(channel) }?;
        (opened.by_name).call(Refused::opening, |open| body(opened, open))
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_open(
    store: *const StoreHandle,
    name: *const c_void,
    name_length: usize,
    bound: u64,
    ttl_ms: i64,
    channel: *mut *mut ChannelHandle,
) -> c_int {
    call(|| {
        check_place(channel)?;
        // SAFETY: `check_place` verified that `channel` is not null, and the caller guarantees that
        // it is writable.
        unsafe { channel.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees that `store` is null or a store handle, and that `name` is
        // null or valid for its length.
        let ((by_name, number), name) = unsafe { (opened(store)?, bytes(name, name_length)?) };
        if name.is_empty() {
            let text = "expected the name of a channel, got an empty one";
            return Err(Refused::misuse(text));
        }
        let ttl = match u64::try_from(ttl_ms) {
            Ok(0) => None,
            Ok(milliseconds) => Some(Duration::from_millis(milliseconds)),
            Err(_) => {
                let text = format!("expected a time to live of at least 0 ms, got {ttl_ms}");
                return Err(Refused::misuse(&text));
            }
        };
        let most = match bound {
            0 => i64::MAX as u64,
            bound => bound.min(i64::MAX as u64),
        };
        let made = Handle::open(OpenChannel {
            by_name: by_name.clone(),
            number,
            channel: Arc::new(ValueChannel::new(name, most, ttl)),
        });
        // SAFETY: `check_place` verified that `channel` is not null, and the caller guarantees that
        // it is writable.
        unsafe { channel.write(made) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// `channel` must be null or a handle that this library returned, and no other thread may use it
/// during the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_close(channel: *mut ChannelHandle) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `channel` is null or a handle from this library.
        drop(unsafe { Handle::close(channel) }?);
        Ok(Status::Ok)
    })
}

fn send(
    to: &OpenChannel,
    open: &Arc<OpenStore>,
    value: ChannelValue<'_>,
    timeout_ms: i64,
) -> Outcome {
    value.check().map_err(|wrong| Refused::misuse(&wrong))?;
    match (to.channel).send(open, to.number, value, &patience(timeout_ms)) {
        Ok(true) => Ok(Status::Ok),
        Ok(false) => Ok(Status::None),
        Err(error) => refuse(open, error),
    }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_send(
    channel: *const ChannelHandle,
    data: *const c_void,
    length: usize,
    timeout_ms: i64,
) -> c_int {
    let body = |to: &OpenChannel, open: &Arc<OpenStore>| {
        // SAFETY: the caller guarantees that `data` is null or valid for `length` bytes.
        let bytes = unsafe { bytes(data, length)? };
        send(to, open, ChannelValue::Bytes(bytes), timeout_ms)
    };
    // SAFETY: the caller guarantees that `channel` is null or a handle from this library, and running
    // `body` twice is sound.
    unsafe { call_on(channel, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_send_text(
    channel: *const ChannelHandle,
    data: *const c_void,
    length: usize,
    timeout_ms: i64,
) -> c_int {
    let body = |to: &OpenChannel, open: &Arc<OpenStore>| {
        // SAFETY: the caller guarantees that `data` is null or valid for `length` bytes.
        let text = std::str::from_utf8(unsafe { bytes(data, length)? });
        let text =
            text.map_err(|error| Refused::misuse(&format!("expected a text in UTF-8: {error}")))?;
        send(to, open, ChannelValue::Text(text), timeout_ms)
    };
    // SAFETY: the caller guarantees that `channel` is null or a handle from this library, and running
    // `body` twice is sound.
    unsafe { call_on(channel, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_send_array(
    channel: *const ChannelHandle,
    dtype: *const c_char,
    dimensions: usize,
    shape: *const u64,
    items: *const c_void,
    length: usize,
    timeout_ms: i64,
) -> c_int {
    let body = |to: &OpenChannel, open: &Arc<OpenStore>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        let value = unsafe {
            ChannelValue::Array {
                dtype: text("a type", dtype)?,
                shape: match dimensions {
                    0 => &[],
                    _ => array(dimensions, shape)?,
                },
                items: bytes(items, length)?,
            }
        };
        send(to, open, value, timeout_ms)
    };
    // SAFETY: the caller guarantees that `channel` is null or a handle from this library, and running
    // `body` twice is sound.
    unsafe { call_on(channel, body) }
}

/// Receives a message and writes a handle for it to `place`.
///
/// # Safety
/// `channel` must be null or a handle that this library returned, and `place` null or writable.
unsafe fn receive(
    channel: *const ChannelHandle,
    place: *mut *mut ObjectHandle,
    receive: impl Fn(&OpenChannel, &Arc<OpenStore>) -> Result<Option<Source>, ChannelError>,
) -> c_int {
    let body = |from: &OpenChannel, open: &Arc<OpenStore>| {
        check_place(place)?;
        // SAFETY: `check_place` verified that `place` is not null, and the caller guarantees that
        // it is writable.
        unsafe { place.write(std::ptr::null_mut()) };
        match receive(from, open) {
            Ok(None) => Ok(Status::None),
            Ok(Some(source)) => {
                let opened = Handle::open(Reading::new(source));
                // SAFETY: `check_place` verified that `place` is not null, and the caller
                // guarantees that it is writable.
                unsafe { place.write(opened) };
                Ok(Status::Ok)
            }
            Err(error) => refuse(open, error),
        }
    };
    // SAFETY: the caller guarantees that `channel` is null or a handle from this library, and running
    // `body` twice is sound.
    unsafe { call_on(channel, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library, and `message` must be null or
/// writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_receive(
    channel: *const ChannelHandle,
    timeout_ms: i64,
    message: *mut *mut ObjectHandle,
) -> c_int {
    let take = |from: &OpenChannel, open: &Arc<OpenStore>| {
        let received = (from.channel).receive(open, from.number, &patience(timeout_ms));
        Ok(received?.map(Source::Message))
    };
    // SAFETY: the caller upholds the requirements of `receive`.
    unsafe { receive(channel, message, take) }
}

/// # Safety
/// Each handle must be null or have been returned by this library, and `message` must be null or
/// writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_hold(
    channel: *const ChannelHandle,
    timeout_ms: i64,
    message: *mut *mut ObjectHandle,
) -> c_int {
    let hold = |from: &OpenChannel, open: &Arc<OpenStore>| {
        let held = Delivery::receive(&from.channel, open, from.number, &patience(timeout_ms));
        Ok(held?.map(Source::Held))
    };
    // SAFETY: the caller upholds the requirements of `receive`.
    unsafe { receive(channel, message, hold) }
}

/// Ends the hold on a message and closes it.
///
/// # Safety
/// `message` must be null or a handle that this library returned, and no other thread may use it
/// during the call.
unsafe fn end(message: *mut ObjectHandle, goes_back: bool) -> c_int {
    call(|| {
        let wanted =
            || Refused::misuse("expected a message from uc_channel_hold(), got another object");
        // SAFETY: the caller guarantees that `message` is null or a handle from this library.
        if !unsafe { Handle::shared(message) }?.is_held() {
            return Err(wanted());
        }
        // SAFETY: the caller guarantees the same, and that no other thread uses the handle.
        let reading = unsafe { Handle::close(message) }?;
        let mut delivery = reading.and_then(Reading::held).ok_or_else(wanted)?;
        match delivery.end(goes_back) {
            Ok(true) => Ok(Status::Ok),
            Ok(false) => Ok(Status::None),
            Err(DeliveryError::Inherited(process)) => {
                let text = DeliveryError::inherited_text(process);
                Err(Refused::misuse(&text))
            }
            Err(DeliveryError::Failed(error)) => {
                Err(Refused::engine(&delivery.open_store().store, error))
            }
        }
    })
}

/// # Safety
/// `message` must be null or a handle that this library returned, and no other thread may use it
/// during the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_ack(message: *mut ObjectHandle) -> c_int {
    // SAFETY: the caller upholds the requirements of `end`.
    unsafe { end(message, false) }
}

/// # Safety
/// `message` must be null or a handle that this library returned, and no other thread may use it
/// during the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_release(message: *mut ObjectHandle) -> c_int {
    // SAFETY: the caller upholds the requirements of `end`.
    unsafe { end(message, true) }
}

/// Writes a fact about a channel to `place`.
///
/// # Safety
/// `channel` must be null or a handle that this library returned, and `place` null or writable.
unsafe fn tell<T>(
    channel: *const ChannelHandle,
    place: *mut T,
    fact: impl Fn(&OpenChannel, &OpenStore) -> Result<T, Error>,
) -> c_int {
    let body = |of: &OpenChannel, open: &Arc<OpenStore>| {
        check_place(place)?;
        let found = fact(of, open).map_err(|error| Refused::engine(&open.store, error))?;
        // SAFETY: `check_place` verified that `place` is not null, and the caller guarantees that
        // it is writable.
        unsafe { place.write(found) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `channel` is null or a handle from this library, and running
    // `body` twice is sound.
    unsafe { call_on(channel, body) }
}

/// # Safety
/// `channel` must be null or a handle that this library returned, and `messages` null or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_length(channel: *const ChannelHandle, messages: *mut u64) -> c_int {
    let length = |of: &OpenChannel, open: &OpenStore| of.channel.length(open, of.number);
    // SAFETY: the caller upholds the requirements of `tell`.
    unsafe { tell(channel, messages, length) }
}

/// # Safety
/// `channel` must be null or a handle that this library returned, and `is_closed` null or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_is_closed(
    channel: *const ChannelHandle,
    is_closed: *mut c_int,
) -> c_int {
    let closed = |of: &OpenChannel, open: &OpenStore| {
        (of.channel).is_closed(open, of.number).map(c_int::from)
    };
    // SAFETY: the caller upholds the requirements of `tell`.
    unsafe { tell(channel, is_closed, closed) }
}

/// Changes a channel.
///
/// # Safety
/// `channel` must be null or a handle that this library returned.
unsafe fn change(
    channel: *const ChannelHandle,
    change: impl Fn(&ValueChannel, &OpenStore, usize) -> Result<(), Error>,
) -> c_int {
    let body = |of: &OpenChannel, open: &Arc<OpenStore>| {
        let changed = change(&of.channel, open, of.number);
        changed.map_err(|error| Refused::engine(&open.store, error))?;
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `channel` is null or a handle from this library, and running
    // `body` twice is sound.
    unsafe { call_on(channel, body) }
}

/// # Safety
/// `channel` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_close_for_all(channel: *const ChannelHandle) -> c_int {
    // SAFETY: the caller upholds the requirements of `change`.
    unsafe { change(channel, ValueChannel::close) }
}

/// # Safety
/// `channel` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_channel_del(channel: *const ChannelHandle) -> c_int {
    // SAFETY: the caller upholds the requirements of `change`.
    unsafe { change(channel, ValueChannel::delete) }
}
