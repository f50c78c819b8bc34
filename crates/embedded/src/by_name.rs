//! The store that a name means, also after its file was removed or replaced.
//!
//! `undercroft rm`, or a clean-up of /dev/shm, takes the file away from under the processes that map it. Their mappings
//! stay, and every write to them is refused. The types here are the only way to a store for Rust and C: a call that meets
//! a removed store is made again in the store that the name means now. Python has a [`Place`] of its own and asks it the
//! same questions.

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

/// Returns the hook that waits for a store's locks, for each new mapping.
pub type Hook = fn() -> Option<Box<dyn WaitHook>>;

/// Returns the text of an error reply, if the store's file was removed or replaced. An out-of-memory error becomes the error
/// of the removal, which is its cause.
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

/// The store that a name means. Clones share it; any number of threads may use it.
///
/// The mapping that it begins with stays until the last clone is dropped, as calls borrow it without counting: the common
/// case costs a look at one flag. A later mapping is given back when the next one takes its place.
#[derive(Clone)]
pub struct StoreByName {
    first: Arc<OpenStore>,
    rest: Arc<Rest>,
}

/// Rarely used state.
struct Rest {
    place: Place,
    hook: Hook,
    /// The store in use since the file of the first one was removed.
    later: ArcSwapOption<OpenStore>,
    /// The patience that was set after opening, in nanoseconds; 0 where none was.
    patience: AtomicU64,
}

impl StoreByName {
    /// Opens or creates the store, see [`Place::open`].
    ///
    /// # Errors
    /// As those of [`Place::open`].
    pub fn open(place: Place, hook: Hook) -> Result<StoreByName, Error> {
        Ok(StoreByName {
            first: place.open(hook)?,
            rest: Arc::new(Rest {
                place,
                hook,
                later: ArcSwapOption::empty(),
                patience: AtomicU64::new(0),
            }),
        })
    }

    /// The place that the store is opened from.
    pub fn place(&self) -> &Place {
        &self.rest.place
    }

    /// Makes a call on the store, and once more if the call fails because the file was removed and the client goes on with
    /// the store that the name means now. `opening` converts an error of opening that store.
    ///
    /// # Errors
    /// Those of the call, and of the opening.
    #[inline(always)]
    pub fn call<R, E>(
        &self,
        opening: fn(&Error) -> E,
        mut call: impl FnMut(&Arc<OpenStore>) -> Result<R, E>,
    ) -> Result<R, E> {
        if !self.first.store.is_lost() {
            let done = call(&self.first);
            // A removed store may also fail with another error, such as OOM, so look at the path after each error.
            if done.is_ok() || !self.rest.place.reopens() || !self.first.store.removed() {
                return done;
            }
        }
        self.call_later(opening, &mut call)
    }

    /// [`call`](Self::call) where the first store's file is gone.
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
        // This one was removed as well.
        let open = self.current().map_err(|error| opening(&error))?;
        call(&open)
    }

    /// [`call`](Self::call) for a command of a connection of its own.
    ///
    /// # Errors
    /// As there.
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

    /// Returns the store that the name means, for a connection, a subscription or an object, which outlive a call.
    ///
    /// # Errors
    /// Where the file was removed, those of opening the store again.
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
        // Threads that come here at the same time have opened the same mapping.
        self.rest.later.store(Some(opened.clone()));
        Ok(opened)
    }

    /// Uses the store that was used last, even if its file was removed.
    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(&Arc<OpenStore>) -> R) -> R {
        if !self.first.store.is_lost() {
            return body(&self.first);
        }
        let later = self.rest.later.load_full();
        body(later.as_ref().unwrap_or(&self.first))
    }

    /// Sets how long calls of this process wait for locks, now and in later stores.
    pub fn set_patience(&self, patience: Duration) {
        let nanoseconds = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        self.rest
            .patience
            .store(nanoseconds.max(1), Ordering::Relaxed);
        self.with(|open| open.store.set_patience(patience));
    }
}

/// A connection to the store that a name means. While it holds something of a store, such as a transaction that was begun,
/// it stays on that one, and its calls end with the error.
pub struct SessionByName {
    of: StoreByName,
    open: Arc<OpenStore>,
    session: Session,
}

impl SessionByName {
    /// A new connection. Where the store cannot be opened again, its first call tries once more, and says why.
    pub fn new(of: &StoreByName) -> SessionByName {
        let open = of.current().unwrap_or_else(|_| of.with(Arc::clone));
        SessionByName {
            session: open.session(),
            of: of.clone(),
            open,
        }
    }

