//! Tests the queue with the thread schedules that shuttle generates.
//!
//! The models compile the queue's own source with shuttle's mutex instead of the standard
//! library's. The mutex protects all state that callers and the connection share.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::{future, thread};
use undercroft_resp::{ReplyReader, Value};

use crate::command::Reply;
use crate::error::Error;
use queue::{EndOnDrop, Queue};

pub(super) mod sync {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
}

#[path = "queue.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "the models compile the queue with another mutex"
)]
#[expect(dead_code, reason = "the models call only part of the queue")]
mod queue;

const CALLERS: usize = 3;
const ORDERS: usize = 1000;

/// Answers every command with its key until the queue is closed, and occasionally simulates a lost
/// connection.
fn serve(queue: &Queue) {
    let (mut output, mut sent) = (Vec::new(), Vec::<u8>::new());
    let (mut replies, mut wakers) = (Vec::new(), Vec::new());
    let thread = thread::current();
    let waker = waker_fn(move || thread.unpark());
    loop {
        output.clear();
        let taken = queue.take(&mut output, &Context::from_waker(&waker));
        sent.extend_from_slice(&output);
        if taken.is_over && sent.is_empty() {
            return;
        }
        if sent.is_empty() {
            thread::park();
            continue;
        }
        if thread_rng().gen_ratio(1, 8) {
            sent.clear();
            queue.fail_sent(&Error::TimedOut(Duration::ZERO));
            queue.forget_cancelled();
            continue;
        }
        // Answer some of the commands now and the rest later.
        let (mut rest, mut reader) = (&sent[..], ReplyReader::default());
        let before = rest.len();
        while let Ok(Some(Value::Array(words))) = reader.read(&mut rest) {
            let Some(Value::Bulk(key)) = words.into_iter().nth(1) else {
                panic!("a command of two words")
            };
            replies.push(Ok(Reply::Bytes(key)));
            if thread_rng().gen_bool(0.5) {
                break;
            }
        }
        let used = before - rest.len();
        sent.drain(..used);
        assert!(
            queue.answer(&mut replies, used, &mut wakers),
            "a reply that matches no request"
        );
    }
}

/// Returns a waker that calls a function.
fn waker_fn(wake: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Function<F>(F);
    impl<F: Fn() + Send + Sync + 'static> std::task::Wake for Function<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Waker::from(Arc::new(Function(wake)))
}

/// Makes the calls of one caller, and cancels some of them after their commands have been sent.
fn call(queue: &Queue, name: usize) {
    for round in 0..3 {
        let key = format!("{name} {round}");
        let words: [&[u8]; 2] = [b"GET", key.as_bytes()];
        if thread_rng().gen_ratio(1, 3) {
            let mut given_up = pin!(queue.call(&words[..]));
            if let Poll::Ready(outcome) = given_up
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                check(outcome, &key);
            }
            continue;
        }
        check(future::block_on(queue.call(&words[..])), &key);
    }
}

fn check(outcome: crate::Result<Reply>, key: &str) {
    match outcome {
        Ok(reply) => assert_eq!(
            reply,
            Reply::Bytes(key.as_bytes().to_vec()),
            "another's reply"
        ),
        Err(error) => assert!(error.is_timeout(), "{error}"),
    }
}

fn model() {
    let queue = Arc::new(Queue::new(1 << 20, Duration::from_secs(3600)));
    let connection = {
        let queue = queue.clone();
        thread::spawn(move || {
            let _end = EndOnDrop(queue.clone());
            serve(&queue);
        })
    };
    let callers: Vec<_> = (0..CALLERS)
        .map(|name| {
            let queue = queue.clone();
            thread::spawn(move || call(&queue, name))
        })
        .collect();
    for caller in callers {
        caller.join().expect("a caller");
    }
    queue.close();
    connection.join().expect("the connection");
    let refused = future::block_on(queue.call(&[b"GET" as &[u8], b"key"][..]));
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    assert!(queue.is_empty(), "slots or places are left");
}

#[test]
fn callers_get_their_own_replies_despite_cancellations_and_lost_connections() {
    shuttle::check_random(model, ORDERS);
    shuttle::check_pct(model, ORDERS, 3);
    println!(
        "shuttle: {} orders of {CALLERS} callers and their connection",
        2 * ORDERS
    );
}
