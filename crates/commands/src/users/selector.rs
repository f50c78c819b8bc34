//! Defines the commands, keys and channels that a selector allows.

use std::collections::BTreeMap;

use undercroft_engine::glob::{Case, matches};

use super::command_set::{CommandSet, find_category, find_named};
use super::rule::{RuleError, c_text, is_word};
use crate::arguments::is_keyword;
use crate::table::Command;

/// A set of rights: commands, and the keys and channels that these commands may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Whether all commands were allowed at once, so that commands of later versions are allowed too.
    pub(super) allows_future: bool,
    /// Whether no command is excluded, so that `commands` need not be checked.
    all_commands: bool,
    pub(super) commands: CommandSet,
    /// For the numbers of commands that are not in `commands`, the first arguments with which they
    /// are allowed nevertheless.
    pub(super) first_arguments: BTreeMap<usize, Vec<Vec<u8>>>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

/// The purpose of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Shown by ACL LIST and written by ACL SAVE.
    List,
    /// Kept in the store.
    Stored,
}

/// A pattern of keys, and the ways in which matching keys may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    needs: KeyUse,
}

/// How keys are used or may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyUse {
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl KeyUse {
    const BOTH: KeyUse = KeyUse {
        reads: true,
        writes: true,
    };

    fn includes(self, other: KeyUse) -> bool {
        (self.reads || !other.reads) && (self.writes || !other.writes)
    }
}

impl KeyPattern {
    fn rule(&self) -> Vec<u8> {
        let prefix: &[u8] = match self.needs {
            KeyUse::BOTH => b"~",
            KeyUse { reads: true, .. } => b"%R~",
            _ => b"%W~",
        };
        [prefix, &self.pattern].concat()
    }
}

impl Selector {
    /// Returns a selector that allows no commands and no keys, and either all channels or none
    /// (`acl-pubsub-default`).
    pub(crate) fn new(all_channels: bool) -> Selector {
        Selector {
            allows_future: false,
            all_commands: false,
            commands: CommandSet::default(),
            first_arguments: BTreeMap::new(),
            all_keys: false,
            keys: Vec::new(),
            all_channels,
            channels: Vec::new(),
        }
    }

    /// Returns whether the selector allows everything.
    pub(super) fn allows_all(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    pub(super) fn allows_all_channels(&self) -> bool {
        self.all_channels
    }

    pub(super) fn allows_all_keys(&self) -> bool {
        self.all_keys
    }

    /// Applies a rule.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let text = c_text(rule);
        let is = |word: &str| is_keyword(text, word);
        match text {
            _ if is("allkeys") || is("~*") => {
                self.all_keys = true;
                self.keys.clear();
            }
            _ if is("resetkeys") => {
                self.all_keys = false;
                self.keys.clear();
            }
            _ if is("allchannels") || is("&*") => {
                self.all_channels = true;
                self.channels.clear();
            }
            _ if is("resetchannels") => {
                self.all_channels = false;
                self.channels.clear();
            }
            _ if is("allcommands") || is("+@all") => self.set_all_commands(true),
            _ if is("nocommands") || is("-@all") => self.set_all_commands(false),
            [b'~' | b'%', ..] => self.add_keys(rule)?,
            [b'&', ..] => self.add_channels(&rule[1..])?,
            [sign @ (b'+' | b'-'), b'@', name @ ..] => self.change_category(name, *sign == b'+')?,
            [b'+', name @ ..] => self.allow_command(name)?,
            [b'-', name @ ..] => self.change_command(name, false)?,
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_all_commands(&mut self, allowed: bool) {
        self.allows_future = allowed;
        self.all_commands = allowed;
        self.commands = match allowed {
            true => CommandSet::ALL,
            false => CommandSet::default(),
        };
        self.first_arguments.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeysAreUnlimited);
        }
        let (needs, pattern) = match rule.split_first() {
            Some((b'~', pattern)) => (KeyUse::BOTH, pattern),
            _ => parse_use(&rule[1..])?,
        };
        if !is_word(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.needs.reads |= needs.reads;
                known.needs.writes |= needs.writes;
            }
            None => self.keys.push(KeyPattern {
                pattern: pattern.to_vec(),
                needs,
            }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelsAreUnlimited);
        }
        if !is_word(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn change_category(&mut self, name: &[u8], allowed: bool) -> Result<(), RuleError> {
        let category = find_category(name).ok_or(RuleError::UnknownCommand)?;
        let changed = self.commands.change_category(category, allowed);
        for command in changed {
            self.first_arguments.remove(&command.number);
            self.all_commands &= allowed;
        }
        Ok(())
    }

    fn change_command(&mut self, name: &[u8], allowed: bool) -> Result<(), RuleError> {
        let command = find_named(name).ok_or(RuleError::UnknownCommand)?;
        self.commands.change(command, allowed);
        self.first_arguments.remove(&command.number);
        self.all_commands &= allowed;
        Ok(())
    }

    /// Allows a command, a subcommand, or a command with one first argument.
    fn allow_command(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            return self.change_command(name, true);
        };
        let (container, argument) = (&name[..bar], &name[bar + 1..]);
        let command = find_named(container).ok_or(RuleError::UnknownCommand)?;
        if command.is_subcommand() {
            return Err(RuleError::FirstArgumentOfSubcommand);
        }
        if argument.is_empty() {
            return Err(RuleError::Syntax);
        }
        if command.is_container() {
            return self.change_command(name, true);
        }
        let known = self.first_arguments.entry(command.number).or_default();
        if !known
            .iter()
            .any(|known| known.eq_ignore_ascii_case(argument))
        {
            known.push(argument.to_vec());
        }
        Ok(())
    }

