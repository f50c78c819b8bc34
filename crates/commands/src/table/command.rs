//! What the table says of one command.

use undercroft_engine::Load;

use super::flags::{Categories, Category, Flag, Flags, Group, KeyFlag, KeyFlags};
use super::key_spec::{KeySpec, bitfield_flags, set_flags};

/// One command or subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Lower-case name; a subcommand's has its container's in front: `client|id`.
    pub name: &'static str,
    /// Number of arguments with the name; at least so many where negative.
    pub arity: i32,
    /// What the server must know before it runs the command.
    pub flags: Flags,
    /// Access control categories, those that follow from the flags included.
    pub categories: Categories,
    /// Where its keys are.
    pub keys: &'static [KeySpec],
    /// Index of the first field or member that it looks for in the collection at its first key; 0 where it looks for
    /// none, or where options may stand before it. Good for a guess what it will read.
    pub element: usize,
    /// The family it is documented under.
    pub group: Group,
    /// The Redis version that brought it; ours where Redis does not have it.
    pub since: &'static str,
    /// Time it takes.
    pub complexity: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its arguments: `[a]` optional, `a | b` one of both, `...` repeated; words in capitals stand for themselves.
    pub syntax: &'static str,
    /// The shape of its reply, in words.
    pub reply: &'static str,
    /// Hints for proxies and cluster clients.
    pub tips: &'static [&'static str],
    /// Where deprecated: since which version, and what to use.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Whether it is for the system itself and its tests.
    pub system: bool,
    /// Its subcommands; empty where it is none's container.
    pub subcommands: &'static [Command],
    /// Its place among all commands and subcommands.
    pub(crate) number: u16,
}

/// Commands that change keys, are not refused where memory is short, and yet do not remove anything: what they add to what
/// is there for good they may not take from what is kept for removals.
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

/// Commands that are not for writing but may be copied to replicas, which a pause of writes holds back as well.
const MAY_REPLICATE: [&str; 5] = ["pfcount", "publish", "spublish", "eval", "evalsha"];

/// Commands with up to so many arguments find room as they need it.
const FEW: usize = 64;
/// Of so many items that are added to one value or taken out of it, one counts as a key: most of a whole value is made
/// without a log, and the log of a leaf or a bucket serves all of its items.
const ITEMS_OF_KEY: usize = 8;

impl Command {
    /// What the command brings, where that is much.
    #[inline(always)]
    pub(crate) fn load(&self, arguments: &[&[u8]]) -> Load {
        if arguments.len() <= FEW {
            return Load::default();
        }
        of_many(self, arguments)
    }

    /// Whether it removes data, so that it may use what a full store keeps for that (H6).
    pub fn removes(&self) -> bool {
        self.flags.has(Flag::Write)
            && !self.flags.has(Flag::DenyOom)
            && !KEEPING.contains(&self.name)
    }

    /// Whether replicas may be sent it, so that a pause of writes holds it back.
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

    /// Says where the first field or member stands.
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
        // What a script reads is told by what it calls, as in Redis.
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

    /// Adds categories to those that follow from the flags, which come first.
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

    /// The name without its container's.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    /// Whether it does something by itself: most containers are called with a subcommand only.
    pub const fn is_callable(&self) -> bool {
        self.subcommands.is_empty() || self.accepts(1)
    }

    /// Whether so many arguments, the name included, are allowed.
    pub const fn accepts(&self, count: usize) -> bool {
        let limit = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            count >= limit
        } else {
            count == limit
        }
    }

    /// First key, last key and step as COMMAND INFO shows them: zeros where there are no keys; a negative last key
    /// counts from the end. Keys in several places that follow one another are shown as one range.
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

    /// Whether Redis 7.0 has this command: a feed's commands are Undercroft's own, and later versions added some.
    pub fn is_in_redis_7_0(&self) -> bool {
        let mut numbers = self
            .since
            .split('.')
            .map(|number| number.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        self.group != Group::Feed && version <= (7, 0)
    }

    /// Whether there is a key in these arguments wherever one must be, and as many as they say.
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

    /// The keys in these arguments (the command's name first), with how each is used. O(arguments).
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
            // The key argument of MIGRATE is empty where its keys stand elsewhere.
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
