//! Refers to stores by name, so that calls survive the removal or replacement of the store's file.
//!
//! `undercroft rm`, or a cleanup of /dev/shm, can remove the file while processes have it mapped.
//! The mappings remain valid, but every write to them is refused. Rust and C programs access a
//! store only through the types in this module: if a call fails because the store was removed, it
//! is repeated on the store that now has the same name. The Python binding uses [`Place`] directly
//! and applies the same rules.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use undercroft_commands::Failure;
use undercroft_commands::session::Session;
use undercroft_engine::{Error, Store, WaitHook};

use crate::open_store::OpenStore;
use crate::place::Place;

/// A function that returns the wait hook for the store's locks. It is called for each new mapping
/// of a store.
pub type Hook = fn() -> Option<Box<dyn WaitHook>>;

/// Returns the text of an error reply if the store's file was removed or replaced. Replaces an
/// out-of-memory error, which the removal caused, with the removal error.
#[cold]
pub fn removed_text<'t>(store: &Store, text: &'t str) -> Option<Cow<'t, str>> {
    let removal = store.removal()?;
    if text.starts_with("OOM ")
        && let Failure::Reply(error) = Failure::from(removal)
    {
        return Some(Cow::Owned(error.text().to_owned()));
    }
    Some(Cow::Borrowed(text))
}

/// The store that currently has a name. Clones share the store, and any number of threads can use
/// it.
///
/// The first mapping remains until the last clone is dropped, because calls borrow it without
/// reference counting. As long as its file exists, a call only reads one flag. A later mapping is
/// released when the next mapping replaces it.
#[derive(Clone)]
pub struct StoreByName {
    first: Arc<OpenStore>,
    rest: Arc<SlowPathState>,
}

/// State that only the slow path uses.
struct SlowPathState {
    place: Place,
    hook: Hook,
    /// The current store, if the file of the first store has been removed.
    later: ArcSwapOption<OpenStore>,
    /// The patience (the maximum wait for a lock) set after opening, in nanoseconds, or 0 if none
    /// was set.
    patience: AtomicU64,
}

impl StoreByName {
    /// Opens or creates the store at a place, like [`Place::open`].
    ///
    /// # Errors
    /// Returns the same errors as [`Place::open`].
    pub fn open(place: Place, hook: Hook) -> Result<StoreByName, Error> {
        Ok(StoreByName {
            first: place.open(hook)?,
            rest: Arc::new(SlowPathState {
                place,
                hook,
                later: ArcSwapOption::empty(),
                patience: AtomicU64::new(0),
            }),
        })
    }

    /// Returns the place from which the store is opened.
    pub fn place(&self) -> &Place {
        &self.rest.place
    }

    /// Calls `call` with the store. If the call fails because the file was removed, and the place
    /// permits reopening, the call is repeated on the store that now has the same name. `opening`
    /// converts an error from opening that store.
    ///
    /// # Errors
    /// Returns any error from the call or from opening the store.
    #[inline(always)]
    pub fn call<R, E>(
        &self,
        opening: fn(&Error) -> E,
        mut call: impl FnMut(&Arc<OpenStore>) -> Result<R, E>,
    ) -> Result<R, E> {
        if !self.first.store.is_lost() {
            let done = call(&self.first);
            // On a removed store, a call can also fail with a different error, such as OOM, so
            // check for a removal after each error.
            if done.is_ok() || !self.rest.place.reopens() || !self.first.store.removed() {
                return done;
            }
        }
        self.call_later(opening, &mut call)
    }

    /// The slow path of [`call`](Self::call), after the first store's file was removed.
    #[cold]
    fn call_later<R, E>(
        &self,
        opening: fn(&Error) -> E,
        call: &mut dyn FnMut(&Arc<OpenStore>) -> Result<R, E>,
    ) -> Result<R, E> {
        let open = self.current().map_err(|error| opening(&error))?;
        let done = call(&open);
        if done.is_ok() || !self.rest.place.reopens() || !open.store.removed() {
            return done;
        }
        // The later store was also removed, so open the store again.
        let open = self.current().map_err(|error| opening(&error))?;
        call(&open)
    }

    /// Runs a command on a temporary connection. Like [`call`](Self::call), repeats the command if
    /// the store was removed.
    ///
    /// # Errors
    /// Returns the same errors as [`call`](Self::call).
    pub fn command<R, E>(
        &self,
        words: &[&[u8]],
        opening: fn(&Error) -> E,
        mut call: impl FnMut(&OpenStore, &mut Session) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut attempt = || {
            let open = self.current().map_err(|error| opening(&error))?;
            let mut session = open.session();
            let done = call(&open, &mut session);
            let again = done.is_err()
                && open.store.removed()
                && self.rest.place.runs_again(&open, &session, words);
            Ok((done, again))
        };
        match attempt()? {
            (_, true) => attempt()?.0,
            (done, false) => done,
        }
    }

