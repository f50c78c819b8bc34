//! A row of the command table, which describes one command.

use undercroft_engine::Load;

use super::flags::{Categories, Category, Flag, Flags, Group, KeyFlag, KeyFlags};
use super::key_spec::{KeySpec, bitfield_flags, set_flags};

/// A command or subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The name in lower case; a subcommand's name starts with its container's: `client|id`.
    pub name: &'static str,
    /// The number of arguments including the name; if negative, the minimum number.
    pub arity: i32,
    /// Properties that the server checks before it runs the command.
    pub flags: Flags,
    /// Access control categories, including those that follow from the flags.
    pub categories: Categories,
    /// The positions of the keys among the arguments.
    pub keys: &'static [KeySpec],
    /// The index of the first field or member that the command looks up in the collection at its
    /// first key. It is 0 if there is none, or if options may precede it. Used to predict what the
    /// command reads.
    pub element: usize,
    /// The group under which the command is documented.
    pub group: Group,
    /// The Redis version that introduced the command; Undercroft's version if Redis does not have
    /// the command.
    pub since: &'static str,
    /// The time complexity.
    pub complexity: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// The arguments: `[a]` is optional, `a | b` is either, `...` repeats; words in capitals are
    /// literal.
    pub syntax: &'static str,
    /// A description of the reply's form.
    pub reply: &'static str,
    /// Hints for proxies and cluster clients.
    pub tips: &'static [&'static str],
    /// If deprecated: the version that deprecated it, and its replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Whether the command is intended only for the system itself and its tests.
    pub system: bool,
    /// The subcommands; empty if the command is not a container.
    pub subcommands: &'static [Command],
    /// The index among all commands and subcommands.
    pub(crate) number: u16,
}

/// Commands that change keys and lack the `denyoom` flag, but remove nothing. They must not use the
/// memory reserved for removals, because they add data that stays.
const KEEPING: &[&str] = &[
    "expire",
    "expireat",
    "move",
    "pexpire",
    "pexpireat",
    "renamenx",
    "swapdb",
    "touch",
    "xautoclaim",
    "xclaim",
    "xgroup|createconsumer",
    "xgroup|setid",
    "xreadgroup",
];

/// Commands without the `write` flag that Redis may replicate, so that a pause of writes suspends
/// them, too.
const MAY_REPLICATE: [&str; 5] = ["pfcount", "publish", "spublish", "eval", "evalsha"];

/// The number of arguments up to which a command allocates as it runs, instead of reserving memory
/// first.
const FEW: usize = 64;
/// The number of items, added to or removed from one value, that count as one key in a load
/// estimate. Large values are mostly built without a log, and the log entry of a leaf or a bucket
/// covers all its items.
const ITEMS_OF_KEY: usize = 8;

impl Command {
    /// Returns the estimated load of a call, or no load if the call is small.
    #[inline(always)]
    pub(crate) fn load(&self, arguments: &[&[u8]]) -> Load {
        if arguments.len() <= FEW {
            return Load::default();
        }
        of_many(self, arguments)
    }

    /// Whether the command removes data, so that it may use the memory that a full store reserves
    /// for removals (H6).
    pub fn removes(&self) -> bool {
        self.flags.has(Flag::Write)
            && !self.flags.has(Flag::DenyOom)
            && !KEEPING.contains(&self.name)
    }

    /// Whether the command may be replicated, so that a pause of writes suspends it.
    pub(crate) fn may_replicate(&self) -> bool {
        self.flags.has(Flag::Write) || MAY_REPLICATE.contains(&self.name)
    }

    pub(super) const fn new(
        name: &'static str,
        arity: i32,
        group: Group,
        since: &'static str,
    ) -> Command {
        Command {
            name,
            arity,
            flags: Flags::of(&[]),
            categories: Categories::of(&[Category::Slow]),
            keys: &[],
            element: 0,
            group,
            since,
            complexity: "",
            summary: "",
            syntax: "",
            reply: "",
            tips: &[],
            deprecated: None,
            system: false,
            subcommands: &[],
            number: 0,
        }
    }

    /// Sets the index of the first field or member.
    pub(super) const fn element(mut self, index: usize) -> Command {
        self.element = index;
        self
    }

    /// Sets the flags and the categories that follow from them.
    pub(super) const fn flags(mut self, flags: &[Flag]) -> Command {
        self.flags = Flags::of(flags);
        let speed = if self.flags.has(Flag::Fast) {
            Category::Fast
        } else {
            Category::Slow
        };
        let mut categories = Categories::of(&[speed]);
        if self.flags.has(Flag::Write) {
            categories = categories.with(Category::Write);
        }
        // As in Redis, scripts are not in the read category: the commands that they call are.
        if self.flags.has(Flag::ReadOnly) && !matches!(self.group, Group::Scripting) {
            categories = categories.with(Category::Read);
        }
        if self.flags.has(Flag::Admin) {
            categories = categories.with(Category::Admin).with(Category::Dangerous);
        }
        if self.flags.has(Flag::Blocking) {
            categories = categories.with(Category::Blocking);
        }
        self.categories = categories;
        self
    }

