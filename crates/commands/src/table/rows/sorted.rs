//! Defines the table rows for sorted set commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::keys;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("zadd", -4, Group::SortedSet, "1.2.0")
        .element(3)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
            "O(log(N)) for each member",
            "Adds members to a sorted set or updates their scores.",
        )
        .reply(
            "integer: number of added members; with CH number of added and changed members; with \
             INCR double, or null if nothing was changed",
        ),
    Command::new("zrem", -3, Group::SortedSet, "1.2.0")
        .element(2)
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::DROP_KEY)
        .doc(
            "key member [member ...]",
            "O(log(N)) for each member",
            "Removes members from a sorted set, and deletes the sorted set if no members remain.",
        )
        .reply("integer: number of removed members"),
    Command::new("zcard", 2, Group::SortedSet, "1.2.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::LOOK_KEY)
        .doc(
            "key",
            "O(1)",
            "Returns the number of members of a sorted set.",
        )
        .reply("integer"),
    Command::new("zscore", 3, Group::SortedSet, "1.2.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key member",
            "O(1)",
            "Returns the score of a member of a sorted set.",
        )
        .reply("double or null"),
    Command::new("zmscore", -3, Group::SortedSet, "6.2.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key member [member ...]",
            "O(N) for N members",
            "Returns the scores of one or more members of a sorted set.",
        )
        .reply("array of double or null"),
    Command::new("zincrby", 4, Group::SortedSet, "1.2.0")
        .element(3)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_AND_CHANGE_KEY)
        .doc(
            "key increment member",
            "O(log(N))",
            "Increments the score of a member of a sorted set, adding the member if necessary.",
        )
        .reply("double: the score"),
    Command::new("zrank", 3, Group::SortedSet, "2.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key member",
            "O(log(N))",
            "Returns the rank of a member of a sorted set by ascending scores.",
        )
        .reply("integer or null"),
    Command::new("zrevrank", 3, Group::SortedSet, "2.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key member",
            "O(log(N))",
            "Returns the rank of a member of a sorted set by descending scores.",
        )
        .reply("integer or null"),
    Command::new("zcount", 4, Group::SortedSet, "2.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key min max",
            "O(log(N))",
            "Returns the number of members of a sorted set within a range of scores.",
        )
        .reply("integer"),
    Command::new("zlexcount", 4, Group::SortedSet, "2.8.9")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key min max",
            "O(log(N))",
            "Returns the number of members of a sorted set within a lexicographical range.",
        )
        .reply("integer"),
    Command::new("zrange", -4, Group::SortedSet, "1.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
            "O(log(N)+M) for M members",
            "Returns a range of members of a sorted set by rank, score or lexicographical order.",
        )
        .reply("array of bulk; with WITHSCORES each member is followed by its score, a double"),
    Command::new("zrevrange", -4, Group::SortedSet, "1.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key start stop [WITHSCORES]",
            "O(log(N)+M) for M members",
            "Returns the members of a sorted set within a range of ranks, by descending scores.",
        )
        .reply("array of bulk; with WITHSCORES each member is followed by its score, a double")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument"),
    Command::new("zrangebyscore", -4, Group::SortedSet, "1.0.5")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key min max [WITHSCORES] [LIMIT offset count]",
            "O(log(N)+M) for M members",
            "Returns the members of a sorted set within a range of scores.",
        )
        .reply("array of bulk; with WITHSCORES each member is followed by its score, a double")
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    Command::new("zrevrangebyscore", -4, Group::SortedSet, "2.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key max min [WITHSCORES] [LIMIT offset count]",
            "O(log(N)+M) for M members",
            "Returns the members of a sorted set within a range of scores, by descending scores.",
        )
        .reply("array of bulk; with WITHSCORES each member is followed by its score, a double")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
    Command::new("zrangebylex", -4, Group::SortedSet, "2.8.9")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key min max [LIMIT offset count]",
            "O(log(N)+M) for M members",
            "Returns the members of a sorted set within a lexicographical range.",
        )
        .reply("array of bulk")
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
    Command::new("zrevrangebylex", -4, Group::SortedSet, "2.8.9")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key max min [LIMIT offset count]",
            "O(log(N)+M) for M members",
            "Returns the members of a sorted set within a lexicographical range, in reverse order.",
        )
        .reply("array of bulk")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
    Command::new("zrangestore", -5, Group::SortedSet, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Sortedset])
        .keys(keys::STORE_ONE)
        .doc(
            "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
            "O(log(N)+M*log(M)) for M members",
            "Stores a range of members of a sorted set, by rank, score or lexicographical order, \
             at a key.",
        )
        .reply("integer: number of members in the result"),
    Command::new("zremrangebyrank", 4, Group::SortedSet, "2.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Sortedset])
        .keys(keys::DROP_KEY)
        .doc(
            "key start stop",
            "O(log(N)+M) for M members removed",
            "Removes the members of a sorted set within a range of ranks.",
        )
        .reply("integer: number of removed members"),
    Command::new("zremrangebyscore", 4, Group::SortedSet, "1.2.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Sortedset])
        .keys(keys::DROP_KEY)
        .doc(
            "key min max",
            "O(log(N)+M) for M members removed",
            "Removes the members of a sorted set within a range of scores.",
        )
        .reply("integer: number of removed members"),
    Command::new("zremrangebylex", 4, Group::SortedSet, "2.8.9")
        .flags(&[Flag::Write])
        .categories(&[Category::Sortedset])
        .keys(keys::DROP_KEY)
        .doc(
            "key min max",
            "O(log(N)+M) for M members removed",
            "Removes the members of a sorted set within a lexicographical range.",
        )
        .reply("integer: number of removed members"),
    Command::new("zpopmin", -2, Group::SortedSet, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(log(N)) for each member",
            "Removes and returns the members with the lowest scores of a sorted set.",
        )
        .reply("array of alternating bulk and double; with a count in RESP3 array of pairs"),
    Command::new("zpopmax", -2, Group::SortedSet, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(log(N)) for each member",
            "Removes and returns the members with the highest scores of a sorted set.",
        )
        .reply("array of alternating bulk and double; with a count in RESP3 array of pairs"),
    Command::new("zmpop", -4, Group::SortedSet, "7.0.0")
        .flags(&[Flag::Write, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_COUNTED)
        .doc(
            "numkeys key [key ...] MIN | MAX [COUNT count]",
            "O(K)+O(M*log(N)) for K keys and M members returned",
            "Removes and returns members with the lowest or highest scores of the first non-empty \
             sorted set.",
        )
        .reply("array of the key and an array of pairs of bulk and double, or null"),
    Command::new("bzpopmin", -3, Group::SortedSet, "5.0.0")
        .flags(&[Flag::Write, Flag::NoScript, Flag::Blocking, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_ALL_BUT_LAST)
        .doc(
            "key [key ...] timeout",
            "O(log(N))",
            "Removes and returns the member with the lowest score of the first non-empty sorted \
             set. Blocks until a member is available.",
        )
        .reply("array of the key, the member and its score; null array after a timeout"),
    Command::new("bzpopmax", -3, Group::SortedSet, "5.0.0")
        .flags(&[Flag::Write, Flag::NoScript, Flag::Blocking, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_ALL_BUT_LAST)
        .doc(
            "key [key ...] timeout",
            "O(log(N))",
            "Removes and returns the member with the highest score of the first non-empty sorted \
             set. Blocks until a member is available.",
        )
        .reply("array of the key, the member and its score; null array after a timeout"),
    Command::new("bzmpop", -5, Group::SortedSet, "7.0.0")
        .flags(&[Flag::Write, Flag::Blocking, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::WAIT_COUNTED)
        .doc(
            "timeout numkeys key [key ...] MIN | MAX [COUNT count]",
            "O(K)+O(M*log(N)) for K keys and M members returned",
            "The blocking variant of ZMPOP.",
        )
        .reply(
            "array of the key and an array of pairs of bulk and double; null array after a timeout",
        ),
    Command::new("zrandmember", -2, Group::SortedSet, "6.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key [count [WITHSCORES]]",
            "O(N) for N members returned",
            "Returns random members of a sorted set, with repetitions only if the count is \
             negative.",
        )
        .reply(
            "bulk or null; with a count array of bulk; with WITHSCORES each member is followed by \
             its score, a double",
        ),
    Command::new("zscan", -3, Group::SortedSet, "2.8.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key cursor [MATCH pattern] [COUNT count]",
            "O(1) for each call, O(N) for a complete iteration",
            "Iterates over the members and scores of a sorted set.",
        )
        .reply("array of the next cursor and an array of alternating members and scores"),
    Command::new("zunion", -3, Group::SortedSet, "6.2.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] \
             [WITHSCORES]",
            "O(N)+O(M*log(M)) for N members in all sets and M in the result",
            "Returns the union of sorted sets.",
        )
        .reply("array of bulk; with WITHSCORES each member is followed by its score, a double"),
    Command::new("zunionstore", -4, Group::SortedSet, "2.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::STORE_COUNTED)
        .doc(
            "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM \
             | MIN | MAX]",
            "O(N)+O(M*log(M)) for N members in all sets and M in the result",
            "Stores the union of sorted sets at a key.",
        )
        .reply("integer: number of members in the result"),
    Command::new("zinter", -3, Group::SortedSet, "6.2.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] \
             [WITHSCORES]",
            "O(N)+O(M*log(M)) for N members in all sets and M in the result",
            "Returns the intersection of sorted sets.",
        )
        .reply("array of bulk; with WITHSCORES each member is followed by its score, a double"),
    Command::new("zinterstore", -4, Group::SortedSet, "2.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::STORE_COUNTED)
        .doc(
            "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM \
             | MIN | MAX]",
            "O(N)+O(M*log(M)) for N members in all sets and M in the result",
            "Stores the intersection of sorted sets at a key.",
        )
        .reply("integer: number of members in the result"),
    Command::new("zintercard", -3, Group::SortedSet, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [LIMIT limit]",
            "O(N) for N members in all sets",
            "Returns the number of members of the intersection of sorted sets.",
        )
        .reply("integer"),
    Command::new("zdiff", -3, Group::SortedSet, "6.2.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [WITHSCORES]",
            "O(N)+O(M*log(M)) for N members in all sets and M in the result",
            "Returns the difference of the first sorted set and the following sorted sets.",
        )
        .reply("array of bulk; with WITHSCORES each member is followed by its score, a double"),
    Command::new("zdiffstore", -4, Group::SortedSet, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::STORE_COUNTED)
        .doc(
            "destination numkeys key [key ...]",
            "O(N)+O(M*log(M)) for N members in all sets and M in the result",
            "Stores the difference of the first sorted set and the following sorted sets at a key.",
        )
        .reply("integer: number of members in the result"),
];
