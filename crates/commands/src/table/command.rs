//! Defines a row of the command table, which describes one command.

use undercroft_engine::Load;

use super::flags::{Categories, Category, Flag, Flags, Group, KeyFlag, KeyFlags};
use super::key_spec::{ChannelSpec, KeySpec, bitfield_flags, set_flags};

/// A command or subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The name in lowercase. A subcommand's name includes the name of its container: `client|id`.
    pub name: &'static str,
    /// The number of arguments including the name, or the negated minimum number.
    pub arity: i32,
    /// The properties that the server checks before it runs the command.
    pub flags: Flags,
    /// The access control categories, including those implied by the flags.
    pub categories: Categories,
    /// Specifies where the command's keys are among its arguments.
    pub keys: &'static [KeySpec],
    /// Specifies which arguments are channels that the command publishes or subscribes to, if any.
    pub channels: Option<ChannelSpec>,
    /// The index of the first field or member that the command looks up in the collection at its
    /// first key. It is 0 if the command looks up no field or member, or if options can precede it.
    /// Used to predict what the command will read.
    pub element: usize,
    /// The group under which the command is documented.
    pub group: Group,
    /// The Redis version that introduced the command, or Undercroft's version if Redis does not
    /// have the command.
    pub since: &'static str,
    /// The command's time complexity.
    pub complexity: &'static str,
    /// A one-line description of the command.
    pub summary: &'static str,
    /// The syntax of the arguments: `[a]` is optional, `a | b` is a choice, `...` means repetition,
    /// and uppercase words are literal.
    pub syntax: &'static str,
    /// A description of the reply's form.
    pub reply: &'static str,
    /// The command's tips, which are hints for proxies and cluster clients.
    pub tips: &'static [&'static str],
    /// The version that deprecated the command and the replacement, or `None` if the command is not
    /// deprecated.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Whether the command is intended only for internal use and for tests.
    pub system: bool,
    /// The subcommands, or an empty list if the command is not a container.
    pub subcommands: &'static [Command],
    /// The index of this command among all commands and subcommands.
    pub(crate) number: u16,
}

/// Commands that change keys and do not have the `denyoom` flag, but remove nothing. They must not
/// use the memory that is reserved for removals, because the data that they add remains in the
/// store.
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

/// Commands without the `write` flag that Redis may replicate. A pause of writes therefore also
/// suspends them.
const MAY_REPLICATE: [&str; 5] = ["pfcount", "publish", "spublish", "eval", "evalsha"];

/// The maximum number of arguments for which a command allocates memory as it runs, instead of
/// reserving memory first.
const FEW: usize = 64;
/// The number of items added to or removed from a value that count as one key in a load estimate.
/// Large values are mostly built without an undo log, and a single log entry covers all items of a
/// leaf or a bucket.
const ITEMS_OF_KEY: usize = 8;

impl Command {
    /// Returns the estimated load of a call, or zero load if the call is small.
    #[inline(always)]
    pub(crate) fn load(&self, arguments: &[&[u8]]) -> Load {
        if arguments.len() <= FEW {
            return Load::default();
        }
        of_many(self, arguments)
    }

    /// Returns whether the command removes data, so that it may use the memory that a full store
    /// reserves for removals (H6).
    pub fn removes(&self) -> bool {
        self.flags.has(Flag::Write)
            && !self.flags.has(Flag::DenyOom)
            && !KEEPING.contains(&self.name)
    }

    /// Returns whether Redis may replicate the command. If so, a pause of writes suspends it.
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
            channels: None,
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

    /// Sets the index of the first field or member that the command looks up.
    pub(super) const fn element(mut self, index: usize) -> Command {
        self.element = index;
        self
    }

    /// Sets the flags, and the categories that they imply.
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
        // As in Redis, script commands are not in the read category. The commands that scripts call
        // are.
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

    /// Adds categories to those implied by the flags. The flags must be set first.
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

