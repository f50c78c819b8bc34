//! What connections may take: limits that the configuration sets, and open descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use undercroft_commands::config::Config;
use undercroft_commands::session::Session;
use undercroft_resp::Limits as ParserLimits;

/// Descriptors for everything but connections: listeners, epoll instances, the store, the standard streams.
pub(crate) const OTHER_DESCRIPTORS: u64 = 64;

/// How much may wait to be sent to a connection, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    /// Beyond it the connection is closed.
    pub(crate) hard: usize,
    /// A connection that stays above it for `seconds` is closed.
    pub(crate) soft: usize,
    pub(crate) seconds: i64,
}

/// Limits on each connection, as the configuration was at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The configuration they were read from.
    generation: u64,
    /// Longest argument in bytes.
    pub(crate) bulk: usize,
    /// Most bytes received and not yet run.
    pub(crate) input: usize,
    /// What waits to be sent to a connection that is not subscribed to anything. Above its soft limit no more commands
    /// are taken.
    pub(crate) output: OutputLimit,
    /// What waits to be sent to one that is.
    pub(crate) messages: OutputLimit,
    /// Seconds without a command after which a connection is closed; 0 is never.
    pub(crate) idle_seconds: i64,
}

impl Limits {
    /// Those of a connection's parser, before and after its login.
    pub(crate) fn of_parser(&self, session: &Session) -> ParserLimits {
        ParserLimits {
            max_bulk: self.bulk,
            authenticated: session.user.is_some(),
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
            // As in Redis, 0 is no limit.
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
            idle_seconds: config.integer("timeout"),
        }
    }

    /// Reads the configuration again where it has changed.
    pub(crate) fn refresh(&mut self, config: &Config) {
        if self.generation != config.generation() {
            *self = Limits::of(config);
        }
    }
}

/// Raises the limit of open descriptors for so many clients. Returns for how many it is enough, which is fewer
/// where the system does not allow it.
pub(crate) fn make_room_for(clients: u64) -> u64 {
    let needed = clients.saturating_add(OTHER_DESCRIPTORS);
    let limit = getrlimit(Resource::Nofile);
    let enough = |limit: &Rlimit| limit.current.is_none_or(|current| current >= needed);
    if enough(&limit) {
        return clients;
    }
    // Beyond the hard limit only a privileged process may go; then up to it.
    let beyond = Rlimit {
        current: Some(needed),
        maximum: limit.maximum.map(|maximum| maximum.max(needed)),
    };
    let within = Rlimit {
        current: limit.maximum.map(|maximum| maximum.min(needed)),
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, beyond).is_err() {
        // Refused for no reason that is known; what there is is counted below.
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
        let changed = config.set(&[(b"client-output-buffer-limit", value)], |_| Ok(()));
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
