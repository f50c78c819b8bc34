//! The part of a source that a store follows: one database, or the keys with a prefix.

use undercroft_commands::table::{KeyFlag, resolve};
use undercroft_engine::DATABASES;

/// The byte for all databases in a recorded filter.
const ALL: u8 = u8::MAX;

/// The keys of a source that a store follows. The default is all keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFilter {
    /// The only database whose keys are followed, or `None` for all.
    pub database: Option<usize>,
    /// The prefix of the keys that are followed. All keys have the empty prefix.
    pub prefix: Vec<u8>,
}

/// How a change of the source applies to the part of the keys that a store has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// As it is.
    Whole,
    /// Not at all.
    Nothing,
    /// As this command.
    Part(Vec<Vec<u8>>),
    /// With this effect, after these keys have been removed, whose values are those of another master.
    Anew(Vec<Vec<u8>>, Box<Effect>),
    /// It needs keys that the store does not have, so the data set must be loaded again.
    Unknown,
}

impl KeyFilter {
    /// Returns whether all keys are followed.
    pub fn is_all(&self) -> bool {
        self.database.is_none() && self.prefix.is_empty()
    }

    /// Returns whether a database is followed.
    pub fn has_database(&self, database: usize) -> bool {
        self.database.is_none_or(|only| only == database)
    }

    /// Returns whether a key is followed.
    pub fn has(&self, database: usize, key: &[u8]) -> bool {
        self.has_database(database) && key.starts_with(&self.prefix)
    }

    /// Returns the record of the filter, which is empty if all keys are followed.
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.is_all() {
            return Vec::new();
        }
        let mut bytes = vec![self.database.map_or(ALL, |database| database as u8)];
        bytes.extend_from_slice(&self.prefix);
        bytes
    }

    /// Returns the filter with this record.
    pub fn of_bytes(bytes: &[u8]) -> KeyFilter {
        let Some((&database, prefix)) = bytes.split_first() else {
            return KeyFilter::default();
        };
        KeyFilter {
            database: (database != ALL).then_some(usize::from(database)),
            prefix: prefix.to_vec(),
        }
    }

    /// Returns how a command applies that the source runs with a selected database. `has` returns
    /// whether the store has a key of a database.
    pub(super) fn effect(
        &self,
        selected: usize,
        words: &[&[u8]],
        has: &dyn Fn(usize, &[u8]) -> bool,
    ) -> Effect {
        let name = words[0].to_ascii_uppercase();
        // A database that does not exist is an error of the command itself.
        let number = |word: Option<&&[u8]>| {
            let text = std::str::from_utf8(word?).ok()?;
            text.parse()
                .ok()
                .filter(|&number: &usize| number < DATABASES)
        };
        match (&name[..], self.database) {
            (b"SELECT" | b"FLUSHALL", _) => return Effect::Whole,
            (b"FLUSHDB", _) => return self.whole_if(self.has_database(selected)),
            (b"SWAPDB", Some(only)) => {
                let (one, other) = (number(words.get(1)), number(words.get(2)));
                return match one != other && (one == Some(only) || other == Some(only)) {
                    true => Effect::Unknown,
                    false => Effect::Nothing,
                };
            }
            (b"MOVE", Some(_)) if words.len() == 3 => {
                let to = number(words.get(2)).unwrap_or(selected);
                return match (has(selected, words[1]), has(to, words[1])) {
                    (true, true) => Effect::Whole,
                    (true, false) => part(&[b"DEL", words[1]]),
                    (false, true) => Effect::Unknown,
                    (false, false) => Effect::Nothing,
                };
            }
            (b"COPY", _) if words.len() > 3 => {
                let is_database = |word: &&[u8]| word.eq_ignore_ascii_case(b"DB");
                let place = words[3..].iter().position(is_database);
                let to = place.and_then(|place| number(words.get(3 + place + 1)));
                let to = to.unwrap_or(selected);
                return match (has(selected, words[1]), has(to, words[2])) {
                    (true, true) => Effect::Whole,
                    (_, false) => Effect::Nothing,
                    (false, true) => Effect::Unknown,
                };
            }
            _ => {}
        }
        effect_on_keys(&name, words, &|key| has(selected, key))
    }

    fn whole_if(&self, applies: bool) -> Effect {
        match applies {
            true => Effect::Whole,
            false => Effect::Nothing,
        }
    }
}

