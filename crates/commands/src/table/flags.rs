//! What the table says of a command in single words: its group, flags and categories, and how it uses keys.

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
