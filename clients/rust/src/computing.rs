//! Tracks the values that each thread or task is computing, so that no computation waits for
//! itself.

use std::cell::RefCell;
#[cfg(feature = "async")]
use std::future::{Future, poll_fn};
use std::hash::{DefaultHasher, Hash, Hasher};
#[cfg(feature = "async")]
use std::pin::pin;

use crate::error::{Error, Result};

thread_local! {
    /// The values that calls on this thread's stack are computing, innermost last.
    static COMPUTING: RefCell<Vec<Value>> = const { RefCell::new(Vec::new()) };
}

/// A value, identified by the number of its key space (see [`keys`]) and its key.
type Value = (u64, Box<[u8]>);

/// Returns a number that identifies a key space. All handles that access the same keys get the same
/// number.
pub(crate) fn keys(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A guard that marks a value as being computed until the guard is dropped.
struct Inside;

impl Inside {
    fn new(value: Value) -> Inside {
        // The list no longer exists in a thread that is exiting. If a computation waits for itself
        // in a destructor of that thread, it fails only at the timeout.
        let _ = COMPUTING.try_with(|values| values.borrow_mut().push(value));
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = COMPUTING.try_with(|values| values.borrow_mut().pop());
    }
}

/// Fails if the caller is about to wait for a value that it is computing itself.
pub(crate) fn expect_other(keys: u64, key: &[u8]) -> Result<()> {
    let is_own = COMPUTING.try_with(|values| {
        let values = values.borrow();
        let mut values = values.iter();
        values.any(|value| value.0 == keys && *value.1 == *key)
    });
    match is_own.unwrap_or(false) {
        true => Err(Error::Recursion(String::from_utf8_lossy(key).into())),
        false => Ok(()),
    }
}

/// Calls `compute` while its value is marked as being computed.
pub(crate) fn inside<T>(keys: u64, key: &[u8], compute: impl FnOnce() -> T) -> T {
    let _inside = Inside::new((keys, key.into()));
    compute()
}

/// Runs a future that computes a value. The value is marked as being computed only while the future
/// is polled, and only on the polling thread.
#[cfg(feature = "async")]
pub(crate) async fn inside_task<T>(keys: u64, key: &[u8], compute: impl Future<Output = T>) -> T {
    let mut compute = pin!(compute);
    poll_fn(|cx| inside(keys, key, || compute.as_mut().poll(cx))).await
}
