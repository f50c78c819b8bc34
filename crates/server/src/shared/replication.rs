//! Implements the server's interface for commands about its replicas.

use std::sync::Arc;
use std::time::{Duration, Instant};

use undercroft_commands::context::{Replicas, StreamFacts};

use crate::shared::registered::State;
use crate::shared::replica::Replica;
use crate::shared::state::Shared;

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

    fn wait(&self, count: usize, timeout: Option<Duration>) -> usize {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let registered = &self.replicas;
        let request = {
            let mut state = registered.state();
            state.requests += 1;
            state.requests
        };
        registered.wanted.notify_all();
        let is_sent = |state: &State| state.sent_requests >= request;
        let is_stopping = || self.stopping();
        if !registered.wait_for(deadline, is_stopping, is_sent) {
            return 0;
        }
        let offset = registered.state().requested;
        registered.wait_for(deadline, is_stopping, |state| state.count(offset) >= count);
        registered.state().count(offset)
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
