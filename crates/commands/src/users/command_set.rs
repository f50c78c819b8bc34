//! Defines a set of commands, and the commands that rules can name.

use crate::arguments::is_keyword;
use crate::table::{COUNT, Categories, Category, Command, find_full, with_subcommands};

/// The commands of Redis 7.0 that Undercroft does not have. Rules can name them, so that the rules of
/// a Redis server can be used without changes, and are described as Redis describes them.
const FOREIGN: [(&str, Categories); 2] = [
    (
        "failover",
        Categories::of(&[Category::Admin, Category::Slow, Category::Dangerous]),
    ),
    (
        "restore-asking",
        Categories::of(&[
            Category::Keyspace,
            Category::Write,
            Category::Slow,
            Category::Dangerous,
        ]),
    ),
];

const WORDS: usize = (COUNT + FOREIGN.len()).div_ceil(64);

/// A set of commands and subcommands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandSet([u64; WORDS]);

impl CommandSet {
    /// The set of all commands.
    pub(super) const ALL: CommandSet = CommandSet([u64::MAX; WORDS]);

    pub(super) const fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    fn set(&mut self, number: usize, is_in: bool) {
        let bit = 1 << (number % 64);
        match is_in {
            true => self.0[number / 64] |= bit,
            false => self.0[number / 64] &= !bit,
        }
    }

    /// Adds or removes a command and, if it is a container, all its subcommands.
    pub(super) fn change(&mut self, command: NamedCommand, is_in: bool) {
        self.set(command.number, is_in);
        for number in command.subcommands() {
            self.set(number, is_in);
        }
    }

    /// Adds or removes all commands of a category. Returns the commands that changed.
    pub(super) fn change_category(&mut self, category: Category, is_in: bool) -> Vec<NamedCommand> {
        let members = named_commands().filter(|command| command.categories.has(category));
        let members: Vec<NamedCommand> = members.collect();
        for command in &members {
            self.change(*command, is_in);
        }
        members
    }
}

/// A command or subcommand that a rule can name.
#[derive(Clone, Copy)]
pub(super) struct NamedCommand {
    /// The full name in lowercase, such as `client|id`.
    pub(super) name: &'static str,
    /// The number of the command in a [`CommandSet`].
    pub(super) number: usize,
    pub(super) categories: Categories,
    /// The row of the table, or `None` if only Redis has the command.
    row: Option<&'static Command>,
}

impl NamedCommand {
    fn of(row: &'static Command) -> NamedCommand {
        NamedCommand {
            name: row.name,
            number: usize::from(row.number),
            categories: row.categories,
            row: Some(row),
        }
    }

    /// Returns whether the command is a subcommand.
    pub(super) fn is_subcommand(&self) -> bool {
        self.name.contains('|')
    }

    /// Returns whether the command is a container of subcommands.
    pub(super) fn is_container(&self) -> bool {
        self.row.is_some_and(|row| !row.subcommands.is_empty())
    }

    /// Returns whether Redis 7.0 has the command.
    pub(super) fn is_in_redis(&self) -> bool {
        self.row.is_none_or(Command::is_in_redis_7_0)
    }

    fn subcommands(self) -> impl Iterator<Item = usize> {
        let rows = self.row.map_or(&[][..], |row| row.subcommands);
        let is_own = move |foreign: &NamedCommand| {
            let container = foreign.name.split_once('|').map(|(container, _)| container);
            container == Some(self.name)
        };
        let own = rows.iter().map(|row| usize::from(row.number));
        own.chain(foreign().filter(is_own).map(|foreign| foreign.number))
    }
}

fn foreign() -> impl Iterator<Item = NamedCommand> {
    (COUNT..)
        .zip(FOREIGN)
        .map(|(number, (name, categories))| NamedCommand {
            name,
            number,
            categories,
            row: None,
        })
}

/// Returns all commands that rules can name. A container precedes its subcommands.
pub(super) fn named_commands() -> impl Iterator<Item = NamedCommand> {
    with_subcommands().map(NamedCommand::of).chain(foreign())
}

/// Finds a command by its full name, ignoring case.
pub(super) fn find_named(name: &[u8]) -> Option<NamedCommand> {
    let found = find_full(name).map(NamedCommand::of);
    found.or_else(|| foreign().find(|foreign| is_keyword(name, foreign.name)))
}

/// Finds a category by its name, ignoring case.
pub(super) fn find_category(name: &[u8]) -> Option<Category> {
    let mut all = Category::ALL.iter().copied();
    all.find(|category| is_keyword(name, category.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_commands_are_not_in_the_table() {
        for (name, _) in FOREIGN {
            assert!(find_full(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn container_changes_all_its_subcommands() {
        let mut set = CommandSet::default();
        let client = find_named(b"CLIENT").expect("a command");
        set.change(client, true);
        for name in ["client", "client|id", "client|tracking"] {
            let command = find_named(name.as_bytes()).expect("a command");
            assert!(set.has(command.number), "{name}");
        }
        let other = find_named(b"config|get").expect("a command");
        assert!(!set.has(other.number));
        set.change(client, false);
        assert_eq!(set, CommandSet::default());
    }
}
