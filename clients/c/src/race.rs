//! Test hooks that change data during reads or panic during a call. Compiled only with the `races`
//! feature.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_commands::reply::Recorder;
use undercroft_embedded::OpenStore;
use undercroft_engine::Store;
use undercroft_engine::race::Moment;

use crate::border::{self, Words, call, give};
use crate::handle::Handle;
use crate::session::SessionHandle;
use crate::status::{Refused, Status};
use crate::store::{Database, StoreHandle, call_on};

/// The number of changes that this process made during reads.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Schedules commands that change data during reads. After the body of each read runs and before
/// the read is validated, a separate handle runs the next command. Writes the number of these
/// commands that this process has run so far to `made`.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_test_change_reads(
    store: *const StoreHandle,
    count: usize,
    commands: *const Words,
    made: *mut u64,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that `commands` is null or valid for `count` commands.
        let commands = unsafe { border::commands(count, commands)? };
        let mut changes = Vec::new();
        for words in commands {
            changes.push(words?.iter().map(|word| word.to_vec()).collect::<Vec<_>>());
        }
        let store = &on.shared.store;
        let beside =
            Store::open(store.path(), true).map_err(|error| Refused::engine(store, error))?;
        let beside = OpenStore::new(beside);
        let mut session = beside.session();
        let mut changes = changes.into_iter();
        store.interrupt_reads(Some(Box::new(move |moment| {
            if moment == Moment::Tried
                && let Some(words) = changes.next()
            {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let ran = beside.execute(&mut session, &words, &mut Recorder::new());
                ran.expect("no process holds a lock");
                MADE.fetch_add(1, Ordering::Relaxed);
            }
        })));
        // SAFETY: the caller guarantees that `made` is null or writable.
        unsafe { give(made, MADE.load(Ordering::Relaxed)) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// Panics while using a session, so that a test can check later calls on the session.
///
/// # Safety
/// `session` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_test_panic(session: *mut SessionHandle) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `session` is null or a handle from this library.
        let _session = unsafe { Handle::exclusive(session) }?;
        panic!("as the test wants it");
    })
}
