//! Stores the subscriptions of one connection.

use std::collections::BTreeSet;

use undercroft_engine::messages::Topic;

/// The subscribed names, grouped by the kind of topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    names: [BTreeSet<Vec<u8>>; 3],
}

impl Subscriptions {
    /// Returns whether the connection has no subscriptions.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// Returns the subscribed names of one kind of topic.
    pub fn names(&self, topic: Topic) -> impl Iterator<Item = &Vec<u8>> {
        self.names[topic as usize].iter()
    }

    /// Returns the number of subscribed names of one kind of topic.
    pub fn count(&self, topic: Topic) -> usize {
        self.names[topic as usize].len()
    }

    /// Returns the count that confirmations of subscriptions report. Channels and patterns share
    /// one count.
    pub(crate) fn confirmed(&self, topic: Topic) -> usize {
        match topic {
            Topic::Shard => self.count(topic),
            Topic::Channel | Topic::Pattern => {
                self.count(Topic::Channel) + self.count(Topic::Pattern)
            }
        }
    }

    pub(crate) fn has(&self, topic: Topic, name: &[u8]) -> bool {
        self.names[topic as usize].contains(name)
    }

    pub(crate) fn insert(&mut self, topic: Topic, name: &[u8]) {
        self.names[topic as usize].insert(name.to_vec());
    }

    pub(crate) fn remove(&mut self, topic: Topic, name: &[u8]) {
        self.names[topic as usize].remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmations_count_channels_and_patterns_together() {
        let mut subscriptions = Subscriptions::default();
        assert!(subscriptions.is_empty());
        for topic in Topic::ALL {
            subscriptions.insert(topic, b"a");
            subscriptions.insert(topic, b"a");
        }
        let confirmed = Topic::ALL.map(|topic| subscriptions.confirmed(topic));
        assert_eq!(confirmed, [2, 2, 1]);
        subscriptions.remove(Topic::Pattern, b"a");
        assert_eq!(subscriptions.confirmed(Topic::Channel), 1);
        assert!(subscriptions.has(Topic::Shard, b"a") && !subscriptions.is_empty());
    }
}