    /// Returns whether the selector allows a command with these arguments, regardless of keys and
    /// channels.
    pub(super) fn allows_command(&self, command: &Command, arguments: &[&[u8]]) -> bool {
        let number = usize::from(command.number);
        if self.all_commands || self.commands.has(number) {
            return true;
        }
        let (Some(allowed), Some(first)) = (self.first_arguments.get(&number), arguments.get(1))
        else {
            return false;
        };
        let first = c_text(first);
        allowed
            .iter()
            .any(|known| known.eq_ignore_ascii_case(first))
    }

    /// Returns whether the selector allows a key to be used in this way.
    pub(super) fn allows_key(&self, key: &[u8], needs: KeyUse) -> bool {
        self.all_keys
            || self
                .keys
                .iter()
                .any(|known| known.needs.includes(needs) && is_match(&known.pattern, key))
    }

    /// Returns whether the selector allows every key to be used in this way.
    pub(super) fn allows_any_key(&self, needs: KeyUse) -> bool {
        self.all_keys
            || self
                .keys
                .iter()
                .any(|known| known.needs.includes(needs) && known.pattern == b"*")
    }

    /// Returns whether the selector allows a channel. Patterns to subscribe to must equal one of the
    /// allowed patterns.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let fits = |known: &Vec<u8>| match is_pattern {
            true => known == c_text(channel),
            false => is_match(known, channel),
        };
        self.all_channels || self.channels.iter().any(fits)
    }

    /// Returns the rules that describe the allowed keys, in the format of ACL GETUSER.
    pub(crate) fn key_rules(&self) -> Vec<Vec<u8>> {
        match self.all_keys {
            true => vec![b"~*".to_vec()],
            false => self.keys.iter().map(KeyPattern::rule).collect(),
        }
    }

    /// Returns the rules that describe the allowed channels, in the format of ACL GETUSER.
    pub(crate) fn channel_rules(&self) -> Vec<Vec<u8>> {
        match self.all_channels {
            true => vec![b"&*".to_vec()],
            false => {
                let rule = |pattern: &Vec<u8>| [b"&", &pattern[..]].concat();
                self.channels.iter().map(rule).collect()
            }
        }
    }

    /// Returns rules that make a new selector equal to this one. The rules of `Format::List` have a
    /// flaw of Redis: the pattern `*` and the flag `allkeys` look the same there.
    pub(super) fn rules(&self, format: Format) -> Vec<Vec<u8>> {
        let mut rules = self.key_rules();
        if format == Format::Stored && !self.all_keys {
            for rule in rules.iter_mut().filter(|rule| *rule == b"~*") {
                *rule = b"%RW~*".to_vec();
            }
        }
        if !self.all_channels {
            rules.push(b"resetchannels".to_vec());
        }
        rules.extend(self.channel_rules());
        rules.extend(self.command_rules());
        rules
    }
}

/// Parses the permissions between `%` and `~`, and the pattern after them.
fn parse_use(text: &[u8]) -> Result<(KeyUse, &[u8]), RuleError> {
    let mut needs = KeyUse::default();
    let mut rest = text;
    while let Some((letter, behind)) = rest.split_first() {
        rest = behind;
        match letter.to_ascii_uppercase() {
            b'R' if !needs.reads => needs.reads = true,
            b'W' if !needs.writes => needs.writes = true,
            b'~' if needs != KeyUse::default() => break,
            _ => return Err(RuleError::Syntax),
        }
    }
    if needs == KeyUse::default() {
        return Err(RuleError::Syntax);
    }
    Ok((needs, rest))
}

/// Returns whether a pattern matches. A pattern that takes too long to match allows nothing.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    matches(pattern, name, Case::Sensitive).unwrap_or(false)
}
