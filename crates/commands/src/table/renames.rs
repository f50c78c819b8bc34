//! The names under which a server's clients call commands, if `rename-command` has changed them.
//!
//! Commands are translated to their true names where they arrive. So rights, transactions,
//! replication and everything else that follows know only the true names.

use std::borrow::Cow;

use super::command::Command;
use super::lookup::find;

/// The commands that have another name or none, as in Redis 7.0.
#[derive(Clone, Debug, Default)]
pub struct Renames {
    /// The true names that clients cannot use.
    hidden: Vec<&'static str>,
    /// The new names, in lowercase, and the commands that they call.
    names: Vec<(Vec<u8>, &'static Command)>,
}

impl Renames {
    /// Gives a command a new name, or none if `new` is empty. As in Redis, `name` is the name that
    /// earlier calls have left the command with.
    ///
    /// # Errors
    /// Returns an error if there is no command of this name, or if another command has the new name.
    pub fn add(&mut self, name: &[u8], new: &[u8]) -> Result<(), String> {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let command = self.true_name(name).and_then(find).ok_or_else(|| {
            format!(
                "there is no command '{}'; subcommands cannot be renamed",
                shown(name)
            )
        })?;
        self.names
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            self.hidden.push(command.name);
        }
        if new.is_empty() {
            return Ok(());
        }
        match self.true_name(new).map(find) {
            Some(Some(_)) => Err(format!(
                "'{}' is the name of another command; choose another name",
                shown(new)
            )),
            _ if command.name.as_bytes().eq_ignore_ascii_case(new) => {
                self.hidden.retain(|hidden| *hidden != command.name);
                Ok(())
            }
            _ => {
                self.names.push((new.to_ascii_lowercase(), command));
                Ok(())
            }
        }
    }

    /// Returns whether every command has its true name.
    pub fn is_empty(&self) -> bool {
        self.hidden.is_empty()
    }

    /// Returns the true name of the command that clients call by `name`, or `None` if `name` is a true
    /// name that they cannot use. A name of no command stays as it is. O(renamed commands).
    pub fn true_name<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let named = |(new, _): &&(Vec<u8>, _)| new.eq_ignore_ascii_case(name);
        if let Some((_, command)) = self.names.iter().find(named) {
            return Some(command.name.as_bytes());
        }
        let is_hidden = |hidden: &&str| hidden.as_bytes().eq_ignore_ascii_case(name);
        (!self.hidden.iter().any(is_hidden)).then_some(name)
    }

    /// Returns the words of a call with the true name of the command, or `None` if clients cannot call
    /// the command by this name.
    pub fn true_words<'w, 'a>(&self, words: &'w [&'a [u8]]) -> Option<Cow<'w, [&'a [u8]]>> {
        let Some(name) = words.first() else {
            return Some(Cow::Borrowed(words));
        };
        let true_name = self.true_name(name)?;
        if std::ptr::eq(true_name, *name) {
            return Some(Cow::Borrowed(words));
        }
        let mut words = words.to_vec();
        words[0] = true_name;
        Some(Cow::Owned(words))
    }

    /// Returns the full true name of a command or subcommand, such as `config|get`.
    pub fn true_full_name<'n>(&self, name: &'n [u8]) -> Option<Cow<'n, [u8]>> {
        let Some(bar) = name.iter().position(|byte| *byte == b'|') else {
            return self.true_name(name).map(Cow::Borrowed);
        };
        let container = self.true_name(&name[..bar])?;
        Some(Cow::Owned([container, &name[bar..]].concat()))
    }

    /// Returns whether clients cannot call a command by any name.
    pub fn removes(&self, command: &Command) -> bool {
        let container = command.name.split('|').next().unwrap_or_default();
        let is_named = |(_, named): &(_, &Command)| named.name == container;
        self.hidden.contains(&container) && !self.names.iter().any(is_named)
    }

    /// Returns whether GET and SET have their true names.
    pub(crate) fn keeps_get_and_set(&self) -> bool {
        !["get", "set"].iter().any(|name| self.hidden.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_each_change() {
        let mut renames = Renames::default();
        assert!(renames.is_empty());
        for (name, new, works) in [
            ("nosuch", "x", false),
            ("config|get", "x", false),
            ("flushall", "", true),
            ("FLUSHALL", "x", false),
            ("Get", "Fetch", true),
            ("get", "x", false),
            ("fetch", "take", true),
            ("set", "FLUSHALL", true),
            ("incr", "INCR", true),
        ] {
            let added = renames.add(name.as_bytes(), new.as_bytes());
            assert_eq!(added.is_ok(), works, "{name} {new}: {added:?}");
        }
        let name = |name: &'static str| {
            let found = renames.true_name(name.as_bytes());
            found.map(|name| String::from_utf8_lossy(name).into_owned())
        };
        assert_eq!(name("TAKE"), Some("get".to_owned()));
        assert_eq!(name("fetch"), Some("fetch".to_owned()), "no longer a name");
        assert_eq!(name("flushall"), Some("set".to_owned()));
        assert_eq!((name("Get"), name("set")), (None, None));
        assert_eq!(name("incr"), Some("incr".to_owned()));
        assert!(!renames.keeps_get_and_set());
        let words = renames.true_words(&[b"take", b"k"]);
        assert_eq!(words.as_deref(), Some(&[&b"get"[..], b"k"][..]));
        assert!(renames.true_words(&[b"get", b"k"]).is_none());
        let removed =
            |name: &str| find(name.as_bytes()).is_some_and(|found| renames.removes(found));
        assert!(removed("flushall") && !removed("get") && !removed("incr"));
        let taken = Renames::default().add(b"incr", b"decr");
        assert!(taken.is_err_and(|error| error.contains("another command")));
    }
}
