//! Implements `uc_subscription`, a receiver of messages.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_embedded::{OpenStore, StoreOf};
use undercroft_engine::Error;
use undercroft_engine::messages::{Event, Message, Subscriber, Topic};

use crate::border::{Bytes, call, check_place, give, list};
use crate::handle::{Handle, Kind, Pool};
use crate::reply::{ReplyHandle, Tree};
use crate::status::{Outcome, Refused, Status};
use crate::store::{StoreHandle, opened};

/// The C type `uc_subscription`: one receiver of messages.
pub(crate) struct Receiver {
    shared: Arc<OpenStore>,
    subscriber: Subscriber<StoreOf>,
    /// The remaining deliveries of a message that matched several subscriptions. The first delivery
    /// has already been returned.
    queue: VecDeque<Delivery>,
    lost: u64,
}

/// The parts of a message as Redis delivers it to one subscription.
type Delivery = Vec<Box<[u8]>>;

impl Kind for Receiver {
    const NAME: &'static str = "uc_subscription";
    const OPEN: u32 = 0x7563_4d10;

    fn pool() -> &'static Pool<Receiver> {
        static POOL: Pool<Receiver> = Pool::new();
        &POOL
    }
}

pub(crate) type SubscriptionHandle = Handle<Receiver>;

/// Writes the next message, or a notice of lost messages. Returns false if neither is pending.
fn take(
    subscriber: &mut Subscriber<StoreOf>,
    queue: &mut VecDeque<Delivery>,
    lost: &mut u64,
    reply: &mut Tree,
) -> Result<bool, Error> {
    if let Some(delivery) = queue.pop_front() {
        write(reply, delivery.iter().map(AsRef::as_ref));
        return Ok(true);
    }
    match subscriber.try_next()? {
        None => return Ok(false),
        Some(Event::Lost(count)) => {
            *lost += count;
            reply.array(3);
            reply.bulk(b"lost");
            reply.null();
            reply.integer(count as i64);
        }
        Some(Event::Message(message)) => {
            let mut deliveries = deliveries(&message);
            if let Some(first) = deliveries.next() {
                write(reply, first.into_iter());
            }
            queue.extend(deliveries.map(|parts| parts.into_iter().map(Box::from).collect()));
        }
    }
    Ok(true)
}

fn write<'a>(reply: &mut Tree, parts: impl ExactSizeIterator<Item = &'a [u8]>) {
    reply.array(parts.len());
    parts.for_each(|part| reply.bulk(part));
}

/// Returns a message in Redis' format, once for each matching subscription.
fn deliveries<'m>(message: &Message<'m>) -> impl Iterator<Item = Vec<&'m [u8]>> {
    let Message {
        topic,
        channel,
        payload,
        direct,
        patterns,
    } = *message;
    let kind: &[u8] = match topic {
        Topic::Shard => b"smessage",
        _ => b"message",
    };
    let direct = direct.then(|| vec![kind, channel, payload]);
    let by_pattern = patterns
        .iter()
        .map(move |pattern| vec![&b"pmessage"[..], &pattern[..], channel, payload]);
    direct.into_iter().chain(by_pattern)
}

impl Receiver {
    /// Receives the next message. Waits forever if `timeout` is `None`.
    fn next(&mut self, timeout: Option<Duration>, reply: &mut Tree) -> Result<Status, Error> {
        let mut begun = None;
        loop {
            let Receiver {
                subscriber,
                queue,
                lost,
                ..
            } = self;
            if take(subscriber, queue, lost, reply)? {
                return Ok(Status::Ok);
            }
            if timeout == Some(Duration::ZERO) {
                return Ok(Status::None);
            }
            let begun = begun.get_or_insert_with(Instant::now);
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(Status::None);
            }
            let waiting = subscriber.waiting()?;
            self.shared.store.wait_for_message(&waiting, left)?;
        }
    }

    fn refuse(&self, error: Error) -> Refused {
        Refused::engine(&self.shared.store, error)
    }
}

