//! Defines the table rows for hash commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::keys;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("hset", -4, Group::Hash, "2.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key field value [field value ...]",
            "O(N) for N fields",
            "Sets the values of one or more fields of a hash.",
        )
        .reply("integer: number of added fields"),
    Command::new("hsetnx", 4, Group::Hash, "2.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::ADD_KEY)
        .doc(
            "key field value",
            "O(1)",
            "Sets the value of a field of a hash if the field does not exist.",
        )
        .reply("integer: 1 set, 0 not"),
    Command::new("hmset", -4, Group::Hash, "2.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key field value [field value ...]",
            "O(N) for N fields",
            "Sets the values of one or more fields of a hash; use HSET instead.",
        )
        .reply("OK")
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs"),
    Command::new("hget", 3, Group::Hash, "2.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::READ_KEY)
        .doc(
            "key field",
            "O(1)",
            "Returns the value of a field of a hash.",
        )
        .reply("bulk or null"),
    Command::new("hmget", -3, Group::Hash, "2.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::READ_KEY)
        .doc(
            "key field [field ...]",
            "O(N) for N fields",
            "Returns the values of one or more fields of a hash.",
        )
        .reply("array of bulk or null"),
    Command::new("hgetall", 2, Group::Hash, "2.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Hash])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_KEY)
        .doc(
            "key",
            "O(N) for N fields",
            "Returns all fields and values of a hash.",
        )
        .reply("map of bulk to bulk"),
    Command::new("hdel", -3, Group::Hash, "2.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::DROP_KEY)
        .doc(
            "key field [field ...]",
            "O(N) for N fields",
            "Deletes fields of a hash, and the hash if no fields remain.",
        )
        .reply("integer: number of removed fields"),
    Command::new("hexists", 3, Group::Hash, "2.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::LOOK_KEY)
        .doc(
            "key field",
            "O(1)",
            "Determines whether a field exists in a hash.",
        )
        .reply("integer: 1 yes, 0 no"),
    Command::new("hlen", 2, Group::Hash, "2.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::LOOK_KEY)
        .doc("key", "O(1)", "Returns the number of fields of a hash.")
        .reply("integer"),
    Command::new("hkeys", 2, Group::Hash, "2.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Hash])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_KEY)
        .doc("key", "O(N) for N fields", "Returns all fields of a hash.")
        .reply("array of bulk"),
    Command::new("hvals", 2, Group::Hash, "2.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Hash])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_KEY)
        .doc("key", "O(N) for N fields", "Returns all values of a hash.")
        .reply("array of bulk"),
    Command::new("hstrlen", 3, Group::Hash, "3.2.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::LOOK_KEY)
        .doc(
            "key field",
            "O(1)",
            "Returns the length of the value of a field in bytes.",
        )
        .reply("integer"),
    Command::new("hincrby", 4, Group::Hash, "2.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::READ_AND_CHANGE_KEY)
        .doc(
            "key field increment",
            "O(1)",
            "Increments the integer value of a field of a hash.",
        )
        .reply("integer: the new value"),
    Command::new("hincrbyfloat", 4, Group::Hash, "2.6.0")
        .element(2)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Hash])
        .keys(keys::READ_AND_CHANGE_KEY)
        .doc(
            "key field increment",
            "O(1)",
            "Increments the floating-point value of a field of a hash.",
        )
        .reply("bulk: the new value"),
    Command::new("hrandfield", -2, Group::Hash, "6.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Hash])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key [count [WITHVALUES]]",
            "O(N) for N fields returned",
            "Returns random fields of a hash, with repetitions only if the count is negative.",
        )
        .reply("bulk or null; with a count array of bulk; with WITHVALUES array of pairs"),
    Command::new("hscan", -3, Group::Hash, "2.8.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Hash])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key cursor [MATCH pattern] [COUNT count]",
            "O(1) for each call, O(N) for a complete iteration",
            "Iterates over the fields and values of a hash.",
        )
        .reply("array of the next cursor and an array of alternating fields and values"),
];
