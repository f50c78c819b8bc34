//! Rows of the commands on strings.

use super::keys::{self, CREATE, READ, READ_AND_CHANGE, REPLACE};
use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;

pub(super) const COMMANDS: &[Command] =
    &[
        Command::new("get", 2, Group::String, "1.0.0")
            .flags(&[Flag::ReadOnly, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_KEY)
            .doc("key", "O(1)", "Returns the string stored at a key.")
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
                "Stores a string at a key, on conditions and with a time to live where asked for.",
            )
            .reply("OK, null where NX or XX forbids it; with GET the old value or null"),
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
                "Returns a string and changes or removes its time to live.",
            )
            .reply("bulk or null"),
        Command::new("getdel", 2, Group::String, "6.2.0")
            .flags(&[Flag::Write, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::TAKE_KEY)
            .doc("key", "O(1)", "Returns a string and deletes its key.")
            .reply("bulk or null"),
        Command::new("getset", 3, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc(
                "key value",
                "O(1)",
                "Stores a string and returns the one it replaces.",
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
                "Stores a string where the key does not exist yet.",
            )
            .reply("integer: 1 stored, 0 not"),
        Command::new("setex", 4, Group::String, "2.0.0")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .keys(keys::REPLACE_KEY)
            .doc(
                "key seconds value",
                "O(1)",
                "Stores a string with a time to live in seconds.",
            )
            .reply("OK"),
        Command::new("psetex", 4, Group::String, "2.6.0")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .keys(keys::REPLACE_KEY)
            .doc(
                "key milliseconds value",
                "O(1)",
                "Stores a string with a time to live in milliseconds.",
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
                "Returns the strings of several keys at one moment.",
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
                "Stores several strings at once: all or none.",
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
                "Stores several strings where none of the keys exists.",
            )
            .reply("integer: 1 stored, 0 not"),
        Command::new("append", 3, Group::String, "2.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::ADD_KEY)
            .doc(
                "key value",
                "O(N) in the length of the new value; O(1) amortized",
                "Adds bytes at the end of a string, which may be new.",
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
                "O(N) in the length of the result",
                "Returns part of a string; negative positions count from its end.",
            )
            .reply("bulk"),
        Command::new("setrange", 4, Group::String, "2.2.0")
            .flags(&[Flag::Write, Flag::DenyOom])
            .categories(&[Category::String])
            .keys(keys::CHANGE_KEY)
            .doc(
                "key offset value",
                "O(N) in the length of the new value",
                "Overwrites part of a string, filling a gap before it with zero bytes.",
            )
            .reply("integer: the new length"),
        Command::new("substr", 4, Group::String, "1.0.0")
            .flags(&[Flag::ReadOnly])
            .categories(&[Category::String])
            .keys(keys::READ_KEY)
            .doc(
                "key start end",
                "O(N) in the length of the result",
                "The old name of GETRANGE.",
            )
            .reply("bulk")
            .deprecated("2.0.0", "`GETRANGE`"),
        Command::new("incr", 2, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc("key", "O(1)", "Adds one to an integer.")
            .reply("integer: the new value"),
        Command::new("decr", 2, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc("key", "O(1)", "Takes one from an integer.")
            .reply("integer: the new value"),
        Command::new("incrby", 3, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc("key increment", "O(1)", "Adds to an integer.")
            .reply("integer: the new value"),
        Command::new("decrby", 3, Group::String, "1.0.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc("key decrement", "O(1)", "Takes from an integer.")
            .reply("integer: the new value"),
        Command::new("incrbyfloat", 3, Group::String, "2.6.0")
            .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
            .categories(&[Category::String])
            .keys(keys::READ_AND_CHANGE_KEY)
            .doc("key increment", "O(1)", "Adds to a floating point number.")
            .reply("bulk: the new value"),
        Command::new("lcs", -3, Group::String, "7.0.0")
            .flags(&[Flag::ReadOnly])
            .categories(&[Category::String])
            .keys(const { &[KeySpec::range(1, 1, 1, READ)] })
            .doc(
                "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]",
                "O(N*M) in the two lengths",
                "Finds the longest common subsequence of two strings.",
            )
            .reply("bulk; with LEN an integer; with IDX a map of matches and len"),
    ];
