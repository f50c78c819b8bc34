//! Rows of the commands on sets.

use super::keys::{self, CHANGE, READ};
use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::key_spec::KeySpec;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sadd", -3, Group::Set, "1.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::ADD_KEY)
        .doc(
            "key member [member ...]",
            "O(N) for N members",
            "Adds members to a set.",
        )
        .reply("integer: how many are new"),
    Command::new("srem", -3, Group::Set, "1.0.0")
        .element(2)
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::DROP_KEY)
        .doc(
            "key member [member ...]",
            "O(N) for N members",
            "Removes members of a set, and the set with the last of them.",
        )
        .reply("integer: how many were there"),
    Command::new("sismember", 3, Group::Set, "1.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::LOOK_KEY)
        .doc("key member", "O(1)", "Says whether a set has a member.")
        .reply("integer: 1 yes, 0 no"),
    Command::new("smismember", -3, Group::Set, "6.2.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::READ_KEY)
        .doc(
            "key member [member ...]",
            "O(N) for N members",
            "Says which of several members a set has.",
        )
        .reply("array of integer: 1 yes, 0 no"),
    Command::new("scard", 2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Set])
        .keys(keys::LOOK_KEY)
        .doc("key", "O(1)", "Counts the members of a set.")
        .reply("integer"),
    Command::new("smembers", 2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_KEY)
        .doc("key", "O(N) for N members", "Returns the members of a set.")
        .reply("set of bulk"),
    Command::new("spop", -2, Group::Set, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output"])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(N) for N members",
            "Removes members chosen by chance and returns them.",
        )
        .reply("bulk or null; with a count a set of bulk"),
    Command::new("srandmember", -2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key [count]",
            "O(N) for N members",
            "Returns members chosen by chance, different ones unless the count is negative.",
        )
        .reply("bulk or null; with a count an array of bulk"),
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
        .reply("integer: 1 moved, 0 not there"),
    Command::new("sinter", -2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_ALL)
        .doc(
            "key [key ...]",
            "O(N*M) for the smallest of M sets with N members",
            "Returns what is in all of several sets.",
        )
        .reply("set of bulk"),
    Command::new("sinterstore", -3, Group::Set, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Set])
        .keys(const { &[KeySpec::first(CHANGE), KeySpec::all_from(2, READ)] })
        .doc(
            "destination key [key ...]",
            "O(N*M) for the smallest of M sets with N members",
            "Stores what is in all of several sets.",
        )
        .reply("integer: members of the result"),
    Command::new("sintercard", -3, Group::Set, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Set])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [LIMIT limit]",
            "O(N*M) for the smallest of M sets with N members",
            "Counts what is in all of several sets.",
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
            "Returns what is in any of several sets.",
        )
        .reply("set of bulk"),
    Command::new("sunionstore", -3, Group::Set, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Set])
        .keys(keys::STORE_ALL)
        .doc(
            "destination key [key ...]",
            "O(N) for N members in all sets",
            "Stores what is in any of several sets.",
        )
        .reply("integer: members of the result"),
    Command::new("sdiff", -2, Group::Set, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output_order"])
        .keys(keys::READ_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N members in all sets",
            "Returns what is in the first of several sets and in none of the others.",
        )
        .reply("set of bulk"),
    Command::new("sdiffstore", -3, Group::Set, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Set])
        .keys(keys::STORE_ALL)
        .doc(
            "destination key [key ...]",
            "O(N) for N members in all sets",
            "Stores what is in the first of several sets and in none of the others.",
        )
        .reply("integer: members of the result"),
    Command::new("sscan", -3, Group::Set, "2.8.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Set])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key cursor [MATCH pattern] [COUNT count]",
            "O(1) for a call, O(N) for a whole iteration",
            "Lists the members of a set in small portions, each from where the last one ended.",
        )
        .reply("array of the next cursor and an array of members"),
];