/// Returns the keys of a command, and whether the command writes each of them.
pub(super) fn keys_of<'w>(words: &'w [&'w [u8]]) -> Vec<(&'w [u8], bool)> {
    let Ok(command) = resolve(words) else {
        return Vec::new();
    };
    let mut keys: Vec<(&[u8], bool)> = command
        .keys_of(words)
        .filter(|(_, flags)| !flags.has(KeyFlag::NotKey))
        .map(|(key, flags)| (key, !flags.has(KeyFlag::ReadOnly)))
        .collect();
    if words[0].eq_ignore_ascii_case(b"SORT") {
        let is_store = |word: &[u8]| word.eq_ignore_ascii_case(b"STORE");
        let place = words.iter().rposition(|word| is_store(word));
        let target = place.and_then(|place| words.get(place + 1));
        keys.extend(target.map(|key| (*key, true)));
    }
    keys
}

fn effect_on_keys(name: &[u8], words: &[&[u8]], has: &dyn Fn(&[u8]) -> bool) -> Effect {
    let keys = keys_of(words);
    if keys.is_empty() {
        return Effect::Whole;
    }
    let followed = keys.iter().filter(|(key, _)| has(key)).count();
    if followed == keys.len() {
        return Effect::Whole;
    }
    if !keys.iter().any(|(key, is_written)| *is_written && has(key)) {
        return Effect::Nothing;
    }
    // Some keys are followed and some are not.
    let source_is_followed = has(keys[0].0);
    match (name, words) {
        (b"DEL" | b"UNLINK", _) => {
            let mut kept = vec![words[0].to_vec()];
            kept.extend(
                words[1..]
                    .iter()
                    .filter(|key| has(key))
                    .map(|key| key.to_vec()),
            );
            Effect::Part(kept)
        }
        // MSETNX is replicated only if it has set all keys.
        (b"MSET" | b"MSETNX", _) => {
            let mut kept = vec![b"MSET".to_vec()];
            for pair in words[1..].chunks(2).filter(|pair| has(pair[0])) {
                kept.extend(pair.iter().map(|word| word.to_vec()));
            }
            Effect::Part(kept)
        }
        (b"RENAME" | b"RENAMENX", [_, from, _]) if source_is_followed => part(&[b"DEL", from]),
        (b"SMOVE", [_, from, _, member]) if source_is_followed => part(&[b"SREM", from, member]),
        (b"SMOVE", [_, _, to, member]) => part(&[b"SADD", to, member]),
        (b"RPOPLPUSH", [_, from, _]) if source_is_followed => part(&[b"RPOP", from]),
        (b"LMOVE", [_, from, _, end, _]) if source_is_followed => {
            match end.eq_ignore_ascii_case(b"LEFT") {
                true => part(&[b"LPOP", from]),
                false => part(&[b"RPOP", from]),
            }
        }
        _ => Effect::Unknown,
    }
}

