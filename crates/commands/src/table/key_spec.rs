//! Describes the positions of a command's keys and channels among its arguments, and how the command
//! uses the keys.

use undercroft_numbers::parse_integer;

use super::flags::{KeyFlag, KeyFlags};

/// A specification of key positions. The keys are the arguments from `first` to `last` in steps of
/// `step`, the arguments that follow a key count, or the arguments that follow a keyword. If no
/// rule describes the positions, the specification is `unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The index of the first key. The command's name has index 0.
    pub first: usize,
    /// The keyword that precedes the keys, and the index at which the search for the keyword
    /// starts. If the index is negative, the search runs backward from the end.
    pub keyword: Option<(&'static str, i32)>,
    /// The index of the last key relative to the first key. If negative, it is relative to the
    /// number of arguments, so -1 is the last argument.
    pub last: i32,
    /// The distance between consecutive keys, in arguments.
    pub step: usize,
    /// Whether the argument at index `first` is the number of keys that follow it.
    pub counted: bool,
    /// Whether only the first half of the arguments in the range are keys.
    pub half: bool,
    /// Whether the positions of the keys follow no rule.
    pub unknown: bool,
    /// How the command uses the keys.
    pub flags: KeyFlags,
    /// A note that COMMAND INFO shows with the specification.
    pub notes: Option<&'static str>,
}

impl KeySpec {
    /// Specifies that the keys are a range of arguments.
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

    /// Specifies that the only key is the first argument.
    pub const fn first(flags: &[KeyFlag]) -> KeySpec {
        KeySpec::range(1, 0, 1, flags)
    }

    /// Specifies that the only key is the second argument.
    pub const fn second(flags: &[KeyFlag]) -> KeySpec {
        KeySpec::range(2, 0, 1, flags)
    }

    /// Specifies that all arguments from index `first` on are keys.
    pub const fn all_from(first: usize, flags: &[KeyFlag]) -> KeySpec {
        KeySpec::range(first, -1, 1, flags)
    }

    /// Specifies keys whose positions follow no rule.
    pub const fn unknown(flags: &[KeyFlag]) -> KeySpec {
        KeySpec {
            unknown: true,
            ..KeySpec::range(0, 0, 1, flags)
        }
    }

    /// Specifies that the argument at index `first` is the number of keys, which follow it
    /// directly.
    pub const fn counted(first: usize, flags: &[KeyFlag]) -> KeySpec {
        KeySpec {
            counted: true,
            ..KeySpec::range(first, 0, 1, flags)
        }
    }

    /// Specifies that the keys are the arguments that follow a keyword, up to `last`.
    pub const fn keyword(word: &'static str, from: i32, last: i32, flags: &[KeyFlag]) -> KeySpec {
        KeySpec {
            keyword: Some((word, from)),
            ..KeySpec::range(0, last, 1, flags)
        }
    }

    /// Specifies that only the first half of the arguments in the range are keys. Each argument in
    /// the second half belongs to the corresponding key.
    pub const fn half(mut self) -> KeySpec {
        self.half = true;
        self
    }

    /// Returns the index of the first key in these arguments, and the index of the last key
    /// relative to the first. A negative index of the last key is relative to the number of
    /// arguments. Returns `None` if the number of keys is invalid or the keyword is missing.
    pub(super) fn range_in(&self, arguments: &[&[u8]]) -> Option<(usize, i32)> {
        if self.unknown {
            // Only SORT has keys at unknown positions. The keys that it reads depend on the data,
            // and the key that it stores into depends on its options.
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

    /// Adds a note that COMMAND INFO shows.
    pub const fn notes(mut self, text: &'static str) -> KeySpec {
        self.notes = Some(text);
        self
    }
}

/// Specifies which arguments are channels. Only channels that a command publishes or subscribes to
/// count, because users can always unsubscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Whether all arguments are channels, not only the first.
    pub all: bool,
    /// Whether the arguments are patterns that channels can match.
    pub are_patterns: bool,
}

impl ChannelSpec {
    /// Specifies that all arguments are channels.
    pub const ALL: ChannelSpec = ChannelSpec {
        all: true,
        are_patterns: false,
    };
    /// Specifies that the first argument is a channel.
    pub const FIRST: ChannelSpec = ChannelSpec {
        all: false,
        are_patterns: false,
    };
    /// Specifies that all arguments are patterns.
    pub const PATTERNS: ChannelSpec = ChannelSpec {
        all: true,
        are_patterns: true,
    };

    /// Returns the indexes of the channels in a number of arguments, including the command's name.
    pub(crate) fn places(self, count: usize) -> std::ops::Range<usize> {
        1..if self.all { count } else { count.min(2) }
    }
}

/// Returns the index of the key in which SORT stores its result. If STORE is repeated, the last key
/// applies.
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

/// Returns how BITFIELD uses its key. It only reads the value if the command is well-formed and all
/// its subcommands are GET.
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

/// Returns how SET uses its key. With the GET option, it also reads the value.
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
