//! Defines the table rows for commands that apply to keys of any type.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;
use crate::table::keys::{self, CREATE, READ, REPLACE, TAKE};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("del", -2, Group::Generic, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(keys::REMOVE_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N keys, plus the size of their values",
            "Deletes keys.",
        )
        .reply("integer: number of deleted keys"),
    Command::new("unlink", -2, Group::Generic, "4.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(keys::REMOVE_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N keys; large values are freed later",
            "Deletes keys and frees their values later.",
        )
        .reply("integer: number of deleted keys"),
    Command::new("exists", -2, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(keys::LOOK_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N keys",
            "Counts how many of the given keys exist.",
        )
        .reply("integer: number of existing keys, counting repeated keys each time"),
    Command::new("type", 2, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::LOOK_KEY)
        .doc(
            "key",
            "O(1)",
            "Returns the type of the value at a key, or none if the key does not exist.",
        )
        .reply("simple"),
    Command::new("keys", 2, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Keyspace, Category::Dangerous])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .doc(
            "pattern",
            "O(N) for N keys in the database",
            "Returns all keys that match a pattern.",
        )
        .reply("array of bulk"),
    Command::new("scan", -2, Group::Generic, "2.8.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Keyspace])
        .tips(&["nondeterministic_output", "request_policy:special"])
        .doc(
            "cursor [MATCH pattern] [COUNT count] [TYPE type]",
            "O(1) for each call, O(N) for a complete iteration",
            "Iterates over the keys of the database.",
        )
        .reply("array of the next cursor and an array of keys"),
    Command::new("randomkey", 1, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:all_shards", "nondeterministic_output"])
        .doc("", "O(1)", "Returns a random key of the database.")
        .reply("bulk or null"),
    Command::new("rename", 3, Group::Generic, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Keyspace])
        .keys(const { &[KeySpec::first(TAKE), KeySpec::second(REPLACE)] })
        .doc(
            "key newkey",
            "O(1)",
            "Renames a key, overwriting the destination.",
        )
        .reply("OK"),
    Command::new("renamenx", 3, Group::Generic, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(const { &[KeySpec::first(TAKE), KeySpec::second(CREATE)] })
        .doc(
            "key newkey",
            "O(1)",
            "Renames a key if the new name does not exist.",
        )
        .reply("integer: 1 renamed, 0 not"),
    Command::new("copy", -3, Group::Generic, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Keyspace])
        .keys(const { &[KeySpec::first(READ), KeySpec::second(REPLACE)] })
        .doc(
            "source destination [DB destination-db] [REPLACE]",
            "O(N) where N is the size of the value",
            "Copies the value and expiration of a key to another key.",
        )
        .reply("integer: 1 copied, 0 not"),
    Command::new("move", 3, Group::Generic, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::READ_AND_CHANGE_KEY)
        .doc(
            "key db",
            "O(1)",
            "Moves a key to another database if the key does not exist there.",
        )
        .reply("integer: 1 moved, 0 not"),
    Command::new("touch", -2, Group::Generic, "3.2.1")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(keys::LOOK_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N keys",
            "Updates the last access time of keys.",
        )
        .reply("integer: number of existing keys"),
    Command::new("dump", 2, Group::Generic, "2.6.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Keyspace])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(N) where N is the size of the value",
            "Returns a serialized representation of the value at a key.",
        )
        .reply("bulk or null"),
    Command::new("restore", -4, Group::Generic, "2.6.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Keyspace, Category::Dangerous])
        .keys(keys::REPLACE_KEY)
        .doc(
            "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME \
             seconds] [FREQ frequency]",
            "O(N) where N is the size of the payload",
            "Creates a key from a value that DUMP serialized.",
        )
        .reply("OK"),
    Command::new("expire", -3, Group::Generic, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key seconds [NX | XX | GT | LT]",
            "O(1)",
            "Sets the expiration of a key in seconds.",
        )
        .reply("integer: 1 set, 0 not"),
    Command::new("pexpire", -3, Group::Generic, "2.6.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key milliseconds [NX | XX | GT | LT]",
            "O(1)",
            "Sets the expiration of a key in milliseconds.",
        )
        .reply("integer: 1 set, 0 not"),
    Command::new("expireat", -3, Group::Generic, "1.2.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key unix-time-seconds [NX | XX | GT | LT]",
            "O(1)",
            "Sets the expiration of a key to a Unix time in seconds.",
        )
        .reply("integer: 1 set, 0 not"),
    Command::new("pexpireat", -3, Group::Generic, "2.6.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key unix-time-milliseconds [NX | XX | GT | LT]",
            "O(1)",
            "Sets the expiration of a key to a Unix time in milliseconds.",
        )
        .reply("integer: 1 set, 0 not"),
    Command::new("ttl", 2, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(1)",
            "Returns the remaining time to live of a key in seconds.",
        )
        .reply("integer: seconds, -1 without expiration, -2 without key"),
    Command::new("pttl", 2, Group::Generic, "2.6.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(1)",
            "Returns the remaining time to live of a key in milliseconds.",
        )
        .reply("integer: milliseconds, -1 without expiration, -2 without key"),
    Command::new("expiretime", 2, Group::Generic, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(1)",
            "Returns the expiration of a key as a Unix time in seconds.",
        )
        .reply("integer: Unix time in seconds, -1 without expiration, -2 without key"),
    Command::new("pexpiretime", 2, Group::Generic, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(1)",
            "Returns the expiration of a key as a Unix time in milliseconds.",
        )
        .reply("integer: Unix time in milliseconds, -1 without expiration, -2 without key"),
    Command::new("persist", 2, Group::Generic, "2.2.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc("key", "O(1)", "Removes the expiration of a key.")
        .reply("integer: 1 removed, 0 not"),
    Command::new("object", -2, Group::Generic, "2.2.3")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for commands that inspect values.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("object|encoding", 3, Group::Generic, "2.2.3")
                        .flags(&[Flag::ReadOnly])
                        .categories(&[Category::Keyspace])
                        .tips(&["nondeterministic_output"])
                        .keys(keys::LOOK_SECOND)
                        .doc(
                            "key",
                            "O(1)",
                            "Returns the internal encoding of the value at a key.",
                        )
                        .reply("bulk or null"),
                    Command::new("object|idletime", 3, Group::Generic, "2.2.3")
                        .flags(&[Flag::ReadOnly])
                        .categories(&[Category::Keyspace])
                        .tips(&["nondeterministic_output"])
                        .keys(keys::LOOK_SECOND)
                        .doc(
                            "key",
                            "O(1)",
                            "Returns the approximate number of seconds since the last access to a \
                             key.",
                        )
                        .reply("integer or null"),
                    Command::new("object|freq", 3, Group::Generic, "4.0.0")
                        .flags(&[Flag::ReadOnly])
                        .categories(&[Category::Keyspace])
                        .tips(&["nondeterministic_output"])
                        .keys(keys::LOOK_SECOND)
                        .doc(
                            "key",
                            "O(1)",
                            "Returns the approximate access frequency of a key on a logarithmic \
                             scale.",
                        )
                        .reply("integer or null"),
                    Command::new("object|refcount", 3, Group::Generic, "2.2.3")
                        .flags(&[Flag::ReadOnly])
                        .categories(&[Category::Keyspace])
                        .tips(&["nondeterministic_output"])
                        .keys(keys::LOOK_SECOND)
                        .doc(
                            "key",
                            "O(1)",
                            "Returns the reference count of the value at a key.",
                        )
                        .reply("integer or null"),
                    Command::new("object|help", 2, Group::Generic, "6.2.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Keyspace])
                        .doc("", "O(1)", "Returns help about the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
    Command::new("sort", -2, Group::Generic, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[
            Category::Set,
            Category::Sortedset,
            Category::List,
            Category::Dangerous,
        ])
        .keys(
            const {
                &[
                    KeySpec::first(READ),
                    KeySpec::unknown(READ).notes(SORTED_BY),
                    KeySpec::unknown(REPLACE).notes(SORTED_INTO),
                ]
            },
        )
        .doc(
            "key [BY pattern] [LIMIT offset count] [GET pattern [GET \
             pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]",
            "O(N+M*log(M)) for N elements and M returned; O(N) if they are not sorted",
            "Sorts the elements of a list, a set or a sorted set, and returns or stores the \
             result.",
        )
        .reply(
            "array of bulk or null; with STORE integer: the length \
             of the list",
        ),
    Command::new("sort_ro", -2, Group::Generic, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[
            Category::Set,
            Category::Sortedset,
            Category::List,
            Category::Dangerous,
        ])
        .keys(
            const {
                &[
                    KeySpec::first(READ),
                    KeySpec::unknown(READ).notes(SORTED_BY),
                ]
            },
        )
        .doc(
            "key [BY pattern] [LIMIT offset count] [GET pattern [GET \
             pattern ...]] [ASC | DESC] [ALPHA]",
            "O(N+M*log(M)) for N elements and M returned; O(N) if they are not sorted",
            "The read-only variant of SORT.",
        )
        .reply("array of bulk or null"),
    Command::new("wait", 3, Group::Generic, "3.0.0")
        .flags(&[Flag::NoScript])
        .categories(&[Category::Connection])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .doc(
            "numreplicas timeout",
            "O(1)",
            "Waits until replicas have acknowledged all earlier changes. Needs a server with replicas.",
        )
        .reply("integer"),
    Command::new("waitaof", 4, Group::Generic, "7.2.0")
        .flags(&[Flag::NoScript])
        .categories(&[Category::Connection])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .doc(
            "numlocal numreplicas timeout",
            "O(1)",
            "Makes all earlier changes durable if numlocal is 1. Does not wait for replicas, \
             because replication is not supported.",
        )
        .reply("array of two integers: 1 if the changes are durable, and 0"),
    Command::new("migrate", -6, Group::Generic, "2.6.0")
        .flags(&[Flag::Write, Flag::MovableKeys])
        .categories(&[Category::Keyspace, Category::Dangerous])
        .tips(&["nondeterministic_output"])
        .keys(
            const {
                &[
                    KeySpec::range(3, 0, 1, TAKE),
                    KeySpec::keyword(
                        "KEYS",
                        -2,
                        -1,
                        &[
                            KeyFlag::ReadWrite,
                            KeyFlag::Access,
                            KeyFlag::Delete,
                            KeyFlag::Incomplete,
                        ],
                    ),
                ]
            },
        )
        .doc(
            "host port key | \"\" destination-db timeout [COPY] \
             [REPLACE] [AUTH password | AUTH2 username password] \
             [KEYS key [key ...]]",
            "O(N) for N keys",
            "Moves keys to another server, whose host the operator has allowed. Needs a server.",
        )
        .reply("OK, or NOKEY if no key exists"),
];

/// Redis' note on the keys that SORT derives from patterns. It precedes the note on the key that
/// SORT stores into.
const SORTED_BY: &str = "For the optional BY/GET keyword. It is marked 'unknown' \
             because the key names derive from the content of the \
             key we sort";
const SORTED_INTO: &str = "For the optional STORE keyword. It is marked 'unknown' \
             because the keyword can appear anywhere in the argument \
             array";
