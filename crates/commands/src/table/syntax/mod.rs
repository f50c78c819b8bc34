//! Parses a command's human-readable syntax into the arguments that COMMAND DOCS describes to
//! programs. `handlers` calls this module through [`Command::arguments`].
//!
//! ```text
//! key value [NX | XX] [EX seconds | PX milliseconds]      uppercase words are tokens, others stand for values
//! key [key ...]   GET pattern [GET pattern ...]           one or more
//! source destination LEFT | RIGHT                         without brackets, a bar separates single words
//! <FROMMEMBER member | FROMLONLAT longitude latitude>     one of several alternatives, each of several words
//! [AGGREGATE SUM | MIN | MAX]                             a token before one of several words
//! ```
//!
//! - `argument`: defines command arguments in the form in which COMMAND DOCS describes them.
//! - `words`: supplies details that the syntax omits: Redis' names for groups and tokens, and the
//!   types of words.

mod argument;
mod words;

use super::command::Command;
use super::flags::KeyFlag;
use super::key_spec::KeySpec;
use words::{GROUPS, TOKENS, kind_of};

pub(crate) use argument::{Argument, Kind};

/// An element of a command's syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Word(&'static str),
    /// A bracketed group, and whether it is optional.
    Group(bool, Vec<Piece>),
    Bar,
    Dots,
}

impl Command {
    /// Parses the command's syntax into its arguments, in order.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut words = self.syntax.split(' ').filter(|word| !word.is_empty());
        let mut spaced = Vec::new();
        for word in &mut words {
            cut(word, &mut spaced);
        }
        let pieces = read(&mut spaced.into_iter());
        let mut arguments = SyntaxReader { command: self.name }.sequence(&pieces);
        name_ends(&mut arguments);
        // The name of a subcommand counts as an argument.
        let first = 1 + usize::from(self.name.contains('|'));
        for (index, spec) in self.keys.iter().enumerate() {
            if !spec.flags.has(KeyFlag::NotKey) {
                mark_keys(&mut arguments, spec, index, first);
            }
        }
        arguments
    }
}

/// Splits a word into its brackets and the text between them.
fn cut(word: &'static str, parts: &mut Vec<&'static str>) {
    let is_bracket = |letter: char| matches!(letter, '[' | ']' | '<' | '>');
    let mut rest = word;
    while let Some(at) = rest.find(is_bracket) {
        parts.extend(
            [&rest[..at], &rest[at..=at]]
                .iter()
                .filter(|part| !part.is_empty()),
        );
        rest = &rest[at + 1..];
    }
    parts.extend(Some(rest).filter(|rest| !rest.is_empty()));
}

/// Parses pieces up to the end of the current group.
fn read(parts: &mut impl Iterator<Item = &'static str>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while let Some(part) = parts.next() {
        pieces.push(match part {
            "]" | ">" => break,
            "[" | "<" => Piece::Group(part == "[", read(parts)),
            "|" => Piece::Bar,
            "..." => Piece::Dots,
            word => Piece::Word(word),
        });
    }
    pieces
}

fn is_token(word: &str) -> bool {
    !word.contains(|letter: char| letter.is_ascii_lowercase())
}

/// Returns whether a piece contains only values: either a value word, or a repetition of value
/// words.
fn is_value(piece: &Piece) -> bool {
    match piece {
        Piece::Word(word) => !is_token(word),
        Piece::Group(_, body) => body.last() == Some(&Piece::Dots) && is_value(&body[0]),
        Piece::Bar | Piece::Dots => false,
    }
}

fn plain(name: &str, kind: Kind) -> Argument {
    Argument {
        name: name.to_owned(),
        kind,
        token: None,
        key_spec: None,
        optional: false,
        multiple: false,
        multiple_token: false,
        parts: Vec::new(),
    }
}

fn pure_token(token: &'static str) -> Argument {
    let known = TOKENS.iter().find(|(other, _)| *other == token);
    let name = known.map_or_else(|| token.to_lowercase(), |(_, name)| (*name).to_owned());
    Argument {
        // The syntax represents the empty string as two quotes.
        token: Some(token.trim_matches('"')),
        ..plain(&name, Kind::PureToken)
    }
}

fn group(kind: Kind, parts: Vec<Argument>) -> Argument {
    let names = |between: &str| {
        let names = parts.iter().map(|part| match part.token {
            Some("") => "\"\"",
            Some(token) if between == "|" => token,
            _ => &part.name,
        });
        names.collect::<Vec<&str>>().join(between)
    };
    let sign = names("|");
    let known = GROUPS.iter().find(|(other, _)| *other == sign);
    let name = known.map_or_else(|| names("_"), |(_, name)| (*name).to_owned());
    Argument {
        parts,
        ..plain(&name, kind)
    }
}

/// A parser for the syntax of one command.
struct SyntaxReader {
    command: &'static str,
}

