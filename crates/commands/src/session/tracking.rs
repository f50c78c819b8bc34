//! The state that CLIENT TRACKING sets up: which changed keys a client is told about.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// When a command's keys are remembered, in the default mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// All commands that only read.
    #[default]
    Always,
    /// OPTIN: commands that follow CLIENT CACHING YES.
    OptIn,
    /// OPTOUT: commands that do not follow CLIENT CACHING NO.
    OptOut,
}

/// When keys are remembered, as seen from the command that reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The command has not read them yet.
    Before,
    /// The command has not read them yet, and its transaction has locked them.
    InTransaction,
    /// The command has read them.
    After,
}

/// The tracking of one connection.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// The ID of the connection that receives the invalidations, or 0 for the connection itself.
    pub redirect: u64,
    /// BCAST: whether the client is told about all keys with certain prefixes, instead of about the
    /// keys that it has read.
    pub broadcasts: bool,
    /// The prefixes of BCAST, sorted.
    pub prefixes: Vec<Vec<u8>>,
    /// When keys are remembered.
    pub caching: Caching,
    /// NOLOOP: whether the client is not told about keys that it changes itself.
    pub no_loop: bool,
    /// Whether the connection that receives the invalidations no longer exists. The server sets this
    /// once it has an invalidation for it.
    pub is_broken: Arc<AtomicBool>,
    /// The number to which changes of this client are attributed, or 0 without NOLOOP.
    pub(crate) origin: u64,
    /// Whether CLIENT CACHING was sent for the next command or transaction.
    pub(crate) caching_given: bool,
}

impl Tracking {
    /// Returns whether the keys of commands that only read are remembered now.
    pub(crate) fn remembers(&self) -> bool {
        let remembers = match self.caching {
            Caching::Always => true,
            Caching::OptIn => self.caching_given,
            Caching::OptOut => !self.caching_given,
        };
        remembers && !self.broadcasts
    }

    /// Returns whether the connection that receives the invalidations no longer exists.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Returns the flags that CLIENT TRACKINGINFO shows in addition to `on`.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let given = self.caching_given;
        let all = [
            (self.broadcasts, "bcast"),
            (self.caching == Caching::OptIn, "optin"),
            (self.caching == Caching::OptIn && given, "caching-yes"),
            (self.caching == Caching::OptOut, "optout"),
            (self.caching == Caching::OptOut && given, "caching-no"),
            (self.no_loop, "noloop"),
            (self.is_broken(), "broken_redirect"),
        ];
        let set = all.into_iter().filter(|(is_set, _)| *is_set);
        set.map(|(_, name)| name).collect()
    }
}

/// The tracking of a connection, as CLIENT LIST shows it.
#[derive(Clone, Debug, Default)]
pub struct TrackingInfo(Option<Shown>);

/// The tracking of a connection that tracks keys.
#[derive(Clone, Debug)]
struct Shown {
    broadcasts: bool,
    /// Whether the connection that receives the invalidations no longer exists, which the server may
    /// notice at any time.
    is_broken: Arc<AtomicBool>,
    redirect: u64,
}

impl TrackingInfo {
    /// Returns a description of a connection's tracking.
    pub fn of(tracking: Option<&Tracking>) -> TrackingInfo {
        TrackingInfo(tracking.map(|tracking| Shown {
            broadcasts: tracking.broadcasts,
            is_broken: Arc::clone(&tracking.is_broken),
            redirect: tracking.redirect,
        }))
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn broadcasts(&self) -> bool {
        self.0.as_ref().is_some_and(|shown| shown.broadcasts)
    }

    pub(super) fn is_broken(&self) -> bool {
        let shown = self.0.as_ref();
        shown.is_some_and(|shown| shown.is_broken.load(Ordering::Relaxed))
    }

    /// Returns the ID of the connection that receives the invalidations: 0 for the connection itself,
    /// and -1 while tracking is off.
    pub(crate) fn redirection(&self) -> i64 {
        self.0.as_ref().map_or(-1, |shown| shown.redirect as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caching_is_for_the_next_command() {
        let mut tracking = Tracking::default();
        for (caching, without, with) in [
            (Caching::Always, true, true),
            (Caching::OptIn, false, true),
            (Caching::OptOut, true, false),
        ] {
            tracking.caching = caching;
            for (given, remembers) in [(false, without), (true, with)] {
                tracking.caching_given = given;
                assert_eq!(tracking.remembers(), remembers, "{caching:?} {given}");
            }
        }
        tracking.broadcasts = true;
        tracking.caching = Caching::Always;
        assert!(!tracking.remembers());
    }
}
