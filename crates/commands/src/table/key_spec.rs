//! Where the keys of a command stand among its arguments, and how it uses them.

use undercroft_numbers::parse_integer;

use super::flags::{KeyFlag, KeyFlags};

/// Where a command's keys are: from argument `first` on, every `step`th, up to `last`; or behind their number; or where
/// no rule says, and the command itself must be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Index of the first key; the command's name has index 0.
    pub first: usize,
    /// The word behind which the keys stand, and where the search for it begins: from the end backwards where negative.
    pub keyword: Option<(&'static str, i32)>,
    /// The last key's index relative to the first, or, where negative, to the number of arguments (-1: the last).
    pub last: i32,
    /// Distance from one key to the next.
    pub step: usize,
    /// Whether argument `first` is the number of the keys that follow it.
    pub counted: bool,
    /// Whether only the first half of these arguments are keys.
    pub half: bool,
    /// Whether no rule tells the places.
    pub unknown: bool,
    /// How they are used.
    pub flags: KeyFlags,
    /// A remark that COMMAND INFO shows.
    pub notes: Option<&'static str>,
}

impl KeySpec {
    /// Keys at these places.
    pub const fn range(first: usize, last: i32, step: usize, flags: &[KeyFlag]) -> KeySpec {
        KeySpec {
            first,
            keyword: None,
            last,
            step,
            counted: false,
            half: false,
            unknown: false,
            flags: KeyFlags::of(flags),
            notes: None,
        }
    }

    /// One key, the first argument.
    pub const fn first(flags: &[KeyFlag]) -> KeySpec {
        KeySpec::range(1, 0, 1, flags)
    }

    /// One key, the second argument.
    pub const fn second(flags: &[KeyFlag]) -> KeySpec {
        KeySpec::range(2, 0, 1, flags)
    }

    /// Keys from an argument to the last.
    pub const fn all_from(first: usize, flags: &[KeyFlag]) -> KeySpec {
        KeySpec::range(first, -1, 1, flags)
    }

    /// Keys that no rule tells.
    pub const fn unknown(flags: &[KeyFlag]) -> KeySpec {
        KeySpec {
            unknown: true,
            ..KeySpec::range(0, 0, 1, flags)
        }
    }

    /// As many keys as argument `first` says, behind it.
    pub const fn counted(first: usize, flags: &[KeyFlag]) -> KeySpec {
        KeySpec {
            counted: true,
            ..KeySpec::range(first, 0, 1, flags)
        }
    }

    /// A key behind a word, or keys up to `last`.
    pub const fn keyword(word: &'static str, from: i32, last: i32, flags: &[KeyFlag]) -> KeySpec {
        KeySpec {
            keyword: Some((word, from)),
            ..KeySpec::range(0, last, 1, flags)
        }
    }

    /// Only the first half of these arguments: as many others follow.
    pub const fn half(mut self) -> KeySpec {
        self.half = true;
        self
    }

    /// The first key's index and the last one's relative to it (or to the number of arguments) in these arguments;
    /// none where they are not counted as they should be, or the word is not there.
    pub(super) fn range_in(&self, arguments: &[&[u8]]) -> Option<(usize, i32)> {
        if self.unknown {
            // Only SORT has such keys: those it reads follow from data, the one it stores into from its options.
            let stores = self.flags.has(KeyFlag::Overwrite);
            let place = stores.then(|| sort_target(arguments)).flatten()?;
            return Some((place, 0));
        }
        if let Some((word, from)) = self.keyword {
            let is_word = |place: &usize| arguments[*place].eq_ignore_ascii_case(word.as_bytes());
            let place = match usize::try_from(from) {
                Ok(from) => (from..arguments.len()).find(is_word),
                Err(_) => {
                    let left = (arguments.len() + 1).saturating_sub(from.unsigned_abs() as usize);
                    (1..left).rev().find(is_word)
                }
            };
            let first = place? + 1;
            if self.half {
                let keys = arguments.len().saturating_sub(first) / 2;
                return Some((first, i32::try_from(keys).ok()? - 1)).filter(|_| keys > 0);
            }
            return Some((first, self.last));
        }
        if !self.counted {
            return Some((self.first, self.last));
        }
        let keys = parse_integer(arguments.get(self.first)?)?;
        let left = arguments.len() - self.first - 1;
        let keys = usize::try_from(keys)
            .ok()
            .filter(|keys| (1..=left).contains(keys))?;
        Some((self.first + 1, i32::try_from(keys).ok()? - 1))
    }

    /// With a remark.
    pub const fn notes(mut self, text: &'static str) -> KeySpec {
        self.notes = Some(text);
        self
    }
}

/// The place of the key that SORT stores its result in: the last one named.
fn sort_target(arguments: &[&[u8]]) -> Option<usize> {
    let (mut place, mut target) = (2, None);
    while let Some(option) = arguments.get(place) {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        place += match () {
            () if is(b"LIMIT") => 3,
            () if is(b"GET") || is(b"BY") => 2,
            () => 1,
        };
        if is(b"STORE") && place < arguments.len() {
            target = Some(place);
        }
    }
    target
}

/// How BITFIELD uses its key: it reads it only, where it is well-formed and all its subcommands are GET.
pub(super) fn bitfield_flags(arguments: &[&[u8]]) -> KeyFlags {
    let mut rest = arguments.get(2..).unwrap_or_default();
    while let [name, _, behind @ ..] = rest {
        rest = match behind {
            _ if name.eq_ignore_ascii_case(b"OVERFLOW") => behind,
            [_, behind @ ..] if name.eq_ignore_ascii_case(b"GET") => behind,
            _ => break,
        };
    }
    if rest.is_empty() {
        KeyFlags::of(&[KeyFlag::ReadOnly, KeyFlag::Access])
    } else {
        KeyFlags::of(&[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update])
    }
}

/// How SET uses its key: it reads it only with GET.
pub(super) fn set_flags(arguments: &[&[u8]]) -> KeyFlags {
    let options = arguments.get(3..).unwrap_or_default();
    if options
        .iter()
        .any(|option| option.eq_ignore_ascii_case(b"GET"))
    {
        KeyFlags::of(&[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update])
    } else {
        KeyFlags::of(&[KeyFlag::Overwrite, KeyFlag::Update])
    }
}
