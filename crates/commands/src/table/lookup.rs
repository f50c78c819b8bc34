//! Finds commands by name, in a few nanoseconds.
//!
//! The index is an open-addressing table that is built at compile time. A name is represented by
//! two words, its first and last eight bytes (which can overlap), with the case bit of every byte
//! set. If a name consists of letters, these words and its length identify the command, ignoring
//! case, without a bytewise comparison. Only names with an underscore or a dot need this
//! comparison.

use super::command::Command;
use super::rows::FAMILIES;
use crate::arguments::CommandError;

/// The number of commands, excluding subcommands.
const TOP: usize = count(false);
/// The number of commands and subcommands. All subcommands are numbered after the commands.
pub(crate) const COUNT: usize = count(true);
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 12;
const LONGEST_NAME: usize = 20;
/// Marks a slot that contains no command.
const EMPTY: u16 = u16::MAX;

static COMMANDS: [Command; TOP] = commands();
static SUBCOMMANDS: [Command; COUNT - TOP] = subcommands();
static WORDS: [Words; TOP] = words();
static PLAIN: [bool; TOP] = plain();
static INDEX: [u16; SLOTS] = index();

/// The GET command. Like SET, it has a fast path that skips the lookup.
pub(crate) static GET: &Command = named("get");
pub(crate) static SET: &Command = named("set");
/// EXEC, whose admission depends on the commands in the queue.
pub(crate) static EXEC: &Command = named("exec");
/// DEL, which defers freeing large values.
pub(crate) static DEL: &Command = named("del");

/// The first and the last eight bytes of a name, in lowercase.
type Words = (u64, u64);

/// Returns all commands without their subcommands, ordered by group.
pub const fn all() -> &'static [Command] {
    &COMMANDS
}

/// Returns all commands, each followed by its subcommands.
pub fn with_subcommands() -> impl Iterator<Item = &'static Command> {
    COMMANDS
        .iter()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands))
}

/// Finds a command by name, ignoring case. Subcommands are not found.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let words = fold(name);
    let mut slot = hash(words, name.len());
    loop {
        let position = usize::from(INDEX[slot]);
        let command = COMMANDS.get(position)?;
        if WORDS[position] == words
            && command.name.len() == name.len()
            && (PLAIN[position] || command.name.as_bytes().eq_ignore_ascii_case(name))
        {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Finds a command or subcommand by its full name, such as `client|id`, ignoring case.
pub fn find_full(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|byte| *byte == b'|') {
        None => find(name),
        Some(bar) => subcommand(find(&name[..bar])?, &name[bar + 1..]),
    }
}

/// Returns the command or subcommand that these arguments call, after checking the number of
/// arguments.
///
/// # Errors
/// Returns Redis' error for an unknown command, an unknown subcommand or a wrong number of
/// arguments.
pub fn resolve(arguments: &[&[u8]]) -> Result<&'static Command, CommandError> {
    let command = resolve_name(arguments)?;
    if command.accepts(arguments.len()) {
        Ok(command)
    } else {
        Err(CommandError::wrong_arity(command.name))
    }
}

/// Returns the command or subcommand that these arguments call, without checking the number of
/// arguments. Returns the container if its name is the only argument.
///
/// # Errors
/// Returns Redis' error for an unknown command or an unknown subcommand.
pub fn resolve_name(arguments: &[&[u8]]) -> Result<&'static Command, CommandError> {
    let command = arguments.first().and_then(|name| find(name));
    let command = command.ok_or_else(|| CommandError::unknown_command(arguments))?;
    match arguments.get(1) {
        Some(name) if !command.subcommands.is_empty() => {
            let found = subcommand(command, name);
            found.ok_or_else(|| CommandError::unknown_subcommand(command.name, name))
        }
        _ => Ok(command),
    }
}

