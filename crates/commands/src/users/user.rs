//! Defines a user, and applies rules to it.

use undercroft_engine::users::StoredUser;

use super::password::{PasswordHash, contains};
use super::rule::{RuleError, c_text};
use super::selector::{Format, KeyUse, Selector};
use crate::algorithms::words::words;
use crate::arguments::is_keyword;

/// Whether a user's payloads are checked by RESTORE. Undercroft always checks them, so this only
/// records the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sanitizing {
    Default,
    On,
    Skipped,
}

/// A user of servers: its passwords and its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: Vec<u8>,
    /// The name as text, which CLIENT LIST shows.
    shown: Box<str>,
    /// A number that identifies this creation of the user.
    pub(super) mark: u64,
    is_on: bool,
    /// Whether every password is accepted.
    no_password: bool,
    sanitizing: Sanitizing,
    passwords: Vec<PasswordHash>,
    root: Selector,
    selectors: Vec<Selector>,
}

impl User {
    /// Returns a user that is off and has no rights, except that it may use all channels if
    /// `all_channels` is set (`acl-pubsub-default`).
    pub(crate) fn new(name: &[u8], all_channels: bool) -> User {
        User {
            name: name.to_vec(),
            shown: String::from_utf8_lossy(name).into(),
            mark: 0,
            is_on: false,
            no_password: false,
            sanitizing: Sanitizing::Default,
            passwords: Vec::new(),
            root: Selector::new(all_channels),
            selectors: Vec::new(),
        }
    }