    /// Sets the arguments that are channels to publish or subscribe to.
    pub(super) const fn channels(mut self, channels: ChannelSpec) -> Command {
        self.channels = Some(channels);
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

    /// Returns the command's name without the name of its container.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    /// Returns whether the command can be called without a subcommand. Most containers cannot.
    pub const fn is_callable(&self) -> bool {
        self.subcommands.is_empty() || self.accepts(1)
    }

    /// Returns whether the arity allows this number of arguments, including the name.
    pub const fn accepts(&self, count: usize) -> bool {
        let limit = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            count >= limit
        } else {
            count == limit
        }
    }

    /// Returns the first key, last key and step that COMMAND INFO reports. All are zero if the
    /// command has no keys, and a negative last key counts from the end. Adjacent key
    /// specifications are merged into one range.
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

    /// Returns whether this is one of Undercroft's own commands, whose names contain a dot.
    pub fn is_own(&self) -> bool {
        self.name.contains('.')
    }

    /// Returns whether Redis 7.0 has this command. Redis 7.0 lacks Undercroft's own commands and
    /// the commands from later Redis versions.
    pub fn is_in_redis_7_0(&self) -> bool {
        let mut numbers = self
            .since
            .split('.')
            .map(|number| number.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        !self.is_own() && version <= (7, 0)
    }

    /// Returns whether the command, or one that it runs, may read keys for a reply that clients cache.
    pub fn may_read(&self) -> bool {
        self.flags.has(Flag::ReadOnly) || self.group == Group::Scripting || self.name == "exec"
    }

    /// Returns whether the arguments contain every required key, including the number of keys that
    /// their key counts declare.
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

    /// Returns the keys in these arguments, and how the command uses each key. The first argument
    /// is the command's name. Takes O(arguments) time.
    pub fn keys_of<'a>(
        &self,
        arguments: &'a [&'a [u8]],
    ) -> impl Iterator<Item = (&'a [u8], KeyFlags)> {
        let places = self.key_places(arguments);
        places.map(move |(place, flags)| (arguments[place], flags))
    }

    /// Returns the indexes of the keys in these arguments, and how the command uses each key. Takes
    /// O(arguments) time.
    pub(crate) fn key_places<'a>(
        &self,
        arguments: &'a [&'a [u8]],
    ) -> impl Iterator<Item = (usize, KeyFlags)> + use<'_, 'a> {
        self.keys.iter().flat_map(move |spec| {
            let range = match self.name {
                "migrate" => range_of_migrate(spec, arguments),
                _ => spec.range_in(arguments),
            };
            let (first, last) = range.unwrap_or((arguments.len(), 0));
            let end = match usize::try_from(last) {
                Ok(last) => first + last + 1,
                Err(_) => (arguments.len() + 1).saturating_sub(last.unsigned_abs() as usize),
            };
            let flags = match self.name {
                _ if !spec.flags.has(KeyFlag::VariableFlags) => spec.flags,
                "bitfield" => bitfield_flags(arguments),
                _ => set_flags(arguments),
            };
            let places = (first..end.min(arguments.len())).step_by(spec.step);
            places.map(move |place| (place, flags))
        })
    }
}

/// Returns the range of the keys of MIGRATE that this specification describes: either its key
/// argument, or, if that is empty, the arguments after the option KEYS. As in Redis, it has no keys if
/// it has both, and an option without arguments does not count.
#[cold]
fn range_of_migrate(spec: &KeySpec, arguments: &[&[u8]]) -> Option<(usize, i32)> {
    let is_list = spec.keyword.is_some();
    let mut place = 6;
    while let Some(option) = arguments.get(place) {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        // The keys can contain the word KEYS too, so the option is the first one.
        if is(b"KEYS") && place + 1 < arguments.len() {
            return (is_list && arguments[3].is_empty()).then_some((place + 1, -1));
        }
        place += match () {
            () if is(b"AUTH") => 2,
            () if is(b"AUTH2") => 3,
            () => 1,
        };
    }
    (!is_list).then_some((spec.first, spec.last))
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