/// Finds a subcommand of a container, ignoring case.
fn subcommand(container: &Command, name: &[u8]) -> Option<&'static Command> {
    // A subcommand's full name consists of the container's name, a bar and the short name.
    let own = container.name.len() + 1;
    container.subcommands.iter().find(|command| {
        let own_name = command.name.as_bytes().get(own..);
        own_name.is_some_and(|own_name| own_name.eq_ignore_ascii_case(name))
    })
}

const fn named(name: &str) -> &'static Command {
    &COMMANDS[number_of(name)]
}

/// Returns the number of a command or subcommand, given its full name in lowercase. Meant for use
/// in constants.
pub(crate) const fn number_of(name: &str) -> usize {
    let mut number = 0;
    while number < COUNT {
        let other = if number < TOP {
            COMMANDS[number].name
        } else {
            SUBCOMMANDS[number - TOP].name
        };
        if is_same(other.as_bytes(), name.as_bytes()) {
            return number;
        }
        number += 1;
    }
    panic!("no command of this name");
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

const fn count(with_subcommands: bool) -> usize {
    let (mut total, mut family) = (0, 0);
    while family < FAMILIES.len() {
        total += FAMILIES[family].len();
        let mut index = 0;
        while with_subcommands && index < FAMILIES[family].len() {
            total += FAMILIES[family][index].subcommands.len();
            index += 1;
        }
        family += 1;
    }
    total
}

/// Returns all commands with their numbers and their numbered subcommands.
const fn commands() -> [Command; TOP] {
    let mut all = [FAMILIES[0][0]; TOP];
    let (mut at, mut behind, mut family) = (0, 0, 0);
    while family < FAMILIES.len() {
        let mut index = 0;
        while index < FAMILIES[family].len() {
            let mut command = FAMILIES[family][index];
            let own = SUBCOMMANDS
                .split_at(behind)
                .1
                .split_at(command.subcommands.len())
                .0;
            behind += own.len();
            command.subcommands = own;
            command.number = at as u16;
            all[at] = command;
            at += 1;
            index += 1;
        }
        family += 1;
    }
    all
}

/// Returns all subcommands with their numbers, in the order of their containers.
const fn subcommands() -> [Command; COUNT - TOP] {
    let mut all = [FAMILIES[0][0]; COUNT - TOP];
    let (mut at, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut index = 0;
        while index < FAMILIES[family].len() {
            let own = FAMILIES[family][index].subcommands;
            let mut place = 0;
            while place < own.len() {
                all[at] = own[place];
                all[at].number = (TOP + at) as u16;
                at += 1;
                place += 1;
            }
            index += 1;
        }
        family += 1;
    }
    all
}

const fn words() -> [Words; TOP] {
    let mut words = [(0, 0); TOP];
    let mut at = 0;
    while at < TOP {
        let name = COMMANDS[at].name.as_bytes();
        let mut index = 0;
        while index < name.len() {
            assert!(name[index].is_ascii_lowercase() || matches!(name[index], b'_' | b'.'));
            index += 1;
        }
        words[at] = fold(name);
        at += 1;
    }
    words
}

/// Returns whether each name consists only of letters. Setting a byte's case bit can produce a
/// given letter only from that letter in upper or lower case, so names of letters need no further
/// comparison.
const fn plain() -> [bool; TOP] {
    let mut plain = [true; TOP];
    let mut at = 0;
    while at < TOP {
        let name = COMMANDS[at].name.as_bytes();
        let mut index = 0;
        while index < name.len() {
            plain[at] &= name[index].is_ascii_lowercase();
            index += 1;
        }
        at += 1;
    }
    plain
}

const fn index() -> [u16; SLOTS] {
    // The table must be at most half full. In a fuller table, searches for missing names become
    // slow, and in a full table they never end.
    assert!(COUNT < EMPTY as usize && TOP * 2 <= SLOTS);
    let mut slots = [EMPTY; SLOTS];
    let mut at = 0;
    while at < TOP {
        let name = COMMANDS[at].name.as_bytes();
        assert!(name.len() <= LONGEST_NAME);
        let mut slot = hash(fold(name), name.len());
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = at as u16;
        at += 1;
    }
    slots
}

const fn fold(name: &[u8]) -> Words {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let length = name.len();
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (
            u32::from_le_bytes(*first) as u64,
            u32::from_le_bytes(*last) as u64,
        )
    } else if length > 0 {
        (
            name[0] as u64,
            (name[length / 2] as u64) << 8 | name[length - 1] as u64,
        )
    } else {
        (0, 0)
    };
    (first | CASE, last | CASE)
}