    /// Returns the user `default` of a store without users, which has all rights and needs no
    /// password.
    pub(crate) fn unrestricted() -> User {
        let mut user = User::new(b"default", false);
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            let applied = user.apply(rule.as_bytes(), false);
            debug_assert!(applied.is_ok(), "{rule}");
        }
        user
    }

    /// Returns the user with another number of its creation.
    pub(super) fn with_mark(self, mark: u64) -> User {
        User { mark, ..self }
    }

    /// Returns whether another user is the same creation of the user with the same name, whose rules
    /// may have changed.
    pub(crate) fn is_same(&self, other: &User) -> bool {
        self.mark == other.mark && self.name == other.name
    }

    /// Returns the name of the user.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the name of the user as text.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns whether connections are authenticated as this user without AUTH, if it is the default
    /// user.
    pub fn is_open(&self) -> bool {
        self.no_password && self.is_on
    }

    /// Returns whether connections can log in as this user.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_on
    }

    /// Returns whether AUTH accepts every password.
    pub(crate) fn has_no_password(&self) -> bool {
        self.no_password
    }

    /// Returns whether the user may do everything.
    pub fn is_unrestricted(&self) -> bool {
        self.root.allows_all() || self.selectors.iter().any(Selector::allows_all)
    }

    /// Returns whether the user can log in with this password. The time depends only on the length of
    /// the password and the number of the user's passwords.
    pub(crate) fn accepts(&self, password: &[u8]) -> bool {
        let is_known = contains(&self.passwords, &PasswordHash::of(password));
        self.is_on && (self.no_password || is_known)
    }

    /// Returns all selectors, beginning with the root.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> + Clone {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Returns whether the user may subscribe to a channel or a pattern.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors()
            .any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// Returns whether the user may read a key.
    pub fn may_read(&self, key: &[u8]) -> bool {
        const READS: KeyUse = KeyUse {
            reads: true,
            writes: false,
        };
        self.selectors()
            .any(|selector| selector.allows_key(key, READS))
    }

    /// Removes all passwords, and adds one. Without a password, every password is accepted.
    pub(crate) fn set_password(&mut self, password: Option<&[u8]>) {
        self.passwords.clear();
        self.no_password = password.is_none();
        self.passwords.extend(password.map(PasswordHash::of));
    }

    /// Applies a rule of ACL SETUSER. New selectors may use all channels if `all_channels` is set
    /// (`acl-pubsub-default`).
    ///
    /// # Errors
    /// Returns the text with which Redis refuses the rule. The user may have changed.
    pub(crate) fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), &'static str> {
        self.change(rule, all_channels).map_err(RuleError::text)
    }

    /// Returns whether this error of [`apply`](Self::apply) concerns an unknown command or category.
    pub(crate) fn is_unknown_command(error: &'static str) -> bool {
        error == RuleError::UnknownCommand.text()
    }

    fn change(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        let text = c_text(rule);
        let is = |word: &str| is_keyword(text, word);
        match rule {
            [] => {}
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("skip-sanitize-payload") => self.sanitizing = Sanitizing::Skipped,
            _ if is("sanitize-payload") => self.sanitizing = Sanitizing::On,
            _ if is("nopass") => self.set_password(None),
            _ if is("resetpass") => {
                self.passwords.clear();
                self.no_password = false;
            }
            [b'>', password @ ..] => self.add_hash(PasswordHash::of(password)),
            [b'#', hash @ ..] => {
                self.add_hash(PasswordHash::parse(hash).ok_or(RuleError::BadHash)?);
            }
            [b'<', password @ ..] => self.remove_hash(PasswordHash::of(password))?,
            [b'!', hash @ ..] => {
                self.remove_hash(PasswordHash::parse(hash).ok_or(RuleError::BadHash)?)?;
            }
            [b'(', rules @ .., b')'] => {
                let mut selector = Selector::new(all_channels);
                // As in Redis, a selector whose quotes are not closed has no rules.
                for rule in words(rules).unwrap_or_default() {
                    selector.apply(&rule)?;
                }
                self.selectors.push(selector);
            }
            _ if is("clearselectors") => self.selectors.clear(),
            _ if is("reset") => {
                *self = User {
                    mark: self.mark,
                    sanitizing: Sanitizing::On,
                    ..User::new(&self.name, all_channels)
                };
            }
            _ => self.root.apply(rule)?,
        }
        Ok(())
    }

    fn add_hash(&mut self, hash: PasswordHash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.no_password = false;
    }

    fn remove_hash(&mut self, hash: PasswordHash) -> Result<(), RuleError> {
        let place = self.passwords.iter().position(|known| *known == hash);
        self.passwords
            .remove(place.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// Returns the names of the flags that are set, in the order of ACL GETUSER.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let password = self.no_password.then_some("nopass");
        let sanitizing = match self.sanitizing {
            Sanitizing::Default => None,
            Sanitizing::On => Some("sanitize-payload"),
            Sanitizing::Skipped => Some("skip-sanitize-payload"),
        };
        let state = if self.is_on { "on" } else { "off" };
        std::iter::once(state).chain(password).chain(sanitizing)
    }

    /// Returns the hashes of the passwords, in the order in which they were added.
    pub(crate) fn password_hashes(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.passwords.iter().map(PasswordHash::as_bytes)
    }

    /// Returns the rules of the root selector and of the flags, and of each other selector.
    fn rules(&self, format: Format) -> (Vec<Vec<u8>>, Vec<Vec<Vec<u8>>>) {
        let mut rules: Vec<Vec<u8>> = self.flags().map(|flag| flag.as_bytes().to_vec()).collect();
        rules.extend(self.password_hashes().map(|hash| [b"#", hash].concat()));
        rules.extend(self.root.rules(format));
        let selectors = self.selectors.iter();
        (rules, selectors.map(|one| one.rules(format)).collect())
    }

    /// Returns the definition of the user in the format of ACL LIST, which files contain too.
    pub(crate) fn definition(&self) -> Vec<u8> {
        let (mut rules, selectors) = self.rules(Format::List);
        for selector in selectors {
            rules.push([b"(", &selector.join(&b' ')[..], b")"].concat());
        }
        [b"user ", &self.name[..], b" ", &rules.join(&b' ')].concat()
    }

    /// Returns the form in which the store keeps the user.
    pub(crate) fn to_stored(&self) -> StoredUser {
        let (mut rules, selectors) = self.rules(Format::Stored);
        for selector in selectors {
            rules.push(b"(".to_vec());
            rules.extend(selector);
            rules.push(b")".to_vec());
        }
        let mut record = Vec::new();
        for rule in rules {
            record.extend_from_slice(&rule);
            record.push(0);
        }
        StoredUser {
            name: self.name.clone(),
            mark: self.mark,
            rules: record,
        }
    }

    /// Returns a user that the store keeps. A user with rules that this build does not know, because
    /// another build has written them, is off and has no rights.
    pub(crate) fn of_stored(stored: &StoredUser) -> User {
        let mut user = User::new(&stored.name, false);
        let read = user.read_rules(&stored.rules);
        if read.is_err() {
            user = User::new(&stored.name, false);
        }
        user.with_mark(stored.mark)
    }

    fn read_rules(&mut self, record: &[u8]) -> Result<(), RuleError> {
        let mut inside = false;
        let rules = record.strip_suffix(&[0]).unwrap_or_default();
        for rule in rules.split(|byte| *byte == 0) {
            match (rule, self.selectors.last_mut()) {
                (b"(", _) => {
                    inside = true;
                    self.selectors.push(Selector::new(false));
                }
                (b")", _) => inside = false,
                (rule, Some(selector)) if inside => selector.apply(rule)?,
                (rule, _) => self.change(rule, false)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rules: &[&str]) -> User {
        let mut user = User::new(b"u", false);
        for rule in rules {
            user.apply(rule.as_bytes(), false).expect("a sound rule");
        }
        user
    }

    #[test]
    fn stored_users_read_back_as_written() {
        for rules in [
            &[][..],
            &["on", ">p", ">q", "~a*", "%R~b", "&c", "+@read", "-get"],
            &[
                "nopass",
                "+select|a b",
                "(~\"a\\\"b\" +get)",
                "()",
                "skip-sanitize-payload",
            ],
            &["%RW~*", "~a", "(~a %R~* %W~*)"],
            &["reset", "+@all", "-@feed", "(%W~x allchannels +@all -keys)"],
        ] {
            let user = user(rules);
            let again = User::of_stored(&user.to_stored());
            assert_eq!(again, user, "{rules:?}");
        }
    }

    #[test]
    fn unknown_rules_of_other_builds_give_no_rights() {
        let mut stored = user(&["on", "nopass", "+@all", "~*", "&*"]).to_stored();
        assert!(User::of_stored(&stored).is_unrestricted());
        stored.rules.extend_from_slice(b"-@tomorrow\0");
        let user = User::of_stored(&stored);
        assert!(!user.is_unrestricted() && !user.accepts(b"x"));
    }

    #[test]
    fn definitions_are_those_of_redis() {
        let user = user(&["on", ">p", "~a*", "+get", "+client|id", "(%R~b +set)"]);
        let text = "user u on #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 ~a* resetchannels -@all +get \
                    +client|id (%R~b resetchannels -@all +set)";
        assert_eq!(String::from_utf8_lossy(&user.definition()), text);
        let text = "user default on nopass ~* &* +@all";
        assert_eq!(User::unrestricted().definition(), text.as_bytes());
    }
}
