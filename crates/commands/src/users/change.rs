//! Changes the users in the store.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use undercroft_engine::users::StoredUser;
use undercroft_engine::{Access, removing};

use super::definitions::UserDefinition;
use super::stored::{UserCache, Users};
use super::user::User;
use crate::arguments::CommandError;
use crate::failure::Failure;

/// A change to the users: some are deleted, then others are stored.
#[derive(Default)]
pub(crate) struct UserChange {
    pub(crate) deleted: Vec<Vec<u8>>,
    pub(crate) kept: Vec<User>,
}

/// Changes users in one transaction. `decide` returns the change, given the current users, and may
/// be called again if another process has changed them in the meantime.
///
/// # Errors
/// Returns the error of `decide`, or an error if a lock cannot be acquired or the store is out of
/// memory.
pub(crate) fn change<R>(
    (cache, store): (&UserCache, Access<'_>),
    decide: impl Fn(&Users) -> Result<(UserChange, R), CommandError>,
) -> Result<R, Failure> {
    // Users can be deleted and restricted even if the store is full.
    let _removing = removing();
    loop {
        let (_, users) = cache.now(store)?;
        let (change, result) = decide(&users)?;
        if change.deleted.is_empty() && change.kept.is_empty() {
            return Ok(result);
        }
        let deleted: Vec<&[u8]> = change.deleted.iter().map(Vec::as_slice).collect();
        let kept: Vec<StoredUser> = change.kept.iter().map(User::to_stored).collect();
        if store.change_stored_users(users.version, &deleted, &kept)? {
            return Ok(result);
        }
    }
}

/// The users that replace all users of a store.
pub(crate) enum NewUsers<'u> {
    /// Each user is created anew, as by ACL LOAD in Redis 7.0, so that all connections of the old
    /// users end. The default user only changes.
    Created(&'u [User]),
    /// Users that do not change are left alone, so that their connections to other servers of the
    /// store remain.
    Changed(&'u [User]),
}

impl NewUsers<'_> {
    /// Returns the change that leaves exactly these users, and a default user with all rights if none
    /// is among them.
    pub(crate) fn change(&self, users: &Users) -> UserChange {
        let (new, renews) = match self {
            NewUsers::Created(new) => (*new, true),
            NewUsers::Changed(new) => (*new, false),
        };
        let default = User::unrestricted();
        let has_default = new.iter().any(|user| user.name() == default.name());
        let all = new.iter().chain((!has_default).then_some(&default));
        let mut change = UserChange::default();
        let mut names: BTreeSet<&[u8]> = BTreeSet::new();
        for user in all {
            names.insert(user.name());
            let old = users.find(user.name());
            let renewed = renews && user.name() != default.name();
            let mark = match old.filter(|_| !renewed) {
                Some(old) => old.mark,
                None => new_mark(),
            };
            let user = user.clone().with_mark(mark);
            if old.is_none_or(|old| **old != user) {
                change.kept.push(user);
            }
        }
        let old = users.all().map(|user| user.name());
        let gone = old.filter(|name| !names.contains(name));
        change.deleted = gone.map(<[u8]>::to_vec).collect();
        change
    }
}

/// Returns a number that identifies one creation of a user in any process.
fn new_mark() -> u64 {
    // Forked processes share their hash keys, and a process can create several users at a time.
    let time = std::time::SystemTime::now();
    RandomState::new().hash_one((time, std::process::id()))
}

/// Replaces all users of a store by those that a server's files define when it starts. Users that do
/// not change keep their connections to other servers of the store.
///
/// # Errors
/// Returns a message that names the user and the rule, or says why the store cannot be changed.
pub fn load_users(
    (cache, store): (&UserCache, Access<'_>),
    definitions: &[UserDefinition],
    all_channels: bool,
) -> Result<(), String> {
    let users: Result<Vec<User>, String> = definitions
        .iter()
        .map(|definition| definition.user(all_channels))
        .collect();
    let new = users?;
    change((cache, store), |users| {
        Ok((NewUsers::Changed(&new).change(users), ()))
    })
    .map_err(|failure| failure.into_error().text().to_owned())
}

/// Sets the only password of the default user, or none (`requirepass`).
///
/// # Errors
/// Returns a message if the store cannot be changed.
pub fn set_default_password(
    (cache, store): (&UserCache, Access<'_>),
    password: Option<&[u8]>,
) -> Result<(), String> {
    change((cache, store), |users| {
        let old = users.default_user();
        let mut user = User::clone(old);
        user.set_password(password);
        let kept = (user != **old).then_some(user).into_iter().collect();
        let change = UserChange {
            kept,
            ..UserChange::default()
        };
        Ok((change, ()))
    })
    .map_err(|failure| failure.into_error().text().to_owned())
}

/// Returns the user to which ACL SETUSER applies its rules: a copy of the user with this name, or a
/// new user.
pub(crate) fn user_to_change(users: &Users, name: &[u8], all_channels: bool) -> User {
    match users.find(name) {
        Some(user) => User::clone(user),
        None => User::new(name, all_channels).with_mark(new_mark()),
    }
}
