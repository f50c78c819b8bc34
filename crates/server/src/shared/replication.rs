//! Implements the server's interface for commands about its replicas.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use undercroft_commands::config::Config;
use undercroft_commands::context::{Replicas, StreamFacts};
use undercroft_engine::rdb::RdbVersion;
use undercroft_engine::{Error, Store};

use crate::log::log;
use crate::shared::replica::Replica;
use crate::shared::state::Shared;

/// The least progress of the time until which the replicas suffice that is worth a change of the store, in
/// milliseconds.
const PROGRESS: u64 = 250;

/// Ends the requirement of replicas that an earlier server recorded in the store, if the configuration
/// has none. Another server that requires replicas, and does not send to any yet, records it again.
pub(crate) fn end_requirement(store: &Store, config: &Config) -> Result<(), Error> {
    match !config.requires_replicas() && store.replicas_suffice_until().is_some() {
        true => store.require_replicas_after(None),
        false => Ok(()),
    }
}

impl Shared {
    /// Returns the version of the format that all replicas understand. Replicas of Redis before 7.2 do not
    /// tell their versions.
    pub(crate) fn replica_version(&self) -> RdbVersion {
        match &self.process.config.value("replica-rdb-version").text()[..] {
            b"9" => RdbVersion::V9,
            _ => RdbVersion::V10,
        }
    }

    /// Records in the store until when its replicas suffice for `min-replicas-to-write`, for the programs
    /// that map the store. The time passes by itself if replicas are gone, or if this server is. If
    /// another process sends the changes of the store, that process decides.
    pub(crate) fn renew_requirement(&self) {
        let config = &self.process.config;
        let store = self.store();
        let is_required = config.requires_replicas();
        let is_others = is_required && self.is_sent_by_another();
        let was_others = &self.replicas.is_sent_by_another;
        if is_others && !was_others.load(Ordering::Relaxed) {
            log(format_args!(
                "min-replicas-to-write has no effect here while another process sends the changes of \
                 this store to its replicas"
            ));
        }
        was_others.store(is_others, Ordering::Relaxed);
        // Commands on connections count the replicas at their own moment.
        store.count_replicas_itself(is_required && !is_others);
        if !is_required || is_others {
            return;
        }
        let (count, seconds) = config.required_replicas();
        let until = self.suffice_until(count, seconds);
        let recorded = store.replicas_suffice_until().unwrap_or(0);
        let now = self.process.now_microseconds().unsigned_abs() / 1000;
        let is_same = match (recorded, until) {
            // A time that has passed is as good as any other.
            (1.., None) => recorded < now,
            (_, None) => false,
            (_, Some(until)) => (until.saturating_sub(PROGRESS)..=until).contains(&recorded),
        };
        if is_same {
            return;
        }
        // Retried in the next round.
        let _ = store.require_replicas_after(Some(until.unwrap_or(1)));
        if !config.requires_replicas() {
            // CONFIG SET may have removed the requirement before this thread recorded it again.
            let _ = store.require_replicas_after(None);
        }
    }

    /// Returns the time at which the last acknowledgement of one of the latest `count` replicas will be
    /// too old, in Unix milliseconds, or `None` if there are fewer replicas.
    fn suffice_until(&self, count: usize, seconds: u64) -> Option<u64> {
        let state = self.replicas.state();
        let counted = state
            .replicas
            .iter()
            .filter(|replica| replica.acknowledges && replica.is_online());
        let mut heard: Vec<i64> = counted.map(|replica| replica.heard()).collect();
        heard.sort_unstable_by(|one, other| other.cmp(one));
        let heard = heard.get(count.checked_sub(1)?)?.unsigned_abs();
        // An age is rounded down to seconds.
        Some(heard.saturating_add(seconds.saturating_add(1).saturating_mul(1000)) - 1)
    }

    /// Returns whether another process sends the changes of the store, and counts the replicas.
    fn is_sent_by_another(&self) -> bool {
        !self.is_sending() && matches!(self.store().has_sender(), Ok(true))
    }
}

impl Replicas for Shared {
    fn facts(&self) -> StreamFacts {
        let now = self.process.now_microseconds() / 1000;
        let state = self.replicas.state();
        let replicas = state.replicas.iter();
        let text = |id: &[u8]| String::from_utf8_lossy(id).into_owned();
        let mut facts = StreamFacts {
            replicas: replicas.map(|replica| replica.facts(now)).collect(),
            ..StreamFacts::default()
        };
        if let Some(stream) = &state.stream {
            facts.id = Some(text(&stream.id));
            facts.earlier = stream.earlier.map(|(id, end)| (text(&id), end));
            facts.offset = stream.end;
            facts.start = stream.start;
        }
        facts
    }

    fn count_acknowledged(&self) -> usize {
        let state = self.replicas.state();
        let end = state.stream.map_or(0, |stream| stream.end);
        state.count(end)
    }

    fn request_acknowledgements(&self) -> u64 {
        let mut state = self.replicas.state();
        state.requests += 1;
        let request = state.requests;
        drop(state);
        self.replicas.wanted.notify_all();
        request
    }

    fn requested_position(&self, request: u64) -> Option<u64> {
        let state = self.replicas.state();
        (state.sent_requests >= request).then_some(state.requested)
    }

    fn count_acknowledged_at(&self, position: u64) -> usize {
        self.replicas.state().count(position)
    }

    fn is_sending(&self) -> bool {
        self.replicas.state().is_publishing
    }

    fn decides(&self) -> bool {
        !self.replicas.is_sent_by_another.load(Ordering::Relaxed)
    }

    fn count_recent(&self, seconds: u64) -> usize {
        let now = self.process.now_microseconds() / 1000;
        let is_recent = |replica: &&Arc<Replica>| {
            replica.acknowledges && replica.is_online() && replica.lag(now) <= seconds
        };
        let state = self.replicas.state();
        state.replicas.iter().filter(is_recent).count()
    }
}
