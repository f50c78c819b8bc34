//! Changing keys of some shards: all or nothing.

use std::time::Duration;

use undercroft_memory::{Marks, Scratch, ShardSet, are_signals_deferred};

use crate::error::Error;
use crate::handle::store::Store;
use crate::transaction::above::above;
use crate::transaction::notice::Noticed;
use crate::transaction::outbox::Mail;
use crate::transaction::retry::FailedTry;
use crate::transaction::writer::Writer;

impl Store {
    /// Changes keys of some shards: all or nothing. An error from `body` undoes
    /// everything. `body` may run several times, where there is not enough memory
    /// or log at first. It can keep nothing between its runs (W10): it is [`Fn`]
    /// and [`Sync`], as that of [`read`](Self::read).
    #[inline(always)]
    pub fn write<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&mut Writer<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.write_into(shards, &mut (), |writer, ()| body(writer))
    }

    /// [`write`](Self::write) that fills memory of the caller's. It is empty
    /// whenever `body` begins, and where the change fails (W10).
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

    /// [`write`](Self::write) without serving those who wait for the keys, who
    /// are returned: for who looks after marked shards (L5).
    pub(crate) fn write_marked<R>(
        &self,
        shards: ShardSet,
        body: impl Fn(&mut Writer<'_, '_>) -> Result<R, Error> + Sync,
    ) -> Result<(R, Noticed), Error> {
        let body = |writer: &mut Writer<'_, '_>, (): &mut ()| body(writer);
        let (value, mut mail) = self.change(shards, Marks::Ignored, &mut (), body)?;
        let noticed = mail.take_noticed();
        self.deliver(mail);
        Ok((value, noticed))
    }

    /// Changes keys of some shards, and returns what is to be done behind the
    /// commit.
    #[inline(always)]
    fn change<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        scratch: &mut S,
        body: impl Fn(&mut Writer<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<(R, Mail), E> {
        loop {
            let result = self.segment.write_where(shards, marks, |transaction| {
                scratch.clear();
                let mut writer = Writer::new(self, transaction);
                match body(&mut writer, scratch) {
                    Ok(value) => Ok((value, writer.outbox.close())),
                    Err(error) => {
                        let again = writer.transaction.is_short();
                        Err(FailedTry::failed(error, writer.outbox, again))
                    }
                }
            });
            match result {
                Ok(done) => return Ok(done),
                Err(failed) => self.try_again(failed).inspect_err(|_| scratch.clear())?,
            }
        }
    }

    /// Does and tells what a transaction left to be done after its commit.
    #[inline(always)]
    pub(crate) fn deliver(&self, mail: Mail) {
        if let Some(content) = mail.0 {
            above(self).deliver(self, *content);
        }
    }

    /// Tries again what a lock stood in the way of: served queues, waits and
    /// subscriptions that ended, messages that tell of a commit. It ends with the first lock that
    /// cannot be had. Returns after what time to call it again, where something
    /// is left. Almost free where there is nothing; every write does it, too.
    pub fn settle_waits(&self) -> Option<Duration> {
        if !self.has_backlog() {
            return None;
        }
        above(self).settle(self)
    }

    /// [`settle_waits`](Self::settle_waits) before a change, unless this is
    /// after another one.
    #[cold]
    pub(crate) fn settle_first(&self) {
        if !are_signals_deferred() {
            above(self).settle(self);
        }
    }
}