    /// The store that it is on, and its state.
    pub fn get(&self) -> (&Arc<OpenStore>, &Session) {
        (&self.open, &self.session)
    }

    /// Its state.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Begins a call: on the store that the name means now, if the connection holds nothing of a removed one.
    ///
    /// # Errors
    /// As those of [`StoreByName::current`].
    #[inline]
    pub fn enter(&mut self) -> Result<(&Arc<OpenStore>, &mut Session), Error> {
        if self.open.store.is_lost() && self.of.place().leaves(&self.open, &self.session) {
            self.open = self.of.current()?;
        }
        Ok((&self.open, &mut self.session))
    }

    /// Runs a command, and once more where it was refused as the file of the store is gone and the connection goes on with
    /// the store that the name means now.
    ///
    /// # Errors
    /// As those of [`StoreByName::call`].
    pub fn run<R, E>(
        &mut self,
        words: &[&[u8]],
        opening: fn(&Error) -> E,
        mut run: impl FnMut(&OpenStore, &mut Session) -> Result<R, E>,
    ) -> Result<R, E> {
        let (open, session) = self.enter().map_err(|error| opening(&error))?;
        // EXEC ends what it held.
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

    /// Makes calls until the process knows that the file is gone. A look is due once a second.
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
    fn a_call_goes_on_with_the_new_store_and_frees_those_between() {
        let (_directory, store) = by_name("");
        let mut between = None;
        for round in 0..3 {
            fs::remove_file(store.place().path()).expect("it is there");
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
    fn a_client_whose_keys_are_all_absent_learns_of_the_removal() {
        let (_directory, store) = by_name("");
        fs::remove_file(store.place().path()).expect("it is there");
        until(&store, miss);
        store.call(text, |open| miss(&open.store)).expect("a store");
        assert!(store.place().path().exists(), "made anew");
    }

    #[test]
    fn the_error_stays_where_that_is_wanted() {
        let (_directory, store) = by_name("?on_removed=error");
        fs::remove_file(store.place().path()).expect("it is there");
        let told = until(&store, set);
        assert!(told.contains("was removed or replaced"), "{told}");
        let again = store.call(text, |open| set(&open.store));
        assert!(again.is_err() && !store.place().path().exists());
    }

    #[test]
    fn a_store_that_is_back_at_its_path_is_opened_again() {
        let (directory, store) = by_name("");
        set(&store.first.store).expect("room");
        let aside = directory.path().join("aside");
        fs::rename(store.place().path(), &aside).expect("it is there");
        until(&store, miss);
        fs::rename(&aside, store.place().path()).expect("it is there");
        let found = store.call(text, |open| {
            let found = open.store.get(0, b"k", &mut Vec::new());
            found.map_err(|error| error.to_string())
        });
        assert_eq!(found, Ok(true));
    }

    #[test]
    fn a_process_that_has_never_written_goes_on_at_once() {
        let (_directory, store) = by_name("");
        fs::remove_file(store.place().path()).expect("it is there");
        store.call(text, |open| set(&open.store)).expect("a store");
        assert!(store.first.store.is_lost() && store.place().path().exists());
    }

    #[test]
    fn patience_is_kept_for_the_new_store() {
        let (_directory, store) = by_name("");
        store.set_patience(Duration::from_millis(123));
        fs::remove_file(store.place().path()).expect("it is there");
        until(&store, set);
        let now = store.current().expect("a store");
        assert!(!Arc::ptr_eq(&now, &store.first));
        assert_eq!(now.store.patience(), Duration::from_millis(123));
    }

    #[test]
    fn a_connection_leaves_the_old_store_once_it_holds_nothing_of_it() {
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
        fs::remove_file(store.place().path()).expect("it is there");
        until(&store, set);
        let told = run(&[b"SET", b"k", b"v"]).expect_err("the old store is gone");
        assert!(told.contains("was removed or replaced"), "{told}");
        run(&[b"UNWATCH"]).expect("it holds nothing now");
        run(&[b"SET", b"k", b"v"]).expect("a new store");
    }

    #[test]
    fn other_choices_are_refused() {
        for url in ["undercroft://x?on_removed=retry", "undercroft://x?strict=1"] {
            let refused = Place::new(url, Terms::default());
            assert!(matches!(refused, Err(Error::Name(_))), "{url}");
        }
    }
}