const fn hash(words: Words, length: usize) -> usize {
    let mixed = words.0 ^ words.1.rotate_left(29) ^ length as u64;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOT_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_unknown_names_are_not() {
        for command in all() {
            let upper = command.name.to_ascii_uppercase();
            assert!(
                find(upper.as_bytes()).is_some_and(|found| std::ptr::eq(found, command)),
                "{upper}"
            );
            assert!(
                find(format!("{upper}X").as_bytes()).is_none_or(|other| other.name != command.name)
            );
            assert!(
                find(&command.name.as_bytes()[1..]).is_none_or(|other| other.name != command.name)
            );
        }
        assert!(find(b"").is_none() && find(&[b'x'; 100]).is_none() && find(b"g\x05t").is_none());
        assert!(find(b"bitfield_RO").is_some() && find(b"bitfield\x7fro").is_none());
    }

    #[test]
    fn element_index_points_to_the_field_or_member() {
        let mut elements = 0;
        for command in all().iter().filter(|command| command.element != 0) {
            // Skip the optional arguments, which most calls omit.
            let mut depth = 0;
            let bare = command.syntax.chars().filter(|&c| {
                depth += i32::from(c == '[') - i32::from(c == ']');
                depth == 0 && c != ']'
            });
            let bare: String = bare.collect();
            let word = bare.split_whitespace().nth(command.element - 1);
            assert!(
                matches!(word, Some("field" | "member")),
                "{}: {word:?} of {:?}",
                command.name,
                command.syntax
            );
            elements += 1;
        }
        assert!(elements > 10, "only {elements}");
    }

    #[test]
    fn probes_are_short() {
        let far = all().iter().filter(|command| {
            let slot = INDEX[hash(fold(command.name.as_bytes()), command.name.len())];
            COMMANDS[usize::from(slot)].name != command.name
        });
        let names: Vec<&str> = far.map(|command| command.name).collect();
        assert!(
            names.len() * 16 < COMMANDS.len(),
            "not at their first slot: {names:?}"
        );
        for hot in [
            "get", "set", "mget", "mset", "del", "incr", "expire", "ttl", "exists",
        ] {
            assert!(!names.contains(&hot), "{hot}");
        }
    }

    #[test]
    fn arguments_resolve_to_commands() {
        let name = |words: &str| {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            resolve(&words)
                .map(|command| command.name)
                .map_err(|error| error.text().to_owned())
        };
        assert_eq!(name("GeT k"), Ok("get"));
        assert_eq!(name("client Id"), Ok("client|id"));
        assert_eq!(name("command"), Ok("command"));
        assert_eq!(
            name("get"),
            Err("ERR wrong number of arguments for 'get' command".into())
        );
        assert_eq!(
            name("client"),
            Err("ERR wrong number of arguments for 'client' command".into())
        );
        assert_eq!(
            name("client id x"),
            Err("ERR wrong number of arguments for 'client|id' command".into())
        );
        assert_eq!(
            name("client x"),
            Err("ERR unknown subcommand 'x'. Try CLIENT HELP.".into())
        );
        assert_eq!(
            name("x"),
            Err("ERR unknown command 'x', with args beginning with: ".into())
        );
    }

    #[test]
    fn every_command_is_documented() {
        for command in with_subcommands() {
            for text in [
                command.summary,
                command.complexity,
                command.since,
                command.reply,
            ] {
                assert!(!text.is_empty(), "{}", command.name);
            }
            assert!(command.summary.ends_with('.'), "{}", command.name);
        }
    }
}
