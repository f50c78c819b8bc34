//! A transaction over many commands, while it runs.

use std::cell::{Cell, Ref, RefCell};

use undercroft_memory::{Scratch, ShardSet, Transaction, View};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::store::Store;
use crate::transaction::above::above;
use crate::transaction::access::{Access, Within};
use crate::transaction::load::Load;
use crate::transaction::outbox::{Mail, Post};
use crate::transaction::retry::FailedTry;
use crate::transaction::savepoint::Savepoint;
use crate::transaction::writer::Writer;

/// A transaction over many commands; see [`Store::transact`].
pub struct Running<'r, 's> {
    store: &'r Store,
    writer: RefCell<Writer<'r, 's>>,
    shards: ShardSet,
    /// A command wanted a shard that is not locked.
    beyond: Cell<bool>,
    soundness: RefCell<Soundness>,
}

/// Whether a transaction may be committed.
enum Soundness {
    Sound,
    /// A change failed and was not undone, so half of it may be there.
    Spoiled,
    /// It could not be undone, for this reason.
    Stuck(Error),
}

impl Running<'_, '_> {
    /// The store as it is within this transaction.
    pub fn access(&self) -> Access<'_> {
        Access {
            store: self.store,
            running: Some(self),
            load: Load::default(),
            untouched: false,
        }
    }

    /// Remembers what the commands did so far. O(locked shards).
    pub fn savepoint(&self) -> Savepoint {
        let mut savepoint = Savepoint::default();
        self.save_to(&mut savepoint);
        savepoint
    }

    /// [`savepoint`](Self::savepoint) in its place, by which all that were made before are void: for who runs one command
    /// after the other and goes back over the last one only. O(locked shards).
    pub fn renew(&self, savepoint: &mut Savepoint) {
        let mut writer = self.writer.borrow_mut();
        writer.transaction.renew(&mut savepoint.changes);
        savepoint.outbox = writer.outbox.mark();
        savepoint.is_sound = matches!(*self.soundness.borrow(), Soundness::Sound);
    }

    /// Undoes what commands did since a savepoint, and takes back what they had done or told behind the commit. O(what
    /// is undone).
    ///
    /// # Errors
    /// [`Error::Spoiled`] where memory cannot be given back at the moment. The transaction then fails, with the reason,
    /// unless it is rolled back further.
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

    /// Whether the transaction has to start again, with more memory or more locks: what it did will be undone, and an
    /// error of the last command means nothing.
    pub fn starts_again(&self) -> bool {
        self.beyond.get() || self.writer.borrow().transaction.is_short()
    }

    /// What the transaction comes to where its body returned this, and what is to be done behind its commit.
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
        match result {
            Ok(value) => Ok((value, outbox.close())),
            Err(error) => {
                let mut failed = FailedTry::failed(error, outbox, again);
                failed.beyond = beyond;
                Err(failed)
            }
        }
    }
}

impl Within for Running<'_, '_> {
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
    /// Runs many commands as one transaction: all or nothing, whatever happens to this process, and no reader sees half
    /// of it. `body` reaches the store through [`Running::access`] only; it may run several times and can keep nothing
    /// between its runs, as that of [`write`](Store::write). Time stands still in it. An error from it undoes everything. Commands that use a shard
    /// which is not among `shards` make it run again with all shards locked.
    ///
    /// # Errors
    /// Those of `body`, those of [`write`](Store::write), and [`Error::Spoiled`] where a change failed and `body` neither
    /// undid it nor returned an error.
    pub fn transact<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&Running<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.transact_into(shards, &mut (), |running, ()| body(running))
    }

    /// [`transact`](Self::transact) whose commands fill memory of the caller's, such as replies. It is empty whenever
    /// `body` begins, and where the transaction fails (W10).
    ///
    /// # Errors
    /// As [`transact`](Self::transact).
    pub fn transact_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&Running<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        if self.has_backlog() {
            self.settle_first();
        }
        let mut locked = shards;
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
                    running.end(result)
                });
            match result {
                Ok((value, mail)) => {
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
    /// Runs many commands as one transaction; see [`Store::transact_into`]. Not within another one.
    ///
    /// # Errors
    /// [`Error::OutsideTransaction`] within a transaction, and those of [`Store::transact`].
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
