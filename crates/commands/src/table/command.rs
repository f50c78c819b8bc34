//! What the table says of one command.

use crate::arguments::parse_integer;

/// The family a command is documented under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Strings.
    String,
    /// Bits of strings.
    Bitmap,
    /// Lists.
    List,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Positions.
    Geo,
    /// HyperLogLogs.
    Hyperloglog,
    /// Keys of any type.
    Generic,
    /// The connection.
    Connection,
    /// The server.
    Server,
    /// Transactions.
    Transaction,
    /// Messages.
    Pubsub,
    /// Scripts.
    Scripting,
    /// Streams.
    Stream,
    /// Clusters.
    Cluster,
    /// Feeds, which Redis does not have.
    Feed,
}

impl Group {
    /// As COMMAND DOCS prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::List => "list",
            Group::Hash => "hash",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Geo => "geo",
            Group::Hyperloglog => "hyperloglog",
            Group::Generic => "generic",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Transaction => "transactions",
            Group::Pubsub => "pubsub",
            Group::Scripting => "scripting",
            Group::Stream => "stream",
            Group::Cluster => "cluster",
            Group::Feed => "feed",
        }
    }
}

/// Makes an enum whose values have names, in the order Redis prints them, and a set of them in 32 bits.
macro_rules! named_set {
    ($(#[$doc:meta])* $name:ident, $set:ident, $($(#[$item_doc:meta])* $item:ident => $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$item_doc])* $item,)* }

        impl $name {
            /// All of them, in the order Redis prints them.
            pub const ALL: &'static [$name] = &[$($name::$item,)*];

            /// As Redis prints it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$item => $text,)* }
            }
        }

        #[doc = concat!("A set of [`", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(u32);

        impl $set {
            /// The set of these.
            pub const fn of(items: &[$name]) -> $set {
                let mut set = $set(0);
                let mut index = 0;
                while index < items.len() {
                    set = set.with(items[index]);
                    index += 1;
                }
                set
            }

            /// This set and one more.
            pub const fn with(self, item: $name) -> $set {
                $set(self.0 | 1 << item as u32)
            }

            /// Whether it is in the set.
            pub const fn has(self, item: $name) -> bool {
                self.0 >> item as u32 & 1 == 1
            }

            /// What is in the set, in the order Redis prints it.
            pub fn iter(self) -> impl Iterator<Item = $name> {
                $name::ALL.iter().copied().filter(move |item| self.has(*item))
            }
        }
    };
}

named_set! {
    /// What the server must know before it runs a command.
    Flag, Flags,
    /// May change data.
    Write => "write",
    /// Only reads data.
    ReadOnly => "readonly",
    /// May need memory: refused when the limit is reached and nothing may be evicted.
    DenyOom => "denyoom",
    /// For administrators.
    Admin => "admin",
    /// About messages.
    Pubsub => "pubsub",
    /// Not from scripts.
    NoScript => "noscript",
    /// May wait for others.
    Blocking => "blocking",
    /// Even while a dataset is loaded.
    Loading => "loading",
    /// Even on a replica that lost its master.
    Stale => "stale",
    /// Not shown by MONITOR as it is.
    SkipMonitor => "skip_monitor",
    /// Not in the slow log.
    SkipSlowlog => "skip_slowlog",
    /// Constant or logarithmic time.
    Fast => "fast",
    /// Before login.
    NoAuth => "no_auth",
    /// Not even while a dataset is loaded beside the old one.
    NoAsyncLoading => "no_async_loading",
    /// Not within MULTI.
    NoMulti => "no_multi",
    /// Even while a script runs for too long.
    AllowBusy => "allow_busy",
    /// Takes keys, but need not be given any.
    NoMandatoryKeys => "no_mandatory_keys",
    /// Its arguments say where its keys are.
    MovableKeys => "movablekeys",
}

named_set! {
    /// An access control category.
    Category, Categories,
    /// Keys of any type.
    Keyspace => "keyspace",
    /// Reads data.
    Read => "read",
    /// Changes data.
    Write => "write",
    /// Sets.
    Set => "set",
    /// Sorted sets.
    Sortedset => "sortedset",
    /// Lists.
    List => "list",
    /// Hashes.
    Hash => "hash",
    /// Strings.
    String => "string",
    /// Bitmaps.
    Bitmap => "bitmap",
    /// HyperLogLogs.
    Hyperloglog => "hyperloglog",
    /// Geographic indexes.
    Geo => "geo",
    /// Streams.
    Stream => "stream",
    /// Publish and subscribe.
    Pubsub => "pubsub",
    /// Administration.
    Admin => "admin",
    /// Constant or logarithmic time.
    Fast => "fast",
    /// Everything that is not fast.
    Slow => "slow",
    /// May wait.
    Blocking => "blocking",
    /// Can harm a server or its users when misused.
    Dangerous => "dangerous",
    /// The connection.
    Connection => "connection",
    /// Transactions.
    Transaction => "transaction",
    /// Scripts.
    Scripting => "scripting",
}

named_set! {
    /// How a command uses a key.
    KeyFlag, KeyFlags,
    /// Reads its value only.
    ReadOnly => "RO",
    /// Reads and changes its value.
    ReadWrite => "RW",
    /// Overwrites its value without looking at it.
    Overwrite => "OW",
    /// Removes it.
    Remove => "RM",
    /// Returns, copies or uses what the value holds.
    Access => "access",
    /// Changes what the value holds.
    Update => "update",
    /// Adds to it and changes nothing that is there.
    Insert => "insert",
    /// Deletes some or all of it.
    Delete => "delete",
    /// Is no key, but decides as one would where in a cluster the command runs.
    NotKey => "not_key",
    /// There may be keys elsewhere, too.
    Incomplete => "incomplete",
    /// The arguments decide which of these flags are true.
    VariableFlags => "variable_flags",
}

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
    fn range_in(&self, arguments: &[&[u8]]) -> Option<(usize, i32)> {
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

impl Command {
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
fn bitfield_flags(arguments: &[&[u8]]) -> KeyFlags {
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
fn set_flags(arguments: &[&[u8]]) -> KeyFlags {
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