impl SyntaxReader {
    /// Parses pieces into arguments. In such a sequence, bars separate single words.
    fn sequence(&self, pieces: &[Piece]) -> Vec<Argument> {
        let mut arguments: Vec<Argument> = Vec::new();
        let mut rest = pieces;
        while let Some((piece, behind)) = rest.split_first() {
            rest = behind;
            match piece {
                Piece::Word(_) if behind.first() == Some(&Piece::Bar) => {
                    let choices = 1 + behind
                        .chunks(2)
                        .take_while(|pair| pair[0] == Piece::Bar)
                        .count();
                    let words = std::iter::once(piece).chain(behind.iter().skip(1).step_by(2));
                    let parts = words
                        .take(choices)
                        .map(|word| self.one(std::slice::from_ref(word)));
                    arguments.push(group(Kind::OneOf, parts.collect()));
                    rest = behind.get(2 * (choices - 1)..).unwrap_or_default();
                }
                Piece::Word(token) if is_token(token) => {
                    let values = behind.iter().take_while(|piece| is_value(piece)).count();
                    arguments.push(self.behind_token(token, &behind[..values]));
                    rest = &behind[values..];
                }
                Piece::Word(word) => arguments.push(plain(word, kind_of(self.command, word))),
                Piece::Group(_, body)
                    if body.last() == Some(&Piece::Dots) && self.repeat(body, &mut arguments) => {}
                Piece::Group(optional, body) => {
                    let mut argument = self.choice(body);
                    argument.optional = *optional;
                    arguments.push(argument);
                }
                Piece::Bar | Piece::Dots => {}
            }
        }
        arguments
    }

    /// Parses a token and the values that follow it.
    fn behind_token(&self, token: &'static str, values: &[Piece]) -> Argument {
        let mut values = self.sequence(values);
        let mut argument = match values.len() {
            0 => return pure_token(token),
            1 => values.remove(0),
            _ => group(Kind::Block, values),
        };
        argument.token = Some(token);
        argument
    }

    /// Marks the last arguments as repeatable if the group repeats them. Returns whether the group
    /// repeats them.
    fn repeat(&self, body: &[Piece], arguments: &mut Vec<Argument>) -> bool {
        let again = self.sequence(&body[..body.len() - 1]);
        let Some(from) = arguments.len().checked_sub(again.len()) else {
            return false;
        };
        if again.is_empty() || arguments[from..] != again {
            return false;
        }
        let mut last: Vec<Argument> = arguments.drain(from..).collect();
        let mut argument = match last.len() {
            1 => last.remove(0),
            _ => group(Kind::Block, last),
        };
        argument.multiple = true;
        argument.multiple_token = argument.token.is_some();
        arguments.push(argument);
        true
    }

    /// Parses a bracketed group: a choice if the group contains a bar, and a single argument
    /// otherwise.
    fn choice(&self, body: &[Piece]) -> Argument {
        let choices: Vec<&[Piece]> = body.split(|piece| *piece == Piece::Bar).collect();
        let [first, more @ ..] = &choices[..] else {
            return self.one(body);
        };
        if more.is_empty() {
            return self.one(body);
        }
        // If the first alternative starts with two tokens, the first token belongs to the entire
        // choice.
        let (token, first) = match first {
            [Piece::Word(token), rest @ ..]
                if is_token(token) && matches!(rest, [Piece::Word(word), ..] if is_token(word)) =>
            {
                (Some(*token), rest)
            }
            _ => (None, *first),
        };
        let parts = std::iter::once(&first)
            .chain(more)
            .map(|choice| self.one(choice));
        let mut argument = group(Kind::OneOf, parts.collect());
        if let Some(token) = token {
            argument.token = Some(token);
            if argument
                .parts
                .iter()
                .any(|part| part.kind != Kind::PureToken)
            {
                argument.name = token.to_lowercase();
            }
        }
        argument.multiple = body.last() == Some(&Piece::Dots);
        argument
    }

    /// Parses pieces into a single argument.
    fn one(&self, pieces: &[Piece]) -> Argument {
        let mut arguments = self.sequence(pieces);
        if arguments.len() == 1 {
            return arguments.remove(0);
        }
        // If more arguments follow a token with several values, dissolve the block and attach the
        // token to the first value.
        if let Some(first) = arguments
            .first_mut()
            .filter(|first| first.kind == Kind::Block)
        {
            let (token, mut values) = (first.token, std::mem::take(&mut first.parts));
            if let Some(first) = values.first_mut() {
                first.token = token;
            }
            arguments.splice(..1, values);
        }
        group(Kind::Block, arguments)
    }
}

/// Renames two `where` arguments to `wherefrom` and `whereto`, like Redis.
fn name_ends(arguments: &mut [Argument]) {
    let ends = arguments
        .iter_mut()
        .filter(|argument| argument.name == "where");
    if let [from, to] = &mut ends.collect::<Vec<_>>()[..] {
        (from.name, to.name) = ("wherefrom".to_owned(), "whereto".to_owned());
    }
}

