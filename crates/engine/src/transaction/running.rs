//! The running transaction of many commands, as its body sees it.

use std::cell::{Cell, Ref, RefCell};

use undercroft_memory::{Scratch, ShardSet, Transaction, View};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::store::Store;
use crate::transaction::above::above;
use crate::transaction::access::{Access, RunningAccess};
use crate::transaction::load::Load;
use crate::transaction::outbox::{Mail, Post};
use crate::transaction::retry::FailedTry;
use crate::transaction::savepoint::Savepoint;
use crate::transaction::writer::Writer;

/// A running transaction of many commands; see [`Store::transact`].
pub struct Running<'r, 's> {
    store: &'r Store,
    writer: RefCell<Writer<'r, 's>>,
    shards: ShardSet,
    /// Whether a command needed a shard that is not locked.
    beyond: Cell<bool>,
    soundness: RefCell<Soundness>,
}

/// Whether the transaction can be committed.
enum Soundness {
    Sound,
    /// A change failed and was not undone, so it may be incomplete.
    Spoiled,
    /// A rollback failed with this error.
    Stuck(Error),
}

impl Running<'_, '_> {
    /// Returns access to the store within this transaction.
    pub fn access(&self) -> Access<'_> {
        Access {
            store: self.store,
            running: Some(self),
            load: Load::default(),
            untouched: false,
        }
    }

    /// Creates a savepoint after all changes so far. O(locked shards).
    pub fn savepoint(&self) -> Savepoint {
        let mut savepoint = Savepoint::default();
        self.save_to(&mut savepoint);
        savepoint
    }

    /// Like [`savepoint`](Self::savepoint), but overwrites a savepoint in place and invalidates all
    /// earlier savepoints. For callers that run commands one by one and roll back at most the last
    /// command. O(locked shards).
    pub fn renew(&self, savepoint: &mut Savepoint) {
        let mut writer = self.writer.borrow_mut();
        writer.transaction.renew(&mut savepoint.changes);
        savepoint.outbox = writer.outbox.mark();
        savepoint.is_sound = matches!(*self.soundness.borrow(), Soundness::Sound);
    }

    /// Undoes all changes since a savepoint, and drops the work and notifications that were queued
    /// since the savepoint. O(undone changes).
    ///
    /// # Errors
    /// Returns [`Error::Spoiled`] if memory cannot be returned to the heap now. The transaction
    /// then fails with the underlying error, unless it is rolled back further.
    pub fn roll_back_to(&self, savepoint: &Savepoint) -> Result<(), Error> {
        let mut writer = self.writer.borrow_mut();
        let undone = writer.transaction.roll_back_to(&savepoint.changes);
        if let Err(error) = undone {
            *self.soundness.borrow_mut() = Soundness::Stuck(error.into());
            return Err(Error::Spoiled);
        }
        writer.outbox.cut(savepoint.outbox);
        if savepoint.is_sound {
            *self.soundness.borrow_mut() = Soundness::Sound;
        }
        Ok(())
    }

    /// Returns whether the transaction must start again with more memory or more locks. Its changes
    /// are then undone, and any error from the last command is meaningless.
    pub fn starts_again(&self) -> bool {
        self.beyond.get() || self.writer.borrow().transaction.is_short()
    }

    /// Returns the outcome of the transaction, given the result of its body, and the content of its
    /// outbox.
    fn end<R, E: From<Error>>(self, result: Result<R, E>) -> Result<(R, Mail), FailedTry<E>> {
        let beyond = self.beyond.get();
        let again = self.starts_again();
        let result = match (result, self.soundness.into_inner()) {
            (_, Soundness::Stuck(error)) => Err(error.into()),
            (Ok(_), Soundness::Spoiled) => Err(Error::Spoiled.into()),
            (Ok(_), _) if beyond => Err(Error::OutsideTransaction.into()),
            (result, _) => result,
        };
        let outbox = self.writer.into_inner().outbox;
        let closed = match result {
            Ok(value) => outbox
                .close()
                .map(|mail| (value, mail))
                .map_err(|(error, outbox)| (error.into(), outbox)),
            Err(error) => Err((error, outbox)),
        };
        match closed {
            Ok(done) => Ok(done),
            Err((error, outbox)) => {
                let mut failed = FailedTry::failed(error, outbox, again);
                failed.beyond = beyond;
                Err(failed)
            }
        }
    }
}