    /// Returns the store that currently has the name, for a connection, a subscription or an
    /// object, which outlive a single call.
    ///
    /// # Errors
    /// If the file was removed, returns any error from opening the store again.
    #[inline]
    pub fn current(&self) -> Result<Arc<OpenStore>, Error> {
        match self.first.store.is_lost() && self.rest.place.reopens() {
            true => self.reopened(),
            false => Ok(self.first.clone()),
        }
    }

    #[cold]
    fn reopened(&self) -> Result<Arc<OpenStore>, Error> {
        let later = self.rest.later.load_full();
        if let Some(later) = later.filter(|later| !later.store.is_lost()) {
            return Ok(later);
        }
        let opened = self.rest.place.open(self.rest.hook)?;
        if let nanoseconds @ 1.. = self.rest.patience.load(Ordering::Relaxed) {
            opened.store.set_patience(Duration::from_nanos(nanoseconds));
        }
        // Threads that reach this point concurrently have opened the same mapping, so any of them
        // can store it.
        self.rest.later.store(Some(opened.clone()));
        Ok(opened)
    }

    /// Calls `body` with the most recently used store, even if its file has been removed.
    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(&Arc<OpenStore>) -> R) -> R {
        if !self.first.store.is_lost() {
            return body(&self.first);
        }
        let later = self.rest.later.load_full();
        body(later.as_ref().unwrap_or(&self.first))
    }

    /// Sets how long calls in this process wait for a lock. Applies to this store and to stores
    /// that replace it.
    pub fn set_patience(&self, patience: Duration) {
        let nanoseconds = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        self.rest
            .patience
            .store(nanoseconds.max(1), Ordering::Relaxed);
        self.with(|open| open.store.set_patience(patience));
    }
}

/// A connection to the store that currently has a name. While the connection holds state of a
/// removed store, such as an open transaction, it continues to use that store, and its calls return
/// the error.
pub struct SessionByName {
    of: StoreByName,
    open: Arc<OpenStore>,
    session: Session,
}

impl SessionByName {
    /// Returns a new connection. If the store cannot be reopened, the connection's first call
    /// retries and reports the error.
    pub fn new(of: &StoreByName) -> SessionByName {
        let open = of.current().unwrap_or_else(|_| of.with(Arc::clone));
        SessionByName {
            session: open.session(),
            of: of.clone(),
            open,
        }
    }

    /// Returns the connection's store and state.
    pub fn get(&self) -> (&Arc<OpenStore>, &Session) {
        (&self.open, &self.session)
    }

    /// Returns the state of the connection.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Starts a call. If the connection's store was removed and the connection holds no state of
    /// that store, first moves the connection to the store that now has the same name.
    ///
    /// # Errors
    /// Returns the same errors as [`StoreByName::current`].
    #[inline]
    pub fn enter(&mut self) -> Result<(&Arc<OpenStore>, &mut Session), Error> {
        if self.open.store.is_lost() && self.of.place().leaves(&self.open, &self.session) {
            self.open = self.of.current()?;
        }
        Ok((&self.open, &mut self.session))
    }

    /// Runs a command. If the command fails because the store's file was removed, and the
    /// connection held no state of that store, the command is repeated on the store that now has
    /// the same name.
    ///
    /// # Errors
    /// Returns the same errors as [`StoreByName::call`].
    pub fn run<R, E>(
        &mut self,
        words: &[&[u8]],
        opening: fn(&Error) -> E,
        mut run: impl FnMut(&OpenStore, &mut Session) -> Result<R, E>,
    ) -> Result<R, E> {
        let (open, session) = self.enter().map_err(|error| opening(&error))?;
        // EXEC ends the state that the connection holds, so check for state before the command.
        let held_nothing = session.holds_nothing();
        let done = run(open, session);
        if done.is_ok() || !open.store.removed() {
            return done;
        }
        let place = self.of.place();
        if !held_nothing || !place.runs_again(&self.open, &self.session, words) {
            return done;
        }
        let (open, session) = self.enter().map_err(|error| opening(&error))?;
        run(open, session)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use undercroft_engine::Terms;

    use super::*;

    fn by_name(option: &str) -> (tempfile::TempDir, StoreByName) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let url = format!("undercroft://{}/store{option}", directory.path().display());
        let place = Place::new(&url, Terms::default()).expect("a name");
        let store = StoreByName::open(place, || None).expect("a store");
        (directory, store)
    }

    fn text(error: &Error) -> String {
        error.to_string()
    }

