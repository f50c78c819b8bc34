//! Connects the server to the users in its store: loads them at the start, and watches their changes.
//!
//! - `login_delays`: delays logins from addresses from which logins have failed.

pub(crate) mod login_delays;

use std::path::Path;
use std::sync::atomic::Ordering;

use undercroft_commands::session::Session;
use undercroft_commands::users::{
    UserDefinition, definitions_of_file, load_users, read_file, set_default_password,
};
use undercroft_engine::Store;

use crate::shared::state::Shared;

impl Shared {
    /// Puts the users that the server's files and `requirepass` define into a store, as Redis does
    /// when it starts. Without any, the users in the store stay.
    ///
    /// # Errors
    /// Returns a message that says what is wrong with the definitions, or why the store cannot be
    /// changed. The server must not serve the store then.
    pub(crate) fn define_users(&self, store: &Store) -> Result<(), String> {
        let config = &self.process.config;
        let users = (&self.process.users, store.access());
        let all_channels = config.value("acl-pubsub-default").text() == b"allchannels";
        let lines = &self.files.users;
        let path = config.value("aclfile").text();
        if !path.is_empty() {
            if !lines.is_empty() {
                return Err(
                    "expected either aclfile or user lines in the configuration, got both; \
                     move the user lines into the ACL file"
                        .to_owned(),
                );
            }
            let path = String::from_utf8_lossy(&path).into_owned();
            let text = read_file(Path::new(&path))?;
            return load_users(users, &definitions_of_file(&path, &text)?, all_channels);
        }
        if !lines.is_empty() {
            load_users(users, lines, all_channels)?;
        }
        let is_default = |user: &UserDefinition| user.name() == b"default";
        let password = config.value("requirepass").text();
        if !password.is_empty() && !lines.iter().any(is_default) {
            set_default_password(users, Some(&password))?;
        }
        Ok(())
    }

    /// Returns whether clients can use the server without a password. If the users cannot be read,
    /// assumes that they can.
    pub(crate) fn needs_no_password(&self) -> bool {
        let store = self.store();
        let users = self.process.users.now(store.access());
        users.map_or(true, |(_, users)| users.default_user().is_open())
    }

    /// Looks up the user of a new connection. If this fails, the user is looked up before the first
    /// command.
    pub(crate) fn look_up_user(&self, session: &mut Session) {
        let store = self.store();
        if let Ok((stamp, users)) = self.process.users.now(store.access()) {
            session.login.refresh(&users, stamp);
        }
    }

    /// Wakes all threads, which then close the connections whose users were deleted.
    pub(crate) fn announce_users(&self) {
        for thread in &self.threads {
            thread.waker.wake();
        }
    }

    /// Closes the connections of replicas whose users were deleted.
    pub(crate) fn check_replicas(&self) {
        let store = self.store();
        let Ok((stamp, users)) = self.process.users.now(store.access()) else {
            return;
        };
        for replica in &self.replicas.state().replicas {
            replica.check_user(&users, stamp);
        }
    }

    /// Wakes all threads if another process has changed the users. Only one thread calls this.
    pub(crate) fn watch_users(&self) {
        let stamp = self.process.users.stamp(&self.store().access());
        if self.seen_users.swap(stamp, Ordering::Relaxed) != stamp {
            self.announce_users();
            self.check_replicas();
        }
    }
}
