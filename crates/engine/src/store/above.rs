//! Implements the callbacks through which `transaction` calls modules that it does not depend on.

use std::time::Duration;

use undercroft_memory::{Offset, defer_signals};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::store::Store;
use crate::structures::entry::Entry;
use crate::structures::roots::{DATABASES, Root};
use crate::transaction::above::{Table, UpperFloors};
use crate::transaction::outbox::{Content, Post};
use crate::transaction::writer::Writer;
use crate::types::value;
use crate::upkeep::counters::Counters;
use crate::upkeep::{expiry, graveyard};
use crate::waiting::postponed::Task;

/// The callback table that every store handle is created with.
pub(crate) const ABOVE: Table = &Modules;

struct Modules;

impl UpperFloors for Modules {
    fn discard_object(
        &self,
        writer: &mut Writer<'_, '_>,
        shard: usize,
        entry: &Entry,
    ) -> Result<(), Error> {
        value::discard_object(writer.transaction, shard, entry)
    }

    fn hand_over_object(
        &self,
        writer: &mut Writer<'_, '_>,
        entry: &Entry,
        (from, to): (usize, usize),
        take: bool,
    ) -> Result<Vec<u8>, Error> {
        value::hand_over(writer, entry, from, to, take)
    }

    fn sweep_a_little(
        &self,
        writer: &mut Writer<'_, '_>,
        root: Root,
        inserted: Offset,
    ) -> Result<(), Error> {
        expiry::sweep_a_little(writer, root, inserted)
    }

    fn free_a_little(
        &self,
        writer: &mut Writer<'_, '_>,
        shard: usize,
        buckets: u64,
    ) -> Result<(), Error> {
        graveyard::free_a_little(writer, shard, buckets)
    }

    fn deliver(&self, store: &Store, content: Content) {
        // The transaction has committed, so a failure from here on must not make the call fail.
        let _deferred = defer_signals();
        let is_flushed = |post: &Post| matches!(post, Post::Flushed);
        if content.posts.iter().any(is_flushed) {
            // The keys are already removed, so ignore errors: later writers free the remaining
            // memory.
            let _ = store.free_flushed();
        }
        let (classes, mut outgoing) = (content.classes, None);
        for post in content.posts {
            match post {
                Post::Flushed => {}
                Post::Use(shard, hash) => store.count_use(shard, hash),
                Post::Event(event, database, key) => outgoing
                    .get_or_insert_with(|| store.outgoing())
                    .tell(classes, event, database, &key),
                Post::Expired(database, key) => {
                    if database < DATABASES {
                        store.part::<Counters>().count_expired();
                    }
                    if classes.tell_of(KeyEvent::Expired) {
                        let outgoing = outgoing.get_or_insert_with(|| store.outgoing());
                        outgoing.tell(classes, KeyEvent::Expired, database, &key);
                    }
                }
                Post::QueuedMessage(letter) => outgoing
                    .get_or_insert_with(|| store.outgoing())
                    .send_letter(&letter),
            }
        }
        if content.noticed.count() > 0 {
            store.serve_noticed(content.noticed);
        }
    }

    fn settle(&self, store: &Store) -> Option<Duration> {
        let _deferred = defer_signals();
        // Ignore the result: unsent messages stay queued, and the pause computed below takes them
        // into account.
        let _ = store.send_unsent();
        let tasks = store.do_postponed(|task| match task {
            Task::Serve(queue) => store.serve_again(queue),
            Task::End(ticket) => store.end_for_good(ticket),
        });
        let messages = store.depart_kept(|departure| store.depart(departure));
        messages.or(tasks)
    }

    fn look_after(&self, store: &Store) -> Result<(), Error> {
        store.look_after()
    }

    fn free_memory(&self, store: &Store) -> bool {
        store.reclaim(|| false).unwrap_or(false)
            || store.free_for_room(|| false).unwrap_or(false)
            || store.evict_for_space().unwrap_or(false)
    }

    fn free_of_the_dead(
        &self,
        store: &Store,
        is_enough: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Error> {
        store.free_for_room(is_enough)
    }

    fn upkeep(&self, store: &Store) {
        store.upkeep_after_write();
    }
}
