//! Stores as which user a connection is logged in, and what it may do.

use std::sync::Arc;

use crate::users::{User, Users};

/// The user of a connection. A process that embeds the store is trusted and has no user.
#[derive(Clone, Debug)]
pub struct Login {
    /// The user, or `None` if the client is trusted or its user is not known yet.
    user: Option<Arc<User>>,
    is_trusted: bool,
    /// Whether the connection has logged in, or began when the default user needed no password. A
    /// later password of the user does not end this.
    authenticated: bool,
    /// Whether the connection may run commands other than AUTH and HELLO.
    is_admitted: bool,
    /// Whether the connection may do everything, so that no command needs a check.
    is_unrestricted: bool,
    /// Whether the user was deleted, so that the connection must be closed.
    has_ended: bool,
    /// The stamp up to which this is current; see [`UserCache`](crate::users::UserCache).
    stamp: u64,
}

/// A stamp that no cache returns, so that the user is looked up before the next command.
const NEVER: u64 = u64::MAX;

impl Login {
    /// Returns the login of a process that embeds the store, which may do everything.
    pub fn trusted() -> Login {
        Login {
            user: None,
            is_trusted: true,
            authenticated: true,
            is_admitted: true,
            is_unrestricted: true,
            has_ended: false,
            stamp: NEVER,
        }
    }

    /// Returns the login of a new connection to a server, which may do nothing until its user is
    /// [known](Self::refresh).
    pub fn unknown() -> Login {
        Login {
            is_trusted: false,
            authenticated: false,
            is_admitted: false,
            is_unrestricted: false,
            ..Login::trusted()
        }
    }

    /// Returns whether the connection may run commands other than AUTH and HELLO.
    #[inline(always)]
    pub fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// Returns whether the connection may do everything.
    #[inline(always)]
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Returns whether the client is a process that embeds the store.
    #[inline(always)]
    pub fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Returns whether the user was deleted, so that the connection must be closed.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns whether the users may have changed since the user was looked up.
    #[inline(always)]
    pub fn is_outdated(&self, stamp: u64) -> bool {
        self.stamp != stamp && !self.is_trusted
    }

    /// Returns whether the connection may read a key.
    pub fn may_read(&self, key: &[u8]) -> bool {
        let user = self.user.as_ref();
        self.is_unrestricted || self.is_admitted && user.is_some_and(|user| user.may_read(key))
    }

    /// Returns the user, or `None` if the client is trusted or its user is not known yet.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// Returns the name of the user, which is `default` for a client without a user.
    pub fn name(&self) -> &str {
        self.user.as_ref().map_or("default", |user| user.shown())
    }

    /// Logs the connection in as a user. A trusted client stays trusted.
    pub(crate) fn log_in(&mut self, user: &Arc<User>) {
        if !self.is_trusted {
            self.user = Some(Arc::clone(user));
            self.authenticated = true;
            self.is_admitted = true;
            self.is_unrestricted = user.is_unrestricted();
            // The user may have changed since it was read.
            self.stamp = NEVER;
        }
    }

    /// Resets the login to that of a new connection.
    pub(crate) fn reset(&mut self) {
        if !self.is_trusted {
            *self = Login::unknown();
        }
    }

    /// Looks the user up again, after the users may have changed.
    pub fn refresh(&mut self, users: &Users, stamp: u64) {
        if !self.is_outdated(stamp) || self.has_ended {
            return;
        }
        self.stamp = stamp;
        let default = users.default_user();
        let now = match &self.user {
            None => {
                self.authenticated = default.is_open();
                Some(default)
            }
            Some(old) => users.find(old.name()).filter(|user| user.is_same(old)),
        };
        // As in Redis, the connection is no longer that of its user from now on.
        self.has_ended = now.is_none();
        self.authenticated &= !self.has_ended;
        let user = now.unwrap_or(default);
        self.is_admitted = !self.has_ended && (self.authenticated || default.is_open());
        self.is_unrestricted = self.is_admitted && user.is_unrestricted();
        self.user = Some(Arc::clone(user));
    }
}
