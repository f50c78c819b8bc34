//! Defines the table rows for feed commands, which Redis does not have.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::keys;

const SINCE: &str = "0.1.0";

const fn command(name: &'static str, arity: i32) -> Command {
    Command::new(name, arity, Group::Feed, SINCE)
}

pub(super) const COMMANDS: &[Command] = &[
    command("feed.create", -4)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Feed])
        .keys(keys::ADD_KEY)
        .doc(
            "key SIZE bytes [ATTRS bits[:bits...]] [ORDER LIST | QUEUE | SORTED [TYPE INT32 | \
             UINT32 | INT64 | UINT64 | FLOAT32 | FLOAT64 | BYTES | TEXT] [UNIQUE]] [INDEX]",
            "O(1)",
            "Creates a feed, a list of fixed-size values with integer attributes.",
        )
        .reply("simple string OK; an error if the key exists"),
    command("feed.add", -4)
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Feed])
        .keys(keys::ADD_KEY)
        .doc(
            "key position value [ATTRS attributes] [value [ATTRS attributes] ...]",
            "O(log N + M) for M values; O(M * log N) in a sorted feed or with an index",
            "Inserts values into a feed at a position; the position in a sorted feed is *.",
        )
        .reply("integer: number of items, including hidden items"),
    command("feed.del", -3)
        .flags(&[Flag::Write])
        .categories(&[Category::Feed])
        .keys(keys::DROP_KEY)
        .doc(
            "key value [value ...]",
            "O(N + M) for M values; O(M * log N) in a sorted feed or with an index",
            "Removes all items with the given values from a feed.",
        )
        .reply("integer: number of removed items"),
    command("feed.delwhere", -3)
        .flags(&[Flag::Write])
        .categories(&[Category::Feed])
        .keys(keys::DROP_KEY)
        .doc(
            "key filter [VISIBLE | HIDDEN | ALL] [BETWEEN low high]",
            "O(N) for N items in the parts of the feed that can match",
            "Removes all items of a feed that match a filter; BETWEEN restricts the removal to a \
             range of values of a sorted feed.",
        )
        .reply("integer: number of removed items"),
    command("feed.move", 4)
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Feed])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key value position",
            "O(N) to find the item, O(log N) with an index; O(log N) to move it",
            "Moves the first item with a value to a position of an unsorted feed.",
        )
        .reply("integer: 1 if the item exists, otherwise 0"),
    command("feed.setattr", 4)
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Feed])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key value attributes",
            "O(N); O(log N) in a sorted feed or with an index",
            "Sets attributes of all items with a value, keeping attributes that are left blank.",
        )
        .reply("integer: number of items with the value"),
    command("feed.hide", -3)
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Feed])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key value [value ...]",
            "O(N + M) for M values; O(M * log N) in a sorted feed or with an index",
            "Hides all items with the given values without moving them.",
        )
        .reply("integer: number of items that were visible"),
    command("feed.show", -3)
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Feed])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key value [value ...]",
            "O(N + M) for M values; O(M * log N) in a sorted feed or with an index",
            "Makes all hidden items with the given values visible again.",
        )
        .reply("integer: number of items that were hidden"),
    command("feed.range", -4)
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Feed])
        .keys(keys::READ_KEY)
        .doc(
            "key from count [VISIBLE | HIDDEN | ALL] [WHERE filter] [WITHATTRS] [REV]",
            "O(log N + M) for M items returned; with a filter O(N) for N items in the parts of the \
             feed that can match",
            "Returns values from a position, which counts only the items that the query sees.",
        )
        .reply("array of bulk; with WITHATTRS each value is followed by its attributes"),
    command("feed.between", -4)
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Feed])
        .keys(keys::READ_KEY)
        .doc(
            "key low high [LIMIT from count] [VISIBLE | HIDDEN | ALL] [WHERE filter] [WITHATTRS] \
             [REV]",
            "O(log N + M) for M items returned; with a filter or an offset, M counts the items of \
             the range in the parts of the feed that can match",
            "Returns the values of a sorted feed within a range, written as for ZRANGEBYSCORE or \
             ZRANGEBYLEX.",
        )
        .reply("array of bulk; with WITHATTRS each value is followed by its attributes"),
    command("feed.count", -2)
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Feed])
        .keys(keys::LOOK_KEY)
        .doc(
            "key [VISIBLE | HIDDEN | ALL] [WHERE filter] [BETWEEN low high]",
            "O(log N); with a filter O(N) for N items in the parts of the feed that can match",
            "Counts the items of a feed; BETWEEN restricts the count to a range of values of a \
             sorted feed.",
        )
        .reply("integer: number of items"),
    command("feed.pos", -3)
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Feed])
        .keys(keys::READ_KEY)
        .doc(
            "key value [VISIBLE | HIDDEN | ALL]",
            "O(N); O(log N) in a sorted feed or with an index",
            "Returns the position of the first item with a value, counting only the items that the \
             query sees.",
        )
        .reply("integer: the position; null if the item does not exist or is not seen"),
    command("feed.pop", -3)
        .flags(&[Flag::Write])
        .categories(&[Category::Feed])
        .keys(keys::TAKE_KEY)
        .doc(
            "key LEFT | RIGHT [count]",
            "O(log N + M) for M items returned",
            "Removes and returns visible items from either end of a feed.",
        )
        .reply("bulk: the value, or null if the feed is empty; with a count array of bulk"),
    command("feed.info", 2)
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Feed])
        .keys(keys::LOOK_KEY)
        .doc(
            "key",
            "O(N) for N inner nodes of the feed",
            "Returns the schema, the number of items and the memory use of a feed.",
        )
        .reply("map of names and values"),
    command("feed.compact", 2)
        .flags(&[Flag::Write])
        .categories(&[Category::Feed])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key",
            "O(N)",
            "Rewrites a feed so that it takes as little memory as possible.",
        )
        .reply("simple string OK"),
];
