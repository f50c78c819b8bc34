//! The enumerated properties of commands: groups, flags and categories, and how keys are used.

/// The group under which a command is documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Commands on strings.
    String,
    /// Commands on the bits of strings.
    Bitmap,
    /// Commands on lists.
    List,
    /// Commands on hashes.
    Hash,
    /// Commands on sets.
    Set,
    /// Commands on sorted sets.
    SortedSet,
    /// Geospatial commands.
    Geo,
    /// Commands on HyperLogLogs.
    Hyperloglog,
    /// Commands on keys of any type.
    Generic,
    /// Commands on the connection.
    Connection,
    /// Commands for the server.
    Server,
    /// Commands for transactions.
    Transaction,
    /// Commands for publish/subscribe.
    Pubsub,
    /// Commands for scripts and functions.
    Scripting,
    /// Commands on streams.
    Stream,
    /// Commands for clusters.
    Cluster,
    /// Commands on feeds, which Redis does not have.
    Feed,
}

impl Group {
    /// Returns the name that COMMAND DOCS prints.
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

/// Defines an enum whose values have names, in Redis' printing order, and a set of its values in 32
/// bits.
macro_rules! named_set {
    ($(#[$doc:meta])* $name:ident, $set:ident, $($(#[$item_doc:meta])* $item:ident => $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$item_doc])* $item,)* }

        impl $name {
            /// All values, in Redis' printing order.
            pub const ALL: &'static [$name] = &[$($name::$item,)*];

            /// Returns the name that Redis prints.
            pub const fn name(self) -> &'static str {
                match self { $($name::$item => $text,)* }
            }
        }

        #[doc = concat!("A set of [`", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(u32);

        impl $set {
            /// Returns the set of these items.
            pub const fn of(items: &[$name]) -> $set {
                let mut set = $set(0);
                let mut index = 0;
                while index < items.len() {
                    set = set.with(items[index]);
                    index += 1;
                }
                set
            }

            /// Returns this set with one more item.
            pub const fn with(self, item: $name) -> $set {
                $set(self.0 | 1 << item as u32)
            }

            /// Whether an item is in the set.
            pub const fn has(self, item: $name) -> bool {
                self.0 >> item as u32 & 1 == 1
            }

            /// Returns the items of the set, in Redis' printing order.
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
    /// The command may need memory: it is refused when the limit is reached and nothing can be
    /// evicted.
    DenyOom => "denyoom",
    /// The command is for administrators.
    Admin => "admin",
    /// The command is a publish/subscribe command.
    Pubsub => "pubsub",
    /// Scripts may not call the command.
    NoScript => "noscript",
    /// The command may wait for other clients.
    Blocking => "blocking",
    /// The command runs even while a dataset is being loaded.
    Loading => "loading",
    /// The command runs even on a replica that has lost its master.
    Stale => "stale",
    /// MONITOR does not show the command in its original form.
    SkipMonitor => "skip_monitor",
    /// The slow log does not record the command.
    SkipSlowlog => "skip_slowlog",
    /// The command takes constant or logarithmic time.
    Fast => "fast",
    /// The command runs before authentication.
    NoAuth => "no_auth",
    /// The command is refused while a dataset is loaded in the background.
    NoAsyncLoading => "no_async_loading",
    /// The command is refused within MULTI.
    NoMulti => "no_multi",
    /// The command runs even while a script exceeds its time.
    AllowBusy => "allow_busy",
    /// The command accepts keys but does not require any.
    NoMandatoryKeys => "no_mandatory_keys",
    /// The positions of the keys depend on the arguments.
    MovableKeys => "movablekeys",
}

named_set! {
    /// An access control category.
    Category, Categories,
    /// Commands on keys of any type.
    Keyspace => "keyspace",
    /// Commands that read data.
    Read => "read",
    /// Commands that change data.
    Write => "write",
    /// Commands on sets.
    Set => "set",
    /// Commands on sorted sets.
    Sortedset => "sortedset",
    /// Commands on lists.
    List => "list",
    /// Commands on hashes.
    Hash => "hash",
    /// Commands on strings.
    String => "string",
    /// Commands on bitmaps.
    Bitmap => "bitmap",
    /// Commands on HyperLogLogs.
    Hyperloglog => "hyperloglog",
    /// Commands on geospatial indexes.
    Geo => "geo",
    /// Commands on streams.
    Stream => "stream",
    /// Publish/subscribe commands.
    Pubsub => "pubsub",
    /// Administrative commands.
    Admin => "admin",
    /// Commands that take constant or logarithmic time.
    Fast => "fast",
    /// Commands that are not fast.
    Slow => "slow",
    /// Commands that may wait.
    Blocking => "blocking",
    /// Commands that can harm a server or its users when misused.
    Dangerous => "dangerous",
    /// Commands on the connection.
    Connection => "connection",
    /// Transaction commands.
    Transaction => "transaction",
    /// Commands for scripts and functions.
    Scripting => "scripting",
}

named_set! {
    /// How a command uses a key.
    KeyFlag, KeyFlags,
    /// Only reads the value.
    ReadOnly => "RO",
    /// Reads and changes the value.
    ReadWrite => "RW",
    /// Overwrites the value without reading it.
    Overwrite => "OW",
    /// Removes the key.
    Remove => "RM",
    /// Returns, copies or uses the value's content.
    Access => "access",
    /// Changes the value's content.
    Update => "update",
    /// Adds to the value without changing existing content.
    Insert => "insert",
    /// Deletes all or part of the value.
    Delete => "delete",
    /// The argument is not a key, but determines the cluster node like a key.
    NotKey => "not_key",
    /// The specification may miss keys.
    Incomplete => "incomplete",
    /// The arguments determine which of these flags apply.
    VariableFlags => "variable_flags",
}