fn part(words: &[&[u8]]) -> Effect {
    Effect::Part(words.iter().map(|word| word.to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the effect of a line on a filter: `whole`, `nothing`, `unknown` or another line.
    fn effect(filter: &KeyFilter, selected: usize, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let has = |database, key: &[u8]| filter.has(database, key);
        match filter.effect(selected, &words, &has) {
            Effect::Whole => "whole".into(),
            Effect::Nothing => "nothing".into(),
            Effect::Unknown => "unknown".into(),
            Effect::Anew(..) => "anew".into(),
            Effect::Part(words) => String::from_utf8_lossy(&words.join(&b' ')).into_owned(),
        }
    }

    #[test]
    fn changes_of_one_database_are_found() {
        let filter = KeyFilter {
            database: Some(3),
            ..KeyFilter::default()
        };
        for (selected, line, expected) in [
            (3, "SET k v", "whole"),
            (0, "SET k v", "nothing"),
            (0, "SELECT 3", "whole"),
            (0, "FLUSHALL", "whole"),
            (0, "FLUSHDB", "nothing"),
            (3, "FLUSHDB ASYNC", "whole"),
            (0, "SWAPDB 0 1", "nothing"),
            (0, "SWAPDB 3 3", "nothing"),
            (0, "SWAPDB 3 1", "unknown"),
            (0, "swapdb 1 3", "unknown"),
            (3, "MOVE k 1", "DEL k"),
            (0, "MOVE k 3", "unknown"),
            (0, "MOVE k 1", "nothing"),
            (3, "COPY k l DB 1", "nothing"),
            (3, "COPY k l", "whole"),
            (3, "COPY k l REPLACE", "whole"),
            (0, "COPY k l REPLACE DB 3", "unknown"),
            (0, "COPY k l DB 1", "nothing"),
            (0, "PUBLISH c m", "whole"),
            (0, "XGROUP CREATE k g 0", "nothing"),
        ] {
            assert_eq!(
                effect(&filter, selected, line),
                expected,
                "{selected} {line}"
            );
        }
    }

    #[test]
    fn changes_of_keys_with_a_prefix_are_found() {
        let filter = KeyFilter {
            database: None,
            prefix: b"a:".to_vec(),
        };
        for (line, expected) in [
            ("SET a:k v", "whole"),
            ("SET k v", "nothing"),
            ("SET a v", "nothing"),
            ("SWAPDB 0 1", "whole"),
            ("FLUSHDB", "whole"),
            ("DEL b a:1 c a:2", "DEL a:1 a:2"),
            ("UNLINK b c", "nothing"),
            ("MSET b 1 a:1 2 c 3", "MSET a:1 2"),
            ("MSETNX b 1 a:1 2", "MSET a:1 2"),
            ("RENAME a:k b", "DEL a:k"),
            ("RENAME b a:k", "unknown"),
            ("RENAME b c", "nothing"),
            ("SMOVE a:k b m", "SREM a:k m"),
            ("SMOVE b a:k m", "SADD a:k m"),
            ("RPOPLPUSH a:k b", "RPOP a:k"),
            ("LMOVE a:k b LEFT RIGHT", "LPOP a:k"),
            ("LMOVE a:k b RIGHT RIGHT", "RPOP a:k"),
            ("LMOVE b a:k LEFT RIGHT", "unknown"),
            ("SUNIONSTORE b a:k a:l", "nothing"),
            ("SUNIONSTORE a:b a:k l", "unknown"),
            ("SUNIONSTORE a:b a:k a:l", "whole"),
            ("ZUNIONSTORE a:b 2 a:k l", "unknown"),
            ("COPY b a:k", "unknown"),
            ("COPY a:k b", "nothing"),
            ("COPY a:k a:l", "whole"),
            ("SORT a:k STORE b", "nothing"),
            ("SORT b STORE a:k", "unknown"),
            ("XGROUP CREATE k g 0", "nothing"),
            ("XGROUP CREATE a:k g 0", "whole"),
            ("BITOP AND a:d a:k b", "unknown"),
            ("NOSUCH k", "whole"),
        ] {
            assert_eq!(effect(&filter, 0, line), expected, "{line}");
        }
    }

    #[test]
    fn filter_is_recorded() {
        for (database, prefix) in [(None, ""), (None, "p"), (Some(0), ""), (Some(15), "x:")] {
            let prefix = prefix.as_bytes().to_vec();
            let filter = KeyFilter { database, prefix };
            assert_eq!(KeyFilter::of_bytes(&filter.to_bytes()), filter);
            assert_eq!(filter.to_bytes().is_empty(), filter.is_all());
        }
    }
}
