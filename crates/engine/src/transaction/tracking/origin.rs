//! The client on whose behalf a thread changes keys. A server tells a client about changed keys, but on
//! request not about the changes that the client itself made.

use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZero;

/// The number to which the removal of keys to free memory is attributed. No client has it.
pub const EVICTION: u64 = u64::MAX;

thread_local! {
    static ORIGIN: Cell<u64> = const { Cell::new(0) };
}

/// Attributes the changes that this thread makes to a client until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Origin {
    before: u64,
    /// Dropping the guard on another thread would change that thread's origin.
    of_this_thread: PhantomData<*const ()>,
}

impl Origin {
    /// Attributes all changes that this thread makes to the client with this number, which is unique
    /// among the clients of all processes.
    pub fn set(client: NonZero<u64>) -> Origin {
        Origin {
            before: exchange(client.get()),
            of_this_thread: PhantomData,
        }
    }
}

/// Sets the origin and returns the earlier one. A thread that is ending has none.
fn exchange(client: u64) -> u64 {
    ORIGIN
        .try_with(|origin| origin.replace(client))
        .unwrap_or(0)
}

impl Drop for Origin {
    fn drop(&mut self) {
        exchange(self.before);
    }
}

/// Returns the client to which changes are attributed, or 0.
#[inline(always)]
pub(crate) fn origin() -> u64 {
    ORIGIN.try_with(Cell::get).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_nested() {
        let set = |number| Origin::set(NonZero::new(number).expect("not 0"));
        let outer = set(1);
        {
            let _inner = set(2);
            assert_eq!(origin(), 2);
        }
        assert_eq!(origin(), 1);
        drop(outer);
        assert_eq!(origin(), 0);
    }
}
