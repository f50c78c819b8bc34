//! Defines the table rows for list commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::keys;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("lpush", -3, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key element [element ...]",
            "O(N) for N elements",
            "Prepends elements to a list, creating it if necessary.",
        )
        .reply("integer: the new length"),
    Command::new("rpush", -3, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key element [element ...]",
            "O(N) for N elements",
            "Appends elements to a list, creating it if necessary.",
        )
        .reply("integer: the new length"),
    Command::new("lpushx", -3, Group::List, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key element [element ...]",
            "O(N) for N elements",
            "Prepends elements to a list if the list exists.",
        )
        .reply("integer: the new length, or 0 if the list does not exist"),
    Command::new("rpushx", -3, Group::List, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key element [element ...]",
            "O(N) for N elements",
            "Appends elements to a list if the list exists.",
        )
        .reply("integer: the new length, or 0 if the list does not exist"),
    Command::new("lpop", -2, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(N) for N elements returned",
            "Removes and returns elements from the head of a list.",
        )
        .reply("bulk or null; with a count array of bulk or null array"),
    Command::new("rpop", -2, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(N) for N elements returned",
            "Removes and returns elements from the tail of a list.",
        )
        .reply("bulk or null; with a count array of bulk or null array"),
    Command::new("llen", 2, Group::List, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::List])
        .keys(keys::LOOK_KEY)
        .doc("key", "O(1)", "Returns the length of a list.")
        .reply("integer"),
    Command::new("lrange", 4, Group::List, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::List])
        .keys(keys::READ_KEY)
        .doc(
            "key start stop",
            "O(log N + M) for M elements returned",
            "Returns a range of elements of a list; negative indexes count from the tail.",
        )
        .reply("array of bulk"),
    Command::new("lindex", 3, Group::List, "1.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::List])
        .keys(keys::READ_KEY)
        .doc(
            "key index",
            "O(log N)",
            "Returns the element at an index of a list.",
        )
        .reply("bulk or null"),
    Command::new("lset", 4, Group::List, "1.0.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::List])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key index element",
            "O(log N)",
            "Sets the element at an index of a list.",
        )
        .reply("OK"),
    Command::new("linsert", 5, Group::List, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::List])
        .keys(keys::ADD_KEY)
        .doc(
            "key BEFORE | AFTER pivot element",
            "O(N) to find the pivot",
            "Inserts an element before or after the first element that equals the pivot.",
        )
        .reply(
            "integer: the new length, 0 if the list does not exist, -1 if the pivot is not found",
        ),
    Command::new("lrem", 4, Group::List, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::List])
        .keys(keys::DROP_KEY)
        .doc(
            "key count element",
            "O(N)",
            "Removes the first (count > 0), the last (count < 0) or all (count = 0) elements that \
             equal a value.",
        )
        .reply("integer: number of removed elements"),
    Command::new("ltrim", 4, Group::List, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::List])
        .keys(keys::DROP_KEY)
        .doc(
            "key start stop",
            "O(log N)",
            "Trims a list to a range of elements.",
        )
        .reply("OK"),
    Command::new("lpos", -3, Group::List, "6.0.6")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::List])
        .keys(keys::READ_KEY)
        .doc(
            "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
            "O(N)",
            "Returns the indexes of matching elements in a list.",
        )
        .reply("integer or null; with COUNT array of integers"),
    Command::new("lmove", 5, Group::List, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::List])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination LEFT | RIGHT LEFT | RIGHT",
            "O(log N)",
            "Moves an element from either end of a list to either end of another list and returns \
             it.",
        )
        .reply("bulk or null: the element"),
    Command::new("rpoplpush", 3, Group::List, "1.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::List])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination",
            "O(log N)",
            "Moves the last element of a list to the head of another list and returns it.",
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
            "Removes and returns elements from either end of the first non-empty list.",
        )
        .reply("array of the key and an array of bulk; null array if all lists are empty"),
    Command::new("blpop", -3, Group::List, "2.0.0")
        .flags(&[Flag::Write, Flag::NoScript, Flag::Blocking])
        .categories(&[Category::List])
        .keys(keys::TAKE_ALL_BUT_LAST)
        .doc(
            "key [key ...] timeout",
            "O(N) for N keys",
            "Removes and returns the first element of the first non-empty list. Blocks until an \
             element is available.",
        )
        .reply("array of the key and the element; null array after a timeout"),
    Command::new("brpop", -3, Group::List, "2.0.0")
        .flags(&[Flag::Write, Flag::NoScript, Flag::Blocking])
        .categories(&[Category::List])
        .keys(keys::TAKE_ALL_BUT_LAST)
        .doc(
            "key [key ...] timeout",
            "O(N) for N keys",
            "Removes and returns the last element of the first non-empty list. Blocks until an \
             element is available.",
        )
        .reply("array of the key and the element; null array after a timeout"),
    Command::new("blmove", 6, Group::List, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking])
        .categories(&[Category::List])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination LEFT | RIGHT LEFT | RIGHT timeout",
            "O(log N)",
            "The blocking variant of LMOVE.",
        )
        .reply("bulk: the element; null after a timeout"),
    Command::new("brpoplpush", 4, Group::List, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::NoScript, Flag::Blocking])
        .categories(&[Category::List])
        .keys(keys::MOVE_ITEM)
        .doc(
            "source destination timeout",
            "O(log N)",
            "The blocking variant of RPOPLPUSH.",
        )
        .reply("bulk: the element; null after a timeout")
        .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
    Command::new("blmpop", -5, Group::List, "7.0.0")
        .flags(&[Flag::Write, Flag::Blocking, Flag::MovableKeys])
        .categories(&[Category::List])
        .keys(keys::WAIT_COUNTED)
        .doc(
            "timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]",
            "O(N + M) for N keys and M elements returned",
            "The blocking variant of LMPOP.",
        )
        .reply("array of the key and an array of bulk; null array after a timeout"),
];