/// Marks the arguments that a key specification covers.
fn mark_keys(arguments: &mut [Argument], spec: &KeySpec, index: usize, first: usize) {
    if spec.unknown {
        // Only SORT has keys at unknown positions: its STORE target, or the keys that it reads by
        // patterns.
        let stores = spec.flags.has(KeyFlag::Overwrite);
        for argument in arguments {
            match argument.token {
                Some("STORE") if stores => mark(argument, index),
                Some("BY" | "GET") if !stores => argument.key_spec = Some(index),
                _ => {}
            }
        }
        return;
    }
    if let Some((word, _)) = spec.keyword {
        let found = arguments
            .iter_mut()
            .find(|argument| argument.token == Some(word));
        if let Some(argument) = found {
            match argument.parts.first_mut() {
                Some(first) => mark(first, index),
                None => mark(argument, index),
            }
        }
        return;
    }
    let from = spec.first + usize::from(spec.counted);
    let to = from + usize::try_from(spec.last).unwrap_or(0);
    let mut place = first;
    for argument in arguments {
        mark_places(argument, index, &mut place, from..=to);
    }
}

fn mark(argument: &mut Argument, index: usize) {
    (argument.kind, argument.key_spec) = (Kind::Key, Some(index));
}

/// Marks the argument if its position is among the keys, and advances the position.
fn mark_places(
    argument: &mut Argument,
    index: usize,
    place: &mut usize,
    keys: std::ops::RangeInclusive<usize>,
) {
    match argument.kind {
        Kind::Block => {
            for part in &mut argument.parts {
                mark_places(part, index, place, keys.clone());
            }
        }
        Kind::OneOf => {
            if keys.contains(place)
                && let Some(part) = argument
                    .parts
                    .iter_mut()
                    .find(|part| part.kind != Kind::PureToken && part.token.is_none())
            {
                mark(part, index);
            }
            *place += 1;
        }
        _ => {
            if keys.contains(place) && argument.token.is_none() {
                mark(argument, index);
            }
            *place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{find_full, with_subcommands};

    /// Formats an argument as a line of text.
    fn line(argument: &Argument) -> String {
        let parts: Vec<String> = argument.parts.iter().map(line).collect();
        let mut text = match argument.kind {
            Kind::PureToken => argument.name.clone(),
            Kind::OneOf | Kind::Block => format!("{}({})", argument.name, parts.join(" ")),
            kind => format!("{}:{}", argument.name, kind.name()),
        };
        if let Some(token) = argument.token {
            text = format!("{token}={text}");
        }
        if let Some(index) = argument.key_spec {
            text.push_str(&format!("@{index}"));
        }
        for (is, sign) in [
            (argument.optional, '?'),
            (argument.multiple, '+'),
            (argument.multiple_token, '*'),
        ] {
            text.extend(is.then_some(sign));
        }
        text
    }

    fn lines(name: &str) -> String {
        let command = find_full(name.as_bytes()).expect("a command");
        let lines: Vec<String> = command.arguments().iter().map(line).collect();
        lines.join(" ")
    }

    #[test]
    fn syntax_parses_into_arguments() {
        for (name, expected) in [
            ("ping", "message:string?"),
            ("mset", "key_value(key:key@0 value:string)+"),
            (
                "lmove",
                "source:key@0 destination:key@1 wherefrom(LEFT=left RIGHT=right) whereto(LEFT=left RIGHT=right)",
            ),
            (
                "zinterstore",
                "destination:key@0 numkeys:integer key:key@1+ WEIGHTS=weight:integer?+ \
                 AGGREGATE=aggregate(SUM=sum MIN=min MAX=max)?",
            ),
            (
                "bitfield_ro",
                "key:key@0 GET=encoding_offset(encoding:string offset:integer)?+*",
            ),
            ("memory|usage", "key:key@0 SAMPLES=count:integer?"),
            ("spublish", "shardchannel:string message:string"),
        ] {
            assert_eq!(lines(name), expected, "{name}");
        }
    }

    #[test]
    fn all_arguments_have_names_and_all_keys_are_marked() {
        fn check(name: &str, argument: &Argument, keys: &mut Vec<usize>) {
            assert!(!argument.name.is_empty(), "{name}: {argument:?}");
            let is_group = matches!(argument.kind, Kind::OneOf | Kind::Block);
            assert_eq!(is_group, argument.parts.len() > 1, "{name}: {argument:?}");
            keys.extend(argument.key_spec);
            argument
                .parts
                .iter()
                .for_each(|part| check(name, part, keys));
        }
        for command in with_subcommands().filter(|command| command.is_callable()) {
            let mut keys = Vec::new();
            for argument in command.arguments() {
                check(command.name, &argument, &mut keys);
            }
            let specs = command.keys.iter().enumerate();
            for (index, _) in specs.filter(|(_, spec)| !spec.flags.has(KeyFlag::NotKey)) {
                assert!(
                    keys.contains(&index),
                    "{}: no argument for key {index}",
                    command.name
                );
            }
        }
    }
}
