//! Rows of the feed commands, which Redis does not have.

use super::keys;
use crate::table::command::Command;
use crate::table::flags::{Flag, Group};

const SINCE: &str = "0.1.0";

const fn command(name: &'static str, arity: i32) -> Command {
    Command::new(name, arity, Group::Feed, SINCE)
}

pub(super) const COMMANDS: &[Command] = &[
    command("feed.create", -4)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .keys(keys::ADD_KEY)
        .doc(
            "key SIZE bytes [ATTRS bits[:bits...]] [ORDER LIST | QUEUE | SORTED [TYPE INT32 | UINT32 | INT64 | UINT64 | FLOAT32 | FLOAT64 | BYTES | TEXT] [UNIQUE]] [INDEX]",
            "O(1)",
            "Makes a feed: a list of values of one size, with attributes of some bits each.",
        )
        .reply("simple string OK; an error where the key exists"),
    command("feed.add", -4)
        .flags(&[Flag::Write, Flag::DenyOom])
        .keys(keys::ADD_KEY)
        .doc(
            "key position value [ATTRS attributes] [value [ATTRS attributes] ...]",
            "O(log N + M) for M values; O(M * log N) in a sorted feed or with an index",
            "Puts values into a feed, one behind the other, before the item at a position or behind the last; a sorted feed has * for a position.",
        )
        .reply("integer: number of items, hidden ones included"),
    command("feed.del", -3)
        .flags(&[Flag::Write])
        .keys(keys::DROP_KEY)
        .doc(
            "key value [value ...]",
            "O(N + M) for M values; O(M * log N) in a sorted feed or with an index",
            "Removes all items with some values from a feed.",
        )
        .reply("integer: items that were removed"),
    command("feed.delwhere", -3)
        .flags(&[Flag::Write])
        .keys(keys::DROP_KEY)
        .doc(
            "key filter [VISIBLE | HIDDEN | ALL] [BETWEEN low high]",
            "O(N), as far as parts of the feed can match",
            "Removes all items of a feed that a filter lets through; with BETWEEN, of a sorted feed, those whose values lie between two, as for FEED.BETWEEN.",
        )
        .reply("integer: items that were removed"),
    command("feed.move", 4)
        .flags(&[Flag::Write, Flag::DenyOom])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key value position",
            "O(N) to find it, O(log N) with an index; O(log N) to move it",
            "Moves the first item with a value to a position among the others; not in a sorted feed.",
        )
        .reply("integer: 1 where there is such an item, else 0"),
    command("feed.setattr", 4)
        .flags(&[Flag::Write, Flag::DenyOom])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key value attributes",
            "O(N); O(log N) in a sorted feed or with an index",
            "Sets attributes of all items with a value; those left blank stay.",
        )
        .reply("integer: items with the value"),
    command("feed.hide", -3)
        .flags(&[Flag::Write, Flag::DenyOom])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key value [value ...]",
            "O(N + M) for M values; O(M * log N) in a sorted feed or with an index",
            "Hides all items with some values, which stay where they are.",
        )
        .reply("integer: items that were visible"),
    command("feed.show", -3)
        .flags(&[Flag::Write, Flag::DenyOom])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key value [value ...]",
            "O(N + M) for M values; O(M * log N) in a sorted feed or with an index",
            "Lets all items with some values be visible again.",
        )
        .reply("integer: items that were hidden"),
    command("feed.range", -4)
        .flags(&[Flag::ReadOnly])
        .keys(keys::READ_KEY)
        .doc(
            "key from count [VISIBLE | HIDDEN | ALL] [WHERE filter] [WITHATTRS] [REV]",
            "O(log N + M) for M items returned; with a filter O(N), as far as parts of the feed can match",
            "Returns values from a position on, counted among the items that are seen.",
        )
        .reply("array of bulk, each value with its attributes behind it where asked for"),
    command("feed.between", -4)
        .flags(&[Flag::ReadOnly])
        .keys(keys::READ_KEY)
        .doc(
            "key low high [LIMIT from count] [VISIBLE | HIDDEN | ALL] [WHERE filter] [WITHATTRS] [REV]",
            "O(log N + M) for M items returned; with a filter or a start as many items as lie between, as far as they can match",
            "Returns values of a sorted feed that lie between two, as they are written for ZRANGEBYSCORE or ZRANGEBYLEX.",
        )
        .reply("array of bulk, each value with its attributes behind it where asked for"),
    command("feed.count", -2)
        .flags(&[Flag::ReadOnly])
        .keys(keys::LOOK_KEY)
        .doc(
            "key [VISIBLE | HIDDEN | ALL] [WHERE filter] [BETWEEN low high]",
            "O(log N); with a filter O(N), as far as parts of the feed can match",
            "Counts items of a feed; with BETWEEN, of a sorted feed, those whose values lie between two, as for FEED.BETWEEN.",
        )
        .reply("integer: number of items"),
    command("feed.pos", -3)
        .flags(&[Flag::ReadOnly])
        .keys(keys::READ_KEY)
        .doc(
            "key value [VISIBLE | HIDDEN | ALL]",
            "O(N); O(log N) in a sorted feed or with an index",
            "Returns the position of the first item with a value among the items that are seen.",
        )
        .reply("integer: the position; null where it is not there, or not seen"),
    command("feed.pop", -3)
        .flags(&[Flag::Write])
        .keys(keys::TAKE_KEY)
        .doc(
            "key LEFT | RIGHT [count]",
            "O(log N + M) for M items returned",
            "Takes visible items from an end of a feed.",
        )
        .reply(
            "bulk: the value, or array of bulk where a count is given; \
             null where there is none",
        ),
    command("feed.info", 2)
        .flags(&[Flag::ReadOnly])
        .keys(keys::LOOK_KEY)
        .doc(
            "key",
            "O(N) in the inner nodes of the feed",
            "Says what the items of a feed are, how many there are, and what they take.",
        )
        .reply("map of names and values"),
    command("feed.compact", 2)
        .flags(&[Flag::Write])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key",
            "O(N)",
            "Lays the items of a feed out anew, so that they take as little memory as they can.",
        )
        .reply("simple string OK"),
];
