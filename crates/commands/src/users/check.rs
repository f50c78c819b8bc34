//! Decides whether a user may run a command.

use undercroft_numbers::parse_integer;

use super::selector::{KeyUse, Selector};
use super::user::User;
use crate::table::{Command, Flag, KeyFlag, KeyFlags};

/// The reason why a user may not run a command. Ordered as in Redis: if several selectors deny a
/// command, the greatest reason is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denial {
    /// No selector allows the command.
    Command,
    /// No selector that allows the command allows the key at this index of the arguments.
    Key(usize),
    /// No selector that allows the command and its keys allows the channel at this index.
    Channel(usize),
}

/// Checks whether a user may run a command with these arguments, of which the first is the command's
/// name. Takes O(selectors * arguments * patterns) time.
pub(crate) fn check(user: &User, command: &Command, arguments: &[&[u8]]) -> Result<(), Denial> {
    let mut worst = Denial::Command;
    for selector in user.selectors() {
        match check_selector(selector, command, arguments) {
            Ok(()) => return Ok(()),
            Err(denial) => worst = worst.max(denial),
        }
    }
    Err(worst)
}

/// Returns whether a single selector allows a command with these arguments, and allows every key to
/// be read. SORT needs this, because its options read keys that the arguments do not name.
pub(crate) fn check_reading_any_key(user: &User, command: &Command, arguments: &[&[u8]]) -> bool {
    const READS: KeyUse = KeyUse {
        reads: true,
        writes: false,
    };
    user.selectors().any(|selector| {
        check_selector(selector, command, arguments).is_ok() && selector.allows_any_key(READS)
    })
}

fn check_selector(
    selector: &Selector,
    command: &Command,
    arguments: &[&[u8]],
) -> Result<(), Denial> {
    if !command.flags.has(Flag::NoAuth) && !selector.allows_command(command, arguments) {
        return Err(Denial::Command);
    }
    if !selector.allows_all_keys() {
        let is_denied =
            |(place, needs): &(usize, KeyUse)| !selector.allows_key(arguments[*place], *needs);
        let denied = match malformed_count(command, arguments) {
            Some(place) => keys_after(place, command, arguments)
                .into_iter()
                .find(is_denied),
            None => keys(command, arguments).find(is_denied),
        };
        if let Some((place, _)) = denied {
            return Err(Denial::Key(place));
        }
    }
    if let Some(channels) = command.channels
        && !selector.allows_all_channels()
    {
        for place in channels.places(arguments.len()) {
            if !selector.allows_channel(arguments[place], channels.are_patterns) {
                return Err(Denial::Channel(place));
            }
        }
    }
    Ok(())
}

/// Returns the indexes of the keys, and the rights to them that the command needs.
fn keys<'a>(command: &Command, arguments: &'a [&'a [u8]]) -> impl Iterator<Item = (usize, KeyUse)> {
    // Shard channels determine the cluster node as keys do, but are not keys.
    let keys = command.key_places(arguments);
    let keys = keys.filter(|(_, flags)| !flags.has(KeyFlag::NotKey));
    keys.map(|(place, flags)| (place, use_of(flags)))
}

/// Returns the index of the number of keys, if it is not a number of keys that exist. The command fails in any
/// case, but whether it is denied or malformed depends on the keys that Redis finds nevertheless.
fn malformed_count(command: &Command, arguments: &[&[u8]]) -> Option<usize> {
    let counted = command.keys.iter().find(|spec| spec.counted)?;
    let count = parse_integer(arguments.get(counted.first)?);
    let left = arguments.len() - counted.first - 1;
    let is_valid = count.is_some_and(|count| (1..=left as i64).contains(&count));
    (!is_valid).then_some(counted.first)
}

/// Returns the keys after a malformed number of keys, which Redis parses as C's `atoi` does, and then
/// the key in which a result is stored. Any right to them suffices.
fn keys_after(place: usize, command: &Command, arguments: &[&[u8]]) -> Vec<(usize, KeyUse)> {
    let first = place + 1;
    let left = arguments.len() - first;
    let count = Some(leading_number(arguments[place])).filter(|count| (1..=left).contains(count));
    let Some(count) = count else {
        return Vec::new();
    };
    let target = command.keys.iter().find(|spec| !spec.counted);
    let places = (first..first + count).chain(target.map(|spec| spec.first));
    places.map(|place| (place, KeyUse::default())).collect()
}

/// Returns the number at the start of a text, or 0.
fn leading_number(text: &[u8]) -> usize {
    let blanks = text
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r'));
    let text = &text[blanks.count()..];
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&text[..digits]).ok();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns the rights to a key that a command needs. A command that reveals no part of the value and
/// does not change it needs none, but the key must match a pattern.
fn use_of(flags: KeyFlags) -> KeyUse {
    let changes = [KeyFlag::Insert, KeyFlag::Delete, KeyFlag::Update];
    KeyUse {
        reads: flags.has(KeyFlag::Access),
        writes: changes.into_iter().any(|change| flags.has(change)),
    }
}
