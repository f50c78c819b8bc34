//! Defines the table rows for set commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::key_spec::KeySpec;
use crate::table::keys::{self, CHANGE, READ};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sadd", -3, Group::Set, "1.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::ADD_KEY)
        .doc(
            "key member [member ...]",
            "O(N) for N members",
            "Adds members to a set, creating it if necessary.",
        )
        .reply("integer: number of added members"),
    Command::new("srem", -3, Group::Set, "1.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::DROP_KEY)
        .doc(
            "key member [member ...]",
            "O(N) for N members",
            "Removes members from a set, and deletes the set if no members remain.",
        )
        .reply("integer: number of removed members"),
    Command::new("sismember", 3, Group::Set, "1.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::LOOK_KEY)
        .doc(
            "key member",
            "O(1)",
            "Determines whether a value is a member of a set.",
        )
        .reply("integer: 1 yes, 0 no"),
    Command::new("smismember", -3, Group::Set, "6.2.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::READ_KEY)
        .doc(
            "key member [member ...]",
            "O(N) for N members",
            "Determines which of several values are members of a set.",
        )
        .reply("array of integer: 1 yes, 0 no"),
    Command::new("scard", 2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::LOOK_KEY)
        .doc("key", "O(1)", "Returns the number of members of a set.")
        .reply("integer"),
    Command::new("smembers", 2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_KEY)
        .doc("key", "O(N) for N members", "Returns all members of a set.")
        .reply("set of bulk"),
    Command::new("spop", -2, Group::Set, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output"])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(N) for N members",
            "Removes and returns random members of a set.",
        )
        .reply("bulk or null; with a count set of bulk"),
    Command::new("srandmember", -2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key [count]",
            "O(N) for N members",
            "Returns random members of a set, with repetitions only if the count is negative.",
        )
        .reply("bulk or null; with a count array of bulk"),
    Command::new("smove", 4, Group::Set, "1.0.0")
        .element(3)
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination member",
            "O(1)",
            "Moves a member from one set to another.",
        )
        .reply("integer: 1 moved, 0 not a member"),
    Command::new("sinter", -2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_ALL)
        .doc(
            "key [key ...]",
            "O(N*M) for M sets, the smallest of which has N members",
            "Returns the intersection of sets.",
        )
        .reply("set of bulk"),
    Command::new("sinterstore", -3, Group::Set, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Set])
        .keys(const { &[KeySpec::first(CHANGE), KeySpec::all_from(2, READ)] })
        .doc(
            "destination key [key ...]",
            "O(N*M) for M sets, the smallest of which has N members",
            "Stores the intersection of sets at a key.",
        )
        .reply("integer: number of members in the result"),
    Command::new("sintercard", -3, Group::Set, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Set])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [LIMIT limit]",
            "O(N*M) for M sets, the smallest of which has N members",
            "Returns the number of members of the intersection of sets.",
        )
        .reply("integer"),
    Command::new("sunion", -2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N members in all sets",
            "Returns the union of sets.",
        )
        .reply("set of bulk"),
    Command::new("sunionstore", -3, Group::Set, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Set])
        .keys(keys::STORE_ALL)
        .doc(
            "destination key [key ...]",
            "O(N) for N members in all sets",
            "Stores the union of sets at a key.",
        )
        .reply("integer: number of members in the result"),
    Command::new("sdiff", -2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N members in all sets",
            "Returns the difference of the first set and the following sets.",
        )
        .reply("set of bulk"),
    Command::new("sdiffstore", -3, Group::Set, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Set])
        .keys(keys::STORE_ALL)
        .doc(
            "destination key [key ...]",
            "O(N) for N members in all sets",
            "Stores the difference of the first set and the following sets at a key.",
        )
        .reply("integer: number of members in the result"),
    Command::new("sscan", -3, Group::Set, "2.8.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key cursor [MATCH pattern] [COUNT count]",
            "O(1) for each call, O(N) for a complete iteration",
            "Iterates over the members of a set.",
        )
        .reply("array of the next cursor and an array of members"),
];
