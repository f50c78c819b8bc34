//! Defines the table rows for string commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;
use crate::table::keys::{self, CREATE, READ, READ_AND_CHANGE, REPLACE};

pub(super) const COMMANDS: &[Command] =
    &[
        Command::new("get", 2, Group::String, "1.0.0")
            .flags(&[Flag::ReadOnly, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_KEY)
            .doc("key", "O(1)", "Returns the string value of a key.")
            .reply("bulk or null"),
        Command::new("set", -3, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .keys(
                const {
                    &[KeySpec::first(&[
                        KeyFlag::ReadWrite,
                        KeyFlag::Access,
                        KeyFlag::Update,
                        KeyFlag::VariableFlags,
                    ])
                    .notes("RW and ACCESS due to the optional `GET` argument")]
                },
            )
            .doc(
                "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT \
             unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
                "O(1)",
                "Sets the string value of a key, optionally under a condition and with an \
                 expiration.",
            )
            .reply("OK, or null if NX or XX prevented the write; with GET the old value or null"),
        Command::new("getex", -2, Group::String, "6.2.0")
            .flags(&[Flag::Write, Flag::Fast])
            .categories(&[Category::String])
            .keys(
                const {
                    &[KeySpec::first(READ_AND_CHANGE)
                        .notes("RW and UPDATE because it changes the TTL")]
                },
            )
            .doc(
                "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
             unix-time-milliseconds | PERSIST]",
                "O(1)",
                "Returns the string value of a key and sets or removes its expiration.",
            )
            .reply("bulk or null"),
        Command::new("getdel", 2, Group::String, "6.2.0")
            .flags(&[Flag::Write, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::TAKE_KEY)
            .doc(
                "key",
                "O(1)",
                "Returns the string value of a key and deletes the key.",
            )
            .reply("bulk or null"),
        Command::new("getset", 3, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc(
                "key value",
                "O(1)",
                "Sets the string value of a key and returns the previous value.",
            )
            .reply("bulk or null: the old value")
            .deprecated("6.2.0", "`SET` with the `GET` argument"),
        Command::new("setnx", 3, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(const { &[KeySpec::first(CREATE)] })
            .doc(
                "key value",
                "O(1)",
                "Sets the string value of a key if the key does not exist.",
            )
            .reply("integer: 1 stored, 0 not"),
        Command::new("setex", 4, Group::String, "2.0.0")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .keys(keys::REPLACE_KEY)
            .doc(
                "key seconds value",
                "O(1)",
                "Sets the string value of a key with an expiration in seconds.",
            )
            .reply("OK"),
        Command::new("psetex", 4, Group::String, "2.6.0")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .keys(keys::REPLACE_KEY)
            .doc(
                "key milliseconds value",
                "O(1)",
                "Sets the string value of a key with an expiration in milliseconds.",
            )
            .reply("OK"),
        Command::new("mget", -2, Group::String, "1.0.0")
            .flags(&[Flag::ReadOnly, Flag::Fast])
            .categories(&[Category::String])
            .tips(&["request_policy:multi_shard"])
            .keys(keys::READ_ALL)
            .doc(
                "key [key ...]",
                "O(N) for N keys",
                "Atomically returns the string values of one or more keys.",
            )
            .reply("array of bulk or null"),
        Command::new("mset", -3, Group::String, "1.0.1")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .tips(&[
                "request_policy:multi_shard",
                "response_policy:all_succeeded",
            ])
            .keys(const { &[KeySpec::range(1, -1, 2, REPLACE)] })
            .doc(
                "key value [key value ...]",
                "O(N) for N keys",
                "Atomically sets the string values of one or more keys.",
            )
            .reply("OK"),
        Command::new("msetnx", -3, Group::String, "1.0.1")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
            .keys(const { &[KeySpec::range(1, -1, 2, CREATE)] })
            .doc(
                "key value [key value ...]",
                "O(N) for N keys",
                "Atomically sets the string values of one or more keys if none of the keys exists.",
            )
            .reply("integer: 1 stored, 0 not"),
        Command::new("append", 3, Group::String, "2.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::ADD_KEY)
            .doc(
                "key value",
                "O(1) amortized; O(N) at worst for a string of N bytes",
                "Appends bytes to the string value of a key, creating the key if necessary.",
            )
            .reply("integer: the new length"),
        Command::new("strlen", 2, Group::String, "2.2.0")
            .flags(&[Flag::ReadOnly, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::LOOK_KEY)
            .doc("key", "O(1)", "Returns the length of a string in bytes.")
            .reply("integer"),
        Command::new("getrange", 4, Group::String, "2.4.0")
            .flags(&[Flag::ReadOnly])
            .categories(&[Category::String])
            .keys(keys::READ_KEY)
            .doc(
                "key start end",
                "O(N) for N bytes returned",
                "Returns a substring of the string value of a key; negative offsets count from the \
                 end.",
            )
            .reply("bulk"),
        Command::new("setrange", 4, Group::String, "2.2.0")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .keys(keys::CHANGE_KEY)
            .doc(
                "key offset value",
                "O(N) for a resulting string of N bytes",
                "Overwrites part of a string from an offset, padding the string with zero bytes if \
                 it is shorter.",
            )
            .reply("integer: the new length"),
        Command::new("substr", 4, Group::String, "1.0.0")
            .flags(&[Flag::ReadOnly])
            .categories(&[Category::String])
            .keys(keys::READ_KEY)
            .doc(
                "key start end",
                "O(N) for N bytes returned",
                "A deprecated alias of GETRANGE.",
            )
            .reply("bulk")
            .deprecated("2.0.0", "`GETRANGE`"),
        Command::new("incr", 2, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc(
                "key",
                "O(1)",
                "Increments the integer value of a key by one.",
            )
            .reply("integer: the new value"),
        Command::new("decr", 2, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc(
                "key",
                "O(1)",
                "Decrements the integer value of a key by one.",
            )
            .reply("integer: the new value"),
        Command::new("incrby", 3, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc(
                "key increment",
                "O(1)",
                "Increments the integer value of a key by a number.",
            )
            .reply("integer: the new value"),
        Command::new("decrby", 3, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc(
                "key decrement",
                "O(1)",
                "Decrements the integer value of a key by a number.",
            )
            .reply("integer: the new value"),
        Command::new("incrbyfloat", 3, Group::String, "2.6.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc(
                "key increment",
                "O(1)",
                "Increments the floating-point value of a key by a number.",
            )
            .reply("bulk: the new value"),
        Command::new("lcs", -3, Group::String, "7.0.0")
            .flags(&[Flag::ReadOnly])
            .categories(&[Category::String])
            .keys(const { &[KeySpec::range(1, 1, 1, READ)] })
            .doc(
                "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]",
                "O(N*M) for strings of N and M bytes",
                "Finds the longest common subsequence of two strings.",
            )
            .reply("bulk; with LEN an integer; with IDX a map of matches and len"),
    ];
