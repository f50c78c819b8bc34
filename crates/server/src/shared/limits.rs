//! Defines connection limits: the configured limits and the limit on open descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use undercroft_commands::config::Config;
use undercroft_commands::session::Session;
use undercroft_resp::Limits as ParserLimits;

/// The number of descriptors reserved for listeners, epoll instances, the store and the standard
/// streams.
pub(crate) const OTHER_DESCRIPTORS: u64 = 64;

/// Limits on the unsent bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    /// The number of unsent bytes above which the connection is closed immediately.
    pub(crate) hard: usize,
    /// The number of unsent bytes above which the connection is closed after `seconds`.
    pub(crate) soft: usize,
    pub(crate) seconds: i64,
}

/// The connection limits of one generation of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The generation of the configuration from which the limits were read.
    generation: u64,
    /// The maximum length of a command's argument, in bytes.
    pub(crate) bulk: usize,
    /// The maximum number of bytes that have been received but not executed.
    pub(crate) input: usize,
    /// The output limit of a connection without subscriptions. Above the soft limit, the server
    /// stops reading the connection's commands.
    pub(crate) output: OutputLimit,
    /// The output limit of a connection with subscriptions.
    pub(crate) messages: OutputLimit,
    /// The limit on the part of the stream that was not sent to a replica yet.
    pub(crate) replicas: OutputLimit,
    /// The idle time, in seconds, after which a connection is closed, or 0 for no limit.
    pub(crate) idle_seconds: i64,
}

impl Limits {
    /// Returns the limits of a connection's parser, which depend on whether the client is
    /// authenticated.
    pub(crate) fn of_parser(&self, session: &Session) -> ParserLimits {
        ParserLimits {
            max_bulk: self.bulk,
            authenticated: session.login.is_admitted(),
            ..ParserLimits::default()
        }
    }

    pub(crate) fn of(config: &Config) -> Limits {
        let generation = config.generation();
        let size = |name| usize::try_from(config.integer(name)).unwrap_or(0);
        let words = config.value("client-output-buffer-limit").text();
        let words = String::from_utf8_lossy(&words);
        let of_class = |class: &str| {
            let numbers: Vec<usize> = words
                .split(' ')
                .skip_while(|word| *word != class)
                .skip(1)
                .take(3)
                .map(|word| word.parse().unwrap_or(0))
                .collect();
            // As in Redis, 0 means no limit.
            let limit = |index: usize| match numbers.get(index) {
                None | Some(0) => usize::MAX,
                Some(bytes) => *bytes,
            };
            OutputLimit {
                hard: limit(0),
                soft: limit(1),
                seconds: numbers.get(2).map_or(0, |seconds| *seconds as i64),
            }
        };
        Limits {
            generation,
            bulk: size("proto-max-bulk-len"),
            input: size("client-query-buffer-limit"),
            output: of_class("normal"),
            messages: of_class("pubsub"),
            replicas: of_class("slave"),
            idle_seconds: config.integer("timeout"),
        }
    }

    /// Reloads the limits if the configuration has changed.
    pub(crate) fn refresh(&mut self, config: &Config) {
        if self.generation != config.generation() {
            *self = Limits::of(config);
        }
    }
}

/// Raises the limit on open descriptors to make room for `clients` clients. If the system refuses,
/// returns the smaller number of clients for which the limit suffices.
pub(crate) fn make_room_for(clients: u64) -> u64 {
    let needed = clients.saturating_add(OTHER_DESCRIPTORS);
    let limit = getrlimit(Resource::Nofile);
    let enough = |limit: &Rlimit| limit.current.is_none_or(|current| current >= needed);
    if enough(&limit) {
        return clients;
    }
    // Only a privileged process can raise the hard limit. Other processes can raise the soft limit
    // up to the hard limit.
    let beyond = Rlimit {
        current: Some(needed),
        maximum: limit.maximum.map(|maximum| maximum.max(needed)),
    };
    let within = Rlimit {
        current: limit.maximum.map(|maximum| maximum.min(needed)),
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, beyond).is_err() {
        // The reason for a refusal does not matter: the code below reads the effective limit.
        let _ = setrlimit(Resource::Nofile, within);
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(needed);
    current.saturating_sub(OTHER_DESCRIPTORS).min(clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_configuration() {
        let config = Config::new();
        let mut limits = Limits::of(&config);
        assert_eq!(
            (limits.output.hard, limits.output.soft),
            (usize::MAX, usize::MAX)
        );
        assert_eq!(
            (limits.messages.hard, limits.messages.seconds),
            (32 << 20, 60)
        );
        let value = b"normal 1gb 64mb 60 pubsub 1 1 1";
        let changed = config.set(&[(b"client-output-buffer-limit", value)], true, |_| Ok(()));
        assert!(changed.is_ok());
        limits.refresh(&config);
        let limit = |hard, soft, seconds| OutputLimit {
            hard,
            soft,
            seconds,
        };
        assert_eq!(limits.output, limit(1 << 30, 64 << 20, 60));
        assert_eq!(limits.messages, limit(1, 1, 1));
    }

    #[test]
    fn the_descriptor_limit_is_never_lowered() {
        let before = getrlimit(Resource::Nofile).current;
        assert_eq!(make_room_for(1), 1);
        assert_eq!(getrlimit(Resource::Nofile).current, before);
    }
}