    /// Adds categories to those that follow from the flags. The flags must be set first.
    pub(super) const fn categories(mut self, categories: &[Category]) -> Command {
        let mut index = 0;
        while index < categories.len() {
            self.categories = self.categories.with(categories[index]);
            index += 1;
        }
        self
    }

    pub(super) const fn tips(mut self, tips: &'static [&'static str]) -> Command {
        self.tips = tips;
        self
    }

    pub(super) const fn keys(mut self, keys: &'static [KeySpec]) -> Command {
        self.keys = keys;
        self
    }

    pub(super) const fn doc(
        mut self,
        syntax: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> Command {
        self.syntax = syntax;
        self.complexity = complexity;
        self.summary = summary;
        self
    }

    pub(super) const fn reply(mut self, shape: &'static str) -> Command {
        self.reply = shape;
        self
    }

    pub(super) const fn deprecated(
        mut self,
        since: &'static str,
        instead: &'static str,
    ) -> Command {
        self.deprecated = Some((since, instead));
        self
    }

    pub(super) const fn system(mut self) -> Command {
        self.system = true;
        self
    }

    pub(super) const fn subcommands(mut self, subcommands: &'static [Command]) -> Command {
        self.subcommands = subcommands;
        self
    }

    /// Returns the name without its container's name.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    /// Whether the command can be called without a subcommand; most containers cannot.
    pub const fn is_callable(&self) -> bool {
        self.subcommands.is_empty() || self.accepts(1)
    }

    /// Whether the arity allows this number of arguments, including the name.
    pub const fn accepts(&self, count: usize) -> bool {
        let limit = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            count >= limit
        } else {
            count == limit
        }
    }

    /// Returns the first key, last key and step that COMMAND INFO shows: zeros if there are no
    /// keys; a negative last key counts from the end. Adjacent key specifications are merged into
    /// one range.
    pub fn key_range(&self) -> (i64, i64, i64) {
        let Some((first, more)) = self.keys.split_first() else {
            return (0, 0, 0);
        };
        if first.counted || first.unknown || first.keyword.is_some() {
            return (0, 0, 0);
        }
        let start = first.first as i64;
        let end = |spec: &KeySpec| {
            let last = i64::from(spec.last);
            if last < 0 {
                last
            } else {
                spec.first as i64 + last
            }
        };
        let mut last = end(first);
        for spec in more {
            if last < 0 || spec.counted || spec.unknown || spec.first as i64 != last + 1 {
                break;
            }
            last = end(spec);
        }
        (start, last, first.step as i64)
    }

    /// Whether Redis 7.0 has this command. The exceptions are Undercroft's feed commands, and
    /// commands from later Redis versions.
    pub fn is_in_redis_7_0(&self) -> bool {
        let mut numbers = self
            .since
            .split('.')
            .map(|number| number.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        self.group != Group::Feed && version <= (7, 0)
    }

    /// Whether these arguments contain every required key, and as many keys as their counts
    /// declare.
    pub(crate) fn has_all_keys(&self, arguments: &[&[u8]]) -> bool {
        let mut fixed = self
            .keys
            .iter()
            .filter(|spec| !spec.unknown && spec.keyword.is_none());
        fixed.all(|spec| {
            let range = spec.range_in(arguments);
            range.is_some_and(|(first, last)| {
                let end = match usize::try_from(last) {
                    Ok(last) => Some(first + last),
                    Err(_) => arguments.len().checked_sub(last.unsigned_abs() as usize),
                };
                end.is_some_and(|end| (first..arguments.len()).contains(&end))
            })
        })
    }

    /// Returns the keys in these arguments (the command's name first), and how the command uses
    /// each. O(arguments).
    pub fn keys_of<'a>(
        &self,
        arguments: &'a [&'a [u8]],
    ) -> impl Iterator<Item = (&'a [u8], KeyFlags)> {
        self.keys.iter().flat_map(move |spec| {
            let (first, last) = spec.range_in(arguments).unwrap_or((arguments.len(), 0));
            let end = match usize::try_from(last) {
                Ok(last) => first + last + 1,
                Err(_) => (arguments.len() + 1).saturating_sub(last.unsigned_abs() as usize),
            };
            let flags = match self.name {
                _ if !spec.flags.has(KeyFlag::VariableFlags) => spec.flags,
                "bitfield" => bitfield_flags(arguments),
                _ => set_flags(arguments),
            };
            let keys = arguments
                .get(first..end.min(arguments.len()))
                .unwrap_or_default();
            // MIGRATE with KEYS has an empty string as its first key argument.
            let is_key = |key: &&&[u8]| !(key.is_empty() && self.name == "migrate");
            let keys = keys.iter().step_by(spec.step).filter(is_key);
            keys.map(move |key| (*key, flags))
        })
    }
}

#[cold]
fn of_many(command: &Command, arguments: &[&[u8]]) -> Load {
    if !command.flags.has(Flag::Write) {
        return Load::default();
    }
    let many_keys = command.keys.iter().find(|keys| keys.last < 0);
    let each = many_keys.map_or(ITEMS_OF_KEY, |keys| keys.step);
    Load {
        keys: (arguments.len() / each) as u64,
        bytes: arguments.iter().map(|argument| argument.len() as u64).sum(),
    }
}
