//! Rows of the commands on keys of any type.

use super::keys::{self, CREATE, READ, REPLACE, TAKE};
use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("del", -2, Group::Generic, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(keys::REMOVE_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N keys, and the size of what they hold",
            "Deletes keys.",
        )
        .reply("integer: keys deleted"),
    Command::new("unlink", -2, Group::Generic, "4.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(keys::REMOVE_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N keys; large values are freed later",
            "Deletes keys and leaves freeing what they held for later.",
        )
        .reply("integer: keys deleted"),
    Command::new("exists", -2, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .keys(keys::LOOK_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N keys",
            "Counts how many of the keys exist.",
        )
        .reply("integer: keys found, repeated ones counted again"),
    Command::new("type", 2, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::LOOK_KEY)
        .doc(
            "key",
            "O(1)",
            "Names the type of what a key holds; none where it does \
             not exist.",
        )
        .reply("simple"),
    Command::new("keys", 2, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Keyspace, Category::Dangerous])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .doc(
            "pattern",
            "O(N) for all N keys of the database",
            "Lists every key that matches a pattern.",
        )
        .reply("array of bulk"),
    Command::new("scan", -2, Group::Generic, "2.8.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Keyspace])
        .tips(&["nondeterministic_output", "request_policy:special"])
        .doc(
            "cursor [MATCH pattern] [COUNT count] [TYPE type]",
            "O(1) for a call, O(N) for a whole iteration",
            "Lists the keys in small portions, each from where the \
             last one ended.",
        )
        .reply("array of the next cursor and an array of keys"),
    Command::new("randomkey", 1, Group::Generic, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:all_shards", "nondeterministic_output"])
        .doc("", "O(1)", "Returns some key of the database.")
        .reply("bulk or null"),
    Command::new("rename", 3, Group::Generic, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Keyspace])
        .keys(const { &[KeySpec::first(TAKE), KeySpec::second(REPLACE)] })
        .doc(
            "key newkey",
            "O(1)",
            "Gives a key another name, replacing what had that name.",
        )
        .reply("OK"),
    Command::new("renamenx", 3, Group::Generic, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(const { &[KeySpec::first(TAKE), KeySpec::second(CREATE)] })
        .doc(
            "key newkey",
            "O(1)",
            "Gives a key another name where that one is free.",
        )
        .reply("integer: 1 renamed, 0 not"),
    Command::new("copy", -3, Group::Generic, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Keyspace])
        .keys(const { &[KeySpec::first(READ), KeySpec::second(REPLACE)] })
        .doc(
            "source destination [DB destination-db] [REPLACE]",
            "O(N) in the size of the value",
            "Copies a key's value and time to live to another key.",
        )
        .reply("integer: 1 copied, 0 not"),
    Command::new("move", 3, Group::Generic, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::READ_AND_CHANGE_KEY)
        .doc(
            "key db",
            "O(1)",
            "Moves a key to another database where it is not there yet.",
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
            "Marks keys as just used.",
        )
        .reply("integer: keys found"),
    Command::new("dump", 2, Group::Generic, "2.6.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Keyspace])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(N) in the size of the value",
            "Returns a value in a serialized, checksummed form.",
        )
        .reply("bulk or null"),
    Command::new("restore", -4, Group::Generic, "2.6.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Keyspace, Category::Dangerous])
        .keys(keys::REPLACE_KEY)
        .doc(
            "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME \
             seconds] [FREQ frequency]",
            "O(N) in the size of the payload",
            "Creates a key from what DUMP returned.",
        )
        .reply("OK"),
    Command::new("expire", -3, Group::Generic, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key seconds [NX | XX | GT | LT]",
            "O(1)",
            "Sets a time to live in seconds.",
        )
        .reply("integer: 1 set, 0 not"),
    Command::new("pexpire", -3, Group::Generic, "2.6.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key milliseconds [NX | XX | GT | LT]",
            "O(1)",
            "Sets a time to live in milliseconds.",
        )
        .reply("integer: 1 set, 0 not"),
    Command::new("expireat", -3, Group::Generic, "1.2.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key unix-time-seconds [NX | XX | GT | LT]",
            "O(1)",
            "Sets the second at which a key expires.",
        )
        .reply("integer: 1 set, 0 not"),
    Command::new("pexpireat", -3, Group::Generic, "2.6.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key unix-time-milliseconds [NX | XX | GT | LT]",
            "O(1)",
            "Sets the millisecond at which a key expires.",
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
            "Returns the time a key has left, in seconds.",
        )
        .reply("integer: seconds, -1 without, -2 without key"),
    Command::new("pttl", 2, Group::Generic, "2.6.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(1)",
            "Returns the time a key has left, in milliseconds.",
        )
        .reply("integer: milliseconds, -1 without, -2 without key"),
    Command::new("expiretime", 2, Group::Generic, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::READ_KEY)
        .doc("key", "O(1)", "Returns the second at which a key expires.")
        .reply("integer: Unix seconds, -1 without, -2 without key"),
    Command::new("pexpiretime", 2, Group::Generic, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(1)",
            "Returns the millisecond at which a key expires.",
        )
        .reply("integer: Unix milliseconds, -1 without, -2 without key"),
    Command::new("persist", 2, Group::Generic, "2.2.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace])
        .keys(keys::CHANGE_KEY)
        .doc("key", "O(1)", "Removes a key's time to live.")
        .reply("integer: 1 removed, 0 not"),
    Command::new("object", -2, Group::Generic, "2.2.3")
        .doc(
            "",
            "That of the subcommand",
            "Looks at how a value is stored.",
        )
        .reply("that of the subcommand")
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
                            "Names the representation a value is stored in.",
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
                            "Returns the seconds since a key was last used, \
             approximately.",
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
                            "Returns how often a key is used, on a logarithmic \
             scale, approximately.",
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
                            "Returns the number of references to a value.",
                        )
                        .reply("integer or null"),
                    Command::new("object|help", 2, Group::Generic, "6.2.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Keyspace])
                        .doc("", "O(1)", "Explains the subcommands.")
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
            "O(N+M*log(M)) for N elements and M returned; O(N) where \
             they are not sorted",
            "Returns the elements of a list, a set or a sorted set \
             in an order, or stores them as a list.",
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
            "O(N+M*log(M)) for N elements and M returned; O(N) where \
             they are not sorted",
            "Returns the elements of a list, a set or a sorted set \
             in an order.",
        )
        .reply("array of bulk or null"),
    Command::new("wait", 3, Group::Generic, "3.0.0")
        .flags(&[Flag::NoScript])
        .categories(&[Category::Connection])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .doc(
            "numreplicas timeout",
            "O(1)",
            "Returns 0 at once: there are no replicas to wait for.",
        )
        .reply("integer"),
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
            "Answers NOKEY where none of the keys is there; moving \
             those that are is not done yet.",
        )
        .reply("NOKEY, or an error"),
];

/// Redis' notes on the keys that SORT names by patterns, and on the key that it stores into.
const SORTED_BY: &str = "For the optional BY/GET keyword. It is marked 'unknown' \
             because the key names derive from the content of the \
             key we sort";
const SORTED_INTO: &str = "For the optional STORE keyword. It is marked 'unknown' \
             because the keyword can appear anywhere in the argument \
             array";
