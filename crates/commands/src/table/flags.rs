//! Defines the enumerated properties of commands: groups, flags, categories, and how commands use
//! keys.

/// The group under which a command is documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Commands for string values.
    String,
    /// Commands for the bits of string values.
    Bitmap,
    /// Commands for lists.
    List,
    /// Commands for hashes.
    Hash,
    /// Commands for sets.
    Set,
    /// Commands for sorted sets.
    SortedSet,
    /// Commands for geospatial indexes.
    Geo,
    /// Commands for HyperLogLogs.
    Hyperloglog,
    /// Commands for keys of any type.
    Generic,
    /// Commands that manage the connection.
    Connection,
    /// Commands that manage the server.
    Server,
    /// Commands that control transactions.
    Transaction,
    /// Commands for publish/subscribe.
    Pubsub,
    /// Commands for scripts and functions.
    Scripting,
    /// Commands for streams.
    Stream,
    /// Commands for clusters.
    Cluster,
    /// Commands for feeds, which Redis does not have.
    Feed,
}

impl Group {
    /// Returns the group's name in the output of COMMAND DOCS.
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

/// Defines an enum whose values have names, listed in the order in which Redis prints them, and a
/// set of these values in 32 bits.
macro_rules! named_set {
    ($(#[$doc:meta])* $name:ident, $set:ident, $($(#[$item_doc:meta])* $item:ident => $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$item_doc])* $item,)* }

        impl $name {
            /// All values, in the order in which Redis prints them.
            pub const ALL: &'static [$name] = &[$($name::$item,)*];

            /// Returns the value's name as printed by Redis.
            pub const fn name(self) -> &'static str {
                match self { $($name::$item => $text,)* }
            }
        }

        #[doc = concat!("A set of [`", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(u32);

        impl $set {
            /// Returns the set that contains these items.
            pub const fn of(items: &[$name]) -> $set {
                let mut set = $set(0);
                let mut index = 0;
                while index < items.len() {
                    set = set.with(items[index]);
                    index += 1;
                }
                set
            }

            /// Returns a copy of this set with one more item.
            pub const fn with(self, item: $name) -> $set {
                $set(self.0 | 1 << item as u32)
            }

            /// Returns whether the set contains an item.
            pub const fn has(self, item: $name) -> bool {
                self.0 >> item as u32 & 1 == 1
            }

            /// Returns the items of the set, in the order in which Redis prints them.
            pub fn iter(self) -> impl Iterator<Item = $name> {
                $name::ALL.iter().copied().filter(move |item| self.has(*item))
            }
        }
    };
}

named_set! {
    /// A property that the server checks before it runs a command.
    Flag, Flags,
    /// The command may change data.
    Write => "write",
    /// The command only reads data.
    ReadOnly => "readonly",
    /// The command may need memory. It is refused if the memory limit is reached and nothing can be
    /// evicted.
    DenyOom => "denyoom",
    /// The command is intended for administrators.
    Admin => "admin",
    /// The command is a publish/subscribe command.
    Pubsub => "pubsub",
    /// Scripts cannot call the command.
    NoScript => "noscript",
    /// The command can block, waiting for other clients.
    Blocking => "blocking",
    /// The command runs even while a dataset is being loaded.
    Loading => "loading",
    /// The command runs even on a replica that has lost its master.
    Stale => "stale",
    /// MONITOR does not show the command in the form in which it was sent.
    SkipMonitor => "skip_monitor",
    /// The slow log does not record the command.
    SkipSlowlog => "skip_slowlog",
    /// The command takes constant or logarithmic time.
    Fast => "fast",
    /// The command can run before authentication.
    NoAuth => "no_auth",
    /// The command is refused while a dataset is being loaded in the background.
    NoAsyncLoading => "no_async_loading",
    /// The command is refused within MULTI.
    NoMulti => "no_multi",
    /// The command runs even while a script exceeds its time limit.
    AllowBusy => "allow_busy",
    /// The command accepts keys, but can be called without any.
    NoMandatoryKeys => "no_mandatory_keys",
    /// The positions of the keys depend on the arguments.
    MovableKeys => "movablekeys",
}

named_set! {
    /// An access control category.
    Category, Categories,
    /// Commands for keys of any type.
    Keyspace => "keyspace",
    /// Commands that read data.
    Read => "read",
    /// Commands that change data.
    Write => "write",
    /// Commands for sets.
    Set => "set",
    /// Commands for sorted sets.
    Sortedset => "sortedset",
    /// Commands for lists.
    List => "list",
    /// Commands for hashes.
    Hash => "hash",
    /// Commands for strings.
    String => "string",
    /// Commands for bitmaps.
    Bitmap => "bitmap",
    /// Commands for HyperLogLogs.
    Hyperloglog => "hyperloglog",
    /// Commands for geospatial indexes.
    Geo => "geo",
    /// Commands for streams.
    Stream => "stream",
    /// Publish/subscribe commands.
    Pubsub => "pubsub",
    /// Administrative commands.
    Admin => "admin",
    /// Commands that take constant or logarithmic time.
    Fast => "fast",
    /// Commands that are not fast.
    Slow => "slow",
    /// Commands that can block.
    Blocking => "blocking",
    /// Commands that can harm a server or its users when misused.
    Dangerous => "dangerous",
    /// Commands that manage the connection.
    Connection => "connection",
    /// Commands that control transactions.
    Transaction => "transaction",
    /// Commands for scripts and functions.
    Scripting => "scripting",
    /// Commands for feeds, which Redis does not have.
    Feed => "feed",
}

named_set! {
    /// A way in which a command uses a key.
    KeyFlag, KeyFlags,
    /// The command only reads the value.
    ReadOnly => "RO",
    /// The command reads and changes the value.
    ReadWrite => "RW",
    /// The command overwrites the value without reading it.
    Overwrite => "OW",
    /// The command removes the key.
    Remove => "RM",
    /// The command returns, copies or uses the content of the value.
    Access => "access",
    /// The command changes the value's content.
    Update => "update",
    /// The command adds to the value without changing existing content.
    Insert => "insert",
    /// The command deletes all or part of the value.
    Delete => "delete",
    /// The argument is not a key, but determines the cluster node as a key would.
    NotKey => "not_key",
    /// The key specification may not cover all keys.
    Incomplete => "incomplete",
    /// The arguments determine which of these flags apply.
    VariableFlags => "variable_flags",
}
