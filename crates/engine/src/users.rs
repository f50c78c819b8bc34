//! The users of servers (ACL), shared by all servers of a store.
//!
//! The engine stores a user as a name and an opaque record, and does not check any rights: processes
//! that map the store are trusted. Like scripts, users are in a dictionary that clients cannot see.
//! A server caches the users that it has read, and reads them again only after a change
//! ([`Access::user_changes`]).

use undercroft_memory::Fault;

use crate::error::Error;
use crate::scripts::{NamedText, SharedTexts};
use crate::transaction::access::Access;

/// The first byte of a user's key, because the name of a user can be empty, and the empty key
/// belongs to the version.
const PREFIX: u8 = b'u';

/// A user in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredUser {
    /// The name of the user.
    pub name: Vec<u8>,
    /// A number that identifies this creation of the user: a user that is deleted and created again
    /// gets a different number.
    pub mark: u64,
    /// The rules of the user, in the encoding of the commands.
    pub rules: Vec<u8>,
}

impl StoredUser {
    fn to_record(&self) -> NamedText {
        let record = [&self.mark.to_le_bytes()[..], &self.rules].concat();
        (key_of(&self.name), record)
    }

    /// Returns the user in a record, or `None` if the record is damaged.
    fn from_record((key, record): NamedText) -> Option<StoredUser> {
        let (mark, rules) = record.split_first_chunk()?;
        Some(StoredUser {
            name: key.strip_prefix(&[PREFIX])?.to_vec(),
            mark: u64::from_le_bytes(*mark),
            rules: rules.to_vec(),
        })
    }
}

fn key_of(name: &[u8]) -> Vec<u8> {
    [&[PREFIX], name].concat()
}

impl Access<'_> {
    /// Returns a counter that grows with every change to the users. Takes one atomic load.
    #[inline]
    pub fn user_changes(&self) -> u64 {
        self.text_changes(SharedTexts::Users)
    }

    /// Returns all users, sorted by name, and the version to pass to
    /// [`change_stored_users`](Self::change_stored_users). O(bytes).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired, or if a record is damaged: a user must not be ignored,
    /// because it may restrict what clients can do.
    pub fn stored_users(&self) -> Result<(Vec<StoredUser>, u64), Error> {
        let (records, version) = self.texts_and_version(SharedTexts::Users)?;
        let users = records.into_iter().map(|record| {
            let damage = Fault {
                at: 0,
                what: "the record of a user (ACL)",
            };
            StoredUser::from_record(record).ok_or_else(|| Error::from(damage))
        });
        Ok((users.collect::<Result<_, _>>()?, version))
    }

    /// Changes users in one transaction: deletes the `forgotten` users, then stores the `kept` users.
    /// If the version of the users is no longer `version`, changes nothing and returns false.
    /// O(bytes).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired or the store is out of memory.
    pub fn change_stored_users(
        &self,
        version: u64,
        forgotten: &[&[u8]],
        kept: &[StoredUser],
    ) -> Result<bool, Error> {
        let forgotten: Vec<Vec<u8>> = forgotten.iter().map(|name| key_of(name)).collect();
        let forgotten: Vec<&[u8]> = forgotten.iter().map(Vec::as_slice).collect();
        let kept: Vec<NamedText> = kept.iter().map(StoredUser::to_record).collect();
        self.change_texts(SharedTexts::Users, version, &forgotten, &kept)
    }
}