    /// Repeats a call until the process notices that the file was removed, and returns the call's
    /// result. The process checks for a removal once a second.
    fn until<R>(store: &StoreByName, mut call: impl FnMut(&Store) -> Result<R, String>) -> String {
        loop {
            let done = store.call(text, |open| call(&open.store).map(drop));
            if store.first.store.is_lost() {
                return done.err().unwrap_or_default();
            }
        }
    }

    fn miss(store: &Store) -> Result<bool, String> {
        let found = store.get(0, b"absent", &mut Vec::new());
        found.map_err(|error| error.to_string())
    }

    fn set(store: &Store) -> Result<(), String> {
        store.set(0, b"k", b"v").map_err(|error| error.to_string())
    }

    #[test]
    fn calls_continue_in_the_new_store_and_free_intermediate_ones() {
        let (_directory, store) = by_name("");
        let mut between = None;
        for round in 0..3 {
            fs::remove_file(store.place().path()).expect("it exists");
            loop {
                store.call(text, |open| set(&open.store)).expect("a store");
                if store.place().path().exists() {
                    break;
                }
            }
            let now = store.current().expect("a store");
            assert!(!Arc::ptr_eq(&now, &store.first));
            if round == 0 {
                between = Some(Arc::downgrade(&now));
            }
        }
        assert!(between.is_some_and(|between| between.upgrade().is_none()));
    }

    #[test]
    fn client_that_only_reads_missing_keys_notices_the_removal() {
        let (_directory, store) = by_name("");
        fs::remove_file(store.place().path()).expect("it exists");
        until(&store, miss);
        store.call(text, |open| miss(&open.store)).expect("a store");
        assert!(store.place().path().exists(), "recreated");
    }

    #[test]
    fn on_removed_error_ends_every_call() {
        let (_directory, store) = by_name("?on_removed=error");
        fs::remove_file(store.place().path()).expect("it exists");
        let told = until(&store, set);
        assert!(told.contains("was removed or replaced"), "{told}");
        let again = store.call(text, |open| set(&open.store));
        assert!(again.is_err() && !store.place().path().exists());
    }

    #[test]
    fn store_moved_back_to_its_path_is_opened_again() {
        let (directory, store) = by_name("");
        set(&store.first.store).expect("room");
        let aside = directory.path().join("aside");
        fs::rename(store.place().path(), &aside).expect("it exists");
        until(&store, miss);
        fs::rename(&aside, store.place().path()).expect("it exists");
        let found = store.call(text, |open| {
            let found = open.store.get(0, b"k", &mut Vec::new());
            found.map_err(|error| error.to_string())
        });
        assert_eq!(found, Ok(true));
    }

    #[test]
    fn process_that_never_wrote_moves_to_the_new_store_immediately() {
        let (_directory, store) = by_name("");
        fs::remove_file(store.place().path()).expect("it exists");
        store.call(text, |open| set(&open.store)).expect("a store");
        assert!(store.first.store.is_lost() && store.place().path().exists());
    }

    #[test]
    fn patience_is_kept_for_the_new_store() {
        let (_directory, store) = by_name("");
        store.set_patience(Duration::from_millis(123));
        fs::remove_file(store.place().path()).expect("it exists");
        until(&store, set);
        let now = store.current().expect("a store");
        assert!(!Arc::ptr_eq(&now, &store.first));
        assert_eq!(now.store.patience(), Duration::from_millis(123));
    }

    #[test]
    fn connection_leaves_the_old_store_once_it_holds_no_state() {
        let (_directory, store) = by_name("");
        let mut session = SessionByName::new(&store);
        let mut run = |words: &[&[u8]]| {
            session.run(words, text, |open, session| {
                let mut recorder = undercroft_commands::reply::Recorder::new();
                let ran = open.execute(session, words, &mut recorder);
                ran.map_err(|blocked| blocked.to_string())?;
                match recorder.finish().unwrap_or_default().pop() {
                    Some(undercroft_commands::reply::Tree::Error(told)) => Err(told.to_string()),
                    _ => Ok(()),
                }
            })
        };
        run(&[b"WATCH", b"k"]).expect("it begins");
        fs::remove_file(store.place().path()).expect("it exists");
        until(&store, set);
        let told = run(&[b"SET", b"k", b"v"]).expect_err("the old store is gone");
        assert!(told.contains("was removed or replaced"), "{told}");
        run(&[b"UNWATCH"]).expect("it holds nothing now");
        run(&[b"SET", b"k", b"v"]).expect("a new store");
    }

    #[test]
    fn unknown_on_removed_options_are_refused() {
        for url in ["undercroft://x?on_removed=retry", "undercroft://x?strict=1"] {
            let refused = Place::new(url, Terms::default());
            assert!(matches!(refused, Err(Error::Name(_))), "{url}");
        }
    }
}