impl RunningAccess for Running<'_, '_> {
    fn holds(&self, shards: ShardSet) -> bool {
        let holds = self.shards.includes(shards);
        if !holds {
            self.beyond.set(true);
        }
        holds
    }

    fn starts_again(&self) -> bool {
        Running::starts_again(self)
    }

    fn shards(&self) -> ShardSet {
        self.shards
    }

    fn view(&self) -> Ref<'_, View<'_>> {
        Ref::map(self.writer.borrow(), |writer| writer.view())
    }

    fn write(&self, body: &mut dyn FnMut(&mut Writer<'_, '_>) -> bool) {
        let done = body(&mut self.writer.borrow_mut());
        let mut soundness = self.soundness.borrow_mut();
        if !done && matches!(*soundness, Soundness::Sound) {
            *soundness = Soundness::Spoiled;
        }
    }

    fn post(&self, post: Post) {
        self.writer.borrow_mut().outbox.post(post);
    }

    fn tell(&self, event: KeyEvent, database: usize, key: &[u8]) {
        self.writer.borrow_mut().outbox.tell(event, database, key);
    }

    fn save_to(&self, savepoint: &mut Savepoint) {
        let writer = self.writer.borrow();
        writer.transaction.save_to(&mut savepoint.changes);
        savepoint.outbox = writer.outbox.mark();
        savepoint.is_sound = matches!(*self.soundness.borrow(), Soundness::Sound);
    }

    fn roll_back_to(&self, savepoint: &Savepoint) -> Result<(), Error> {
        Running::roll_back_to(self, savepoint)
    }
}

impl Store {
    /// Runs many commands as one transaction, which is atomic even if this process is killed.
    /// Readers never see a partial state. `body` uses the store only through [`Running::access`].
    /// Like the body of [`write`](Store::write), it may run several times and cannot carry state
    /// from one run to the next. The clock is frozen during the transaction. An error from `body`
    /// undoes all changes. If a command uses a shard that is not in `shards`, `body` runs again
    /// with all shards locked.
    ///
    /// # Errors
    /// Returns the errors of `body` and of [`write`](Store::write), and [`Error::Spoiled`] if a
    /// change failed and `body` neither undid it nor returned an error.
    pub fn transact<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&Running<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.transact_into(shards, &mut (), |running, ()| body(running))
    }

    /// Like [`transact`](Self::transact), but fills a caller's buffer, for example with replies.
    /// The buffer is cleared before each run of `body` and if the transaction fails (W10).
    ///
    /// # Errors
    /// Returns the errors of [`transact`](Self::transact).
    pub fn transact_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&Running<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        if self.has_backlog() {
            self.settle_first();
        }
        let (mut locked, mut recorded) = (shards, false);
        loop {
            let result = self
                .segment
                .write(locked, |transaction: &mut Transaction<'_>| {
                    scratch.clear();
                    let _frozen = self.clock.freeze();
                    let running = Running {
                        store: self,
                        writer: RefCell::new(Writer::new(self, transaction)),
                        shards: locked,
                        beyond: Cell::new(false),
                        soundness: RefCell::new(Soundness::Sound),
                    };
                    let result = body(&running, scratch);
                    recorded = running.writer.borrow().outbox.recorded > 0;
                    running.end(result)
                });
            match result {
                Ok((value, mail)) => {
                    self.wake_trackers(recorded);
                    self.deliver(mail);
                    if self.segment.upkeep_is_due() {
                        above(self).upkeep(self);
                    }
                    return Ok(value);
                }
                Err(failed) if failed.beyond && locked != self.all_shards() => {
                    locked = self.all_shards();
                }
                Err(failed) => self.try_again(failed).inspect_err(|_| scratch.clear())?,
            }
        }
    }
}

impl Access<'_> {
    /// Runs many commands as one transaction; see [`Store::transact_into`]. Transactions cannot be
    /// nested.
    ///
    /// # Errors
    /// Returns [`Error::OutsideTransaction`] within a transaction, and the errors of
    /// [`Store::transact`].
    pub fn transact_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&Running<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        match self.running {
            None => {
                if self.load.keys != 0 {
                    self.store.expect(shards, &self.load);
                }
                self.store.transact_into(shards, scratch, body)
            }
            Some(_) => Err(Error::OutsideTransaction.into()),
        }
    }
}
