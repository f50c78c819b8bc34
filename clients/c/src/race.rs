//! Changes in the midst of reads, and a panic: only in a build for the tests of what a caller may be given.

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

/// Changes made in the midst of reads by this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Runs one of these commands, by a handle of its own, whenever the body of a read of the store has run and is not
/// checked yet, until none is left. Tells how many were run before.
///
/// # Safety
/// As the header says of the pointers of `uc_pipeline`; `made` is null or there is room for a number.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_test_change_reads(
    store: *const StoreHandle,
    count: usize,
    commands: *const Words,
    made: *mut u64,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller's promises.
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
                ran.expect("nobody holds a lock");
                MADE.fetch_add(1, Ordering::Relaxed);
            }
        })));
        // SAFETY: the caller's promise.
        unsafe { give(made, MADE.load(Ordering::Relaxed)) };
        Ok(Status::Ok)
    };
    // SAFETY: the caller's promises.
    unsafe { call_on(store, body) }
}

/// Panics while it uses a session.
///
/// # Safety
/// As the header says of `uc_command`.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_test_panic(session: *mut SessionHandle) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let _session = unsafe { Handle::exclusive(session) }?;
        panic!("as the test wants it");
    })
}
