//! Rows of the commands on lists.

use super::keys;
use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("lpush", -3, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key element [element ...]",
            "O(N) for N elements",
            "Adds elements at the head of a list, which may be new.",
        )
        .reply("integer: the new length"),
    Command::new("rpush", -3, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key element [element ...]",
            "O(N) for N elements",
            "Adds elements at the tail of a list, which may be new.",
        )
        .reply("integer: the new length"),
    Command::new("lpushx", -3, Group::List, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key element [element ...]",
            "O(N) for N elements",
            "Adds elements at the head of a list that exists.",
        )
        .reply("integer: the new length, 0 where there is no list"),
    Command::new("rpushx", -3, Group::List, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key element [element ...]",
            "O(N) for N elements",
            "Adds elements at the tail of a list that exists.",
        )
        .reply("integer: the new length, 0 where there is no list"),
    Command::new("lpop", -2, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(N) for N elements returned",
            "Takes elements from the head of a list.",
        )
        .reply("bulk or null; with a count array of bulk or null array"),
    Command::new("rpop", -2, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(N) for N elements returned",
            "Takes elements from the tail of a list.",
        )
        .reply("bulk or null; with a count array of bulk or null array"),
    Command::new("llen", 2, Group::List, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::LOOK_KEY)
        .doc("key", "O(1)", "Counts the elements of a list.")
        .reply("integer"),
    Command::new("lrange", 4, Group::List, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::List])
        .keys(keys::READ_KEY)
        .doc(
            "key start stop",
            "O(log N + M) for M elements returned",
            "Returns elements of a list by position; negative positions count from its end.",
        )
        .reply("array of bulk"),
    Command::new("lindex", 3, Group::List, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::List])
        .keys(keys::READ_KEY)
        .doc(
            "key index",
            "O(log N)",
            "Returns the element at a position of a list.",
        )
        .reply("bulk or null"),
    Command::new("lset", 4, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::List])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key index element",
            "O(log N)",
            "Replaces the element at a position of a list.",
        )
        .reply("OK"),
    Command::new("linsert", 5, Group::List, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key BEFORE | AFTER pivot element",
            "O(N) to find the pivot",
            "Adds an element before or behind the first one that equals the pivot.",
        )
        .reply("integer: the new length, 0 where there is no list, -1 where there is no pivot"),
    Command::new("lrem", 4, Group::List, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::List])
        .keys(keys::DROP_KEY)
        .doc(
            "key count element",
            "O(N)",
            "Removes elements that equal one: the first count, the last where negative, all \
             where zero.",
        )
        .reply("integer: how many were removed"),
    Command::new("ltrim", 4, Group::List, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::List])
        .keys(keys::DROP_KEY)
        .doc(
            "key start stop",
            "O(log N)",
            "Keeps elements of a list by position only.",
        )
        .reply("OK"),
    Command::new("lpos", -3, Group::List, "6.0.6")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::List])
        .keys(keys::READ_KEY)
        .doc(
            "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
            "O(N)",
            "Finds the positions of an element in a list.",
        )
        .reply("integer or null; with COUNT array of integers"),
    Command::new("lmove", 5, Group::List, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::List])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination LEFT | RIGHT LEFT | RIGHT",
            "O(log N)",
            "Moves an element from an end of one list to an end of another.",
        )
        .reply("bulk or null: the element"),
    Command::new("rpoplpush", 3, Group::List, "1.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::List])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination",
            "O(log N)",
            "Moves the last element of one list to the head of another.",
        )
        .reply("bulk or null: the element")
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
    Command::new("lmpop", -4, Group::List, "7.0.0")
        .flags(&[Flag::Write, Flag::MovableKeys])
        .categories(&[Category::List])
        .keys(keys::TAKE_COUNTED)
        .doc(
            "numkeys key [key ...] LEFT | RIGHT [COUNT count]",
            "O(N + M) for N keys and M elements returned",
            "Takes elements from an end of the first of several lists that has any.",
        )
        .reply("array of the key and an array of bulk; null array where all are empty"),
    Command::new("blpop", -3, Group::List, "2.0.0")
        .flags(&[Flag::Write, Flag::NoScript, Flag::Blocking])
        .categories(&[Category::List])
        .keys(keys::TAKE_ALL_BUT_LAST)
        .doc(
            "key [key ...] timeout",
            "O(N) for N keys",
            "Takes an element from the head of the first of several lists that has any, or \
             waits for one.",
        )
        .reply("array of the key and the element; null array where there was none in time"),
    Command::new("brpop", -3, Group::List, "2.0.0")
        .flags(&[Flag::Write, Flag::NoScript, Flag::Blocking])
        .categories(&[Category::List])
        .keys(keys::TAKE_ALL_BUT_LAST)
        .doc(
            "key [key ...] timeout",
            "O(N) for N keys",
            "Takes an element from the tail of the first of several lists that has any, or \
             waits for one.",
        )
        .reply("array of the key and the element; null array where there was none in time"),
    Command::new("blmove", 6, Group::List, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking])
        .categories(&[Category::List])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination LEFT | RIGHT LEFT | RIGHT timeout",
            "O(log N)",
            "Moves an element from an end of one list to an end of another, or waits for one.",
        )
        .reply("bulk: the element; null where there was none in time"),
    Command::new("brpoplpush", 4, Group::List, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking])
        .categories(&[Category::List])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination timeout",
            "O(log N)",
            "Moves the last element of one list to the head of another, or waits for one.",
        )
        .reply("bulk: the element; null where there was none in time")
        .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
    Command::new("blmpop", -5, Group::List, "7.0.0")
        .flags(&[Flag::Write, Flag::Blocking, Flag::MovableKeys])
        .categories(&[Category::List])
        .keys(keys::WAIT_COUNTED)
        .doc(
            "timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]",
            "O(N + M) for N keys and M elements returned",
            "Takes elements from an end of the first of several lists that has any, or waits \
             for some.",
        )
        .reply("array of the key and an array of bulk; null array where there was none in time"),
];