/// Converts a `uc_topic` number to a topic.
fn topic(number: c_int) -> Outcome<Topic> {
    match number {
        0 => Ok(Topic::Channel),
        1 => Ok(Topic::Pattern),
        2 => Ok(Topic::Shard),
        _ => Err(Refused::misuse(&format!(
            "expected UC_CHANNEL, UC_PATTERN or UC_SHARD, got {number}"
        ))),
    }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every result pointer must be
/// null or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_subscription_open(
    store: *const StoreHandle,
    subscription: *mut *mut SubscriptionHandle,
) -> c_int {
    call(|| {
        check_place(subscription)?;
        // SAFETY: `check_place` verified that `subscription` is not null, and the caller guarantees
        // that it is writable.
        unsafe { subscription.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees that `store` is null or a store handle.
        let (store, _) = unsafe { opened(store) }?;
        let shared = store.current().map_err(|error| Refused::opening(&error))?;
        let receiver = Handle::open(Receiver {
            subscriber: Subscriber::new(StoreOf(shared.clone())),
            shared,
            queue: VecDeque::new(),
            lost: 0,
        });
        // SAFETY: `check_place` verified that `subscription` is not null, and the caller guarantees
        // that it is writable.
        unsafe { subscription.write(receiver) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// `subscription` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_subscription_close(subscription: *mut SubscriptionHandle) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `subscription` is null or a handle from this library.
        drop(unsafe { Handle::close(subscription) }?);
        Ok(Status::Ok)
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_subscribe(
    subscription: *mut SubscriptionHandle,
    kind: c_int,
    count: usize,
    names: *const Bytes,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that each handle is null or from this library, and that
        // every other pointer is null or valid for its length.
        let (names, mut receiver) =
            unsafe { (list(count, names)?, Handle::exclusive(subscription)?) };
        let topic = topic(kind)?;
        let subscriber = &receiver.subscriber;
        // Redis ignores repeated subscriptions to the same name.
        let mut new: Vec<&[u8]> = Vec::new();
        for name in names {
            if !subscriber.is_subscribed(topic, name) && !new.contains(&name) {
                new.push(name);
            }
        }
        if !new.is_empty() {
            let done = receiver.subscriber.subscribe(topic, &new);
            done.map_err(|error| receiver.refuse(error))?;
        }
        Ok(Status::Ok)
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_unsubscribe(
    subscription: *mut SubscriptionHandle,
    kind: c_int,
    count: usize,
    names: *const Bytes,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that each handle is null or from this library, and that
        // every other pointer is null or valid for its length.
        let (names, mut receiver) =
            unsafe { (list(count, names)?, Handle::exclusive(subscription)?) };
        let done = receiver.subscriber.unsubscribe(topic(kind)?, &names);
        done.map_err(|error| receiver.refuse(error))?;
        Ok(Status::Ok)
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_subscription_next(
    subscription: *mut SubscriptionHandle,
    timeout_ms: i64,
    message: *mut ReplyHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that each handle is null or from this library, and that
        // every other pointer is null or valid for its length.
        let (mut receiver, mut reply) = unsafe {
            (
                Handle::exclusive(subscription)?,
                Handle::exclusive(message)?,
            )
        };
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        reply.begin(Protocol::Resp3);
        let next = receiver.next(timeout, &mut reply);
        let finished = reply.finish();
        let next = next.map_err(|error| receiver.refuse(error))?;
        finished.map(|()| next)
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_subscription_descriptor(
    subscription: *mut SubscriptionHandle,
    descriptor: *mut c_int,
) -> c_int {
    call(|| {
        check_place(descriptor)?;
        // SAFETY: the caller guarantees that `subscription` is null or a handle from this library.
        let mut receiver = unsafe { Handle::exclusive(subscription) }?;
        let found = receiver
            .subscriber
            .descriptor()
            .map(|found| found.as_raw_fd());
        let found = found.map_err(|error| receiver.refuse(error))?;
        // SAFETY: `check_place` verified that `descriptor` is not null, and the caller guarantees
        // that it is writable.
        unsafe { descriptor.write(found) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_subscription_lost(
    subscription: *mut SubscriptionHandle,
    lost: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `subscription` is null or a handle from this library,
        // and that `lost` is null or writable.
        unsafe { give(lost, Handle::exclusive(subscription)?.lost) };
        Ok(Status::Ok)
    })
}
