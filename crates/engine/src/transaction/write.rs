//! Changing keys of several shards atomically.

use std::time::Duration;

use undercroft_memory::{Marks, Scratch, ShardSet, are_signals_deferred};

use crate::error::Error;
use crate::handle::store::Store;
use crate::transaction::above::above;
use crate::transaction::notice::NoticedQueues;
use crate::transaction::outbox::Mail;
use crate::transaction::retry::FailedTry;
use crate::transaction::writer::Writer;

impl Store {
    /// Changes keys of several shards atomically. An error from `body` undoes all changes. `body`
    /// may run several times if the first run lacks memory or undo log space. Like the body of
    /// [`read`](Self::read), it is [`Fn`] and [`Sync`], so that it cannot carry state from one run
    /// to the next (W10).
    #[inline(always)]
    pub fn write<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&mut Writer<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.write_into(shards, &mut (), |writer, ()| body(writer))
    }

    /// Like [`write`](Self::write), but fills a caller's buffer. The buffer is cleared before each
    /// run of `body` and if the change fails (W10).
    #[inline(always)]
    pub fn write_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&mut Writer<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        if self.has_backlog() {
            self.settle_first();
        }
        let (value, mail) = self.change(shards, Marks::Respected, scratch, body)?;
        self.deliver(mail);
        if self.segment.upkeep_is_due() {
            above(self).upkeep(self);
        }
        Ok(value)
    }

    /// Like [`write`](Self::write), but also changes marked shards, and returns the queues of
    /// waiting clients instead of serving them. For code that returns the items of dead clients to
    /// their keys (L5).
    pub(crate) fn write_marked<R>(
        &self,
        shards: ShardSet,
        body: impl Fn(&mut Writer<'_, '_>) -> Result<R, Error> + Sync,
    ) -> Result<(R, NoticedQueues), Error> {
        let body = |writer: &mut Writer<'_, '_>, (): &mut ()| body(writer);
        let (value, mut mail) = self.change(shards, Marks::Ignored, &mut (), body)?;
        let noticed = mail.take_noticed();
        self.deliver(mail);
        Ok((value, noticed))
    }

    /// Changes keys of several shards. Returns the result and the work to do after the commit.
    #[inline(always)]
    fn change<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        scratch: &mut S,
        body: impl Fn(&mut Writer<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<(R, Mail), E> {
        let mut recorded = false;
        loop {
            let result = self.segment.write_where(shards, marks, |transaction| {
                scratch.clear();
                let mut writer = Writer::new(self, transaction);
                let done = body(&mut writer, scratch);
                recorded = writer.outbox.recorded > 0;
                match done {
                    Ok(value) => match writer.outbox.close() {
                        Ok(mail) => Ok((value, mail)),
                        Err((error, outbox)) => {
                            let again = writer.transaction.is_short();
                            Err(FailedTry::failed(error.into(), outbox, again))
                        }
                    },
                    Err(error) => {
                        let again = writer.transaction.is_short();
                        Err(FailedTry::failed(error, writer.outbox, again))
                    }
                }
            });
            match result {
                Ok(done) => {
                    self.wake_trackers(recorded);
                    return Ok(done);
                }
                Err(failed) => self.try_again(failed).inspect_err(|_| scratch.clear())?,
            }
        }
    }

    /// Does the work and sends the notifications that a transaction postponed until after its
    /// commit.
    #[inline(always)]
    pub(crate) fn deliver(&self, mail: Mail) {
        if let Some(content) = mail.0 {
            above(self).deliver(self, *content);
        }
    }

    /// Retries work that was skipped because of a lock: serving queues, ending waits and
    /// subscriptions, and sending messages of committed changes. Stops at the first lock that
    /// cannot be acquired. If work remains, returns the time after which to call this again. If no
    /// work is pending, the cost is one load. Every write also calls this.
    pub fn settle_waits(&self) -> Option<Duration> {
        if !self.has_backlog() {
            return None;
        }
        above(self).settle(self)
    }

    /// Calls [`settle_waits`](Self::settle_waits) before a change, unless the change itself belongs
    /// to the work after a commit.
    #[cold]
    pub(crate) fn settle_first(&self) {
        if !are_signals_deferred() {
            above(self).settle(self);
        }
    }
}
