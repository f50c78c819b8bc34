//! Reads the users in the store, and caches them in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_engine::{Access, ForkMutex};

use super::user::User;
use crate::failure::Failure;

/// The name of the user of connections that have not logged in as another user.
const DEFAULT: &[u8] = b"default";

/// A snapshot of all users of a store.
#[derive(Debug)]
pub struct Users {
    /// The users by name. `default` is always among them.
    all: BTreeMap<Vec<u8>, Arc<User>>,
    default: Arc<User>,
    /// The version of this snapshot, to pass to
    /// [`change_stored_users`](Access::change_stored_users).
    pub(super) version: u64,
}

impl Users {
    /// Returns users of which one is `default`: the given one, or the unrestricted one.
    pub(super) fn new(users: impl IntoIterator<Item = User>, version: u64) -> Users {
        let named = users
            .into_iter()
            .map(|user| (user.name().to_vec(), Arc::new(user)));
        let mut all: BTreeMap<Vec<u8>, Arc<User>> = named.collect();
        let default = all
            .entry(DEFAULT.to_vec())
            .or_insert_with(|| Arc::new(User::unrestricted()));
        Users {
            default: Arc::clone(default),
            all,
            version,
        }
    }

    /// Returns the user with this name.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.all.get(name)
    }

    /// Returns the user of connections that have not logged in as another user.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// Returns all users, ordered by name.
    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.all.values()
    }
}

/// The users that a process has cached.
#[derive(Debug, Default)]
pub struct UserCache {
    /// The cached users, and the stamp from just before they were read.
    known: ForkMutex<Option<(u64, Arc<Users>)>>,
    /// The number of stores that the process has left for another store.
    stores: AtomicU64,
}

impl UserCache {
    /// Returns a number that differs from every earlier one if the users may have changed since. Takes
    /// two atomic loads.
    #[inline]
    pub fn stamp(&self, store: &Access<'_>) -> u64 {
        const CHANGES: u32 = 40;
        let stores = self.stores.load(Ordering::Acquire);
        store.user_changes() & ((1 << CHANGES) - 1) | stores << CHANGES
    }

    /// Must be called when the process begins to use another store.
    pub fn forget(&self) {
        self.stores.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the current users, and the stamp up to which they are current. Reads the store only
    /// after a change.
    ///
    /// # Errors
    /// Returns an error if a lock cannot be acquired or the users are damaged.
    pub fn now(&self, store: Access<'_>) -> Result<(u64, Arc<Users>), Failure> {
        let stamp = self.stamp(&store);
        if let Some((of, users)) = &*self.known.lock()
            && *of == stamp
        {
            return Ok((stamp, Arc::clone(users)));
        }
        let (stored, version) = store.stored_users()?;
        let users = Arc::new(Users::new(stored.iter().map(User::of_stored), version));
        // Cache nothing within a transaction, because it can still be rolled back.
        if !store.is_running() {
            *self.known.lock() = Some((stamp, Arc::clone(&users)));
        }
        Ok((stamp, users))
    }
}
