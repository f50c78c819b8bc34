//! Rows of the commands on sorted sets.

use super::keys;
use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("zadd", -4, Group::SortedSet, "1.2.0")
        .element(3)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
            "O(log(N)) for each member",
            "Adds members to a sorted set, or gives them other scores.",
        )
        .reply(
            "integer: how many are new, or with CH changed as well; with INCR double, or \
             null where nothing was done",
        ),
    Command::new("zrem", -3, Group::SortedSet, "1.2.0")
        .element(2)
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::DROP_KEY)
        .doc(
            "key member [member ...]",
            "O(log(N)) for each member",
            "Removes members of a sorted set, and the set with the last of them.",
        )
        .reply("integer: how many were there"),
    Command::new("zcard", 2, Group::SortedSet, "1.2.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::LOOK_KEY)
        .doc("key", "O(1)", "Counts the members of a sorted set.")
        .reply("integer"),
    Command::new("zscore", 3, Group::SortedSet, "1.2.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc("key member", "O(1)", "Returns the score of a member.")
        .reply("double or null"),
    Command::new("zmscore", -3, Group::SortedSet, "6.2.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key member [member ...]",
            "O(N) for N members",
            "Returns the scores of several members.",
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
            "Adds to the score of a member, which may be new.",
        )
        .reply("double: the score"),
    Command::new("zrank", 3, Group::SortedSet, "2.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc("key member", "O(log(N))", "Counts the members before one.")
        .reply("integer or null"),
    Command::new("zrevrank", 3, Group::SortedSet, "2.0.0")
        .element(2)
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc("key member", "O(log(N))", "Counts the members behind one.")
        .reply("integer or null"),
    Command::new("zcount", 4, Group::SortedSet, "2.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key min max",
            "O(log(N))",
            "Counts the members in a range of scores.",
        )
        .reply("integer"),
    Command::new("zlexcount", 4, Group::SortedSet, "2.8.9")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key min max",
            "O(log(N))",
            "Counts the members in a range of texts, where all scores are equal.",
        )
        .reply("integer"),
    Command::new("zrange", -4, Group::SortedSet, "1.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
            "O(log(N)+M) for M members",
            "Returns members by rank, score or text.",
        )
        .reply("array of bulk; with WITHSCORES each with its double"),
    Command::new("zrevrange", -4, Group::SortedSet, "1.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key start stop [WITHSCORES]",
            "O(log(N)+M) for M members",
            "Returns members by rank, the highest score first.",
        )
        .reply("array of bulk; with WITHSCORES each with its double")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument"),
    Command::new("zrangebyscore", -4, Group::SortedSet, "1.0.5")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key min max [WITHSCORES] [LIMIT offset count]",
            "O(log(N)+M) for M members",
            "Returns members by score.",
        )
        .reply("array of bulk; with WITHSCORES each with its double")
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    Command::new("zrevrangebyscore", -4, Group::SortedSet, "2.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key max min [WITHSCORES] [LIMIT offset count]",
            "O(log(N)+M) for M members",
            "Returns members by score, the highest first.",
        )
        .reply("array of bulk; with WITHSCORES each with its double")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
    Command::new("zrangebylex", -4, Group::SortedSet, "2.8.9")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_KEY)
        .doc(
            "key min max [LIMIT offset count]",
            "O(log(N)+M) for M members",
            "Returns members by text, where all scores are equal.",
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
            "Returns members by text, where all scores are equal, the greatest first.",
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
            "Stores members by rank, score or text.",
        )
        .reply("integer: members of the result"),
    Command::new("zremrangebyrank", 4, Group::SortedSet, "2.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Sortedset])
        .keys(keys::DROP_KEY)
        .doc(
            "key start stop",
            "O(log(N)+M) for M members removed",
            "Removes members by rank.",
        )
        .reply("integer: how many"),
    Command::new("zremrangebyscore", 4, Group::SortedSet, "1.2.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Sortedset])
        .keys(keys::DROP_KEY)
        .doc(
            "key min max",
            "O(log(N)+M) for M members removed",
            "Removes members by score.",
        )
        .reply("integer: how many"),
    Command::new("zremrangebylex", 4, Group::SortedSet, "2.8.9")
        .flags(&[Flag::Write])
        .categories(&[Category::Sortedset])
        .keys(keys::DROP_KEY)
        .doc(
            "key min max",
            "O(log(N)+M) for M members removed",
            "Removes members by text, where all scores are equal.",
        )
        .reply("integer: how many"),
    Command::new("zpopmin", -2, Group::SortedSet, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(log(N)) for each member",
            "Removes the members with the lowest scores and returns them.",
        )
        .reply("array of bulk and double in turn; with a count in RESP3 of pairs"),
    Command::new("zpopmax", -2, Group::SortedSet, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_KEY)
        .doc(
            "key [count]",
            "O(log(N)) for each member",
            "Removes the members with the highest scores and returns them.",
        )
        .reply("array of bulk and double in turn; with a count in RESP3 of pairs"),
    Command::new("zmpop", -4, Group::SortedSet, "7.0.0")
        .flags(&[Flag::Write, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_COUNTED)
        .doc(
            "numkeys key [key ...] MIN | MAX [COUNT count]",
            "O(K)+O(M*log(N)) for K keys and M members",
            "Removes members of the first sorted set that is there and returns them.",
        )
        .reply("array of the key and an array of pairs of bulk and double, or null"),
    Command::new("bzpopmin", -3, Group::SortedSet, "5.0.0")
        .flags(&[Flag::Write, Flag::NoScript, Flag::Blocking, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_ALL_BUT_LAST)
        .doc(
            "key [key ...] timeout",
            "O(log(N))",
            "Removes the member with the lowest score of the first of several sorted sets \
             that has any, or waits for one.",
        )
        .reply(
            "array of the key, the member and its score; null array where there was none in time",
        ),
    Command::new("bzpopmax", -3, Group::SortedSet, "5.0.0")
        .flags(&[Flag::Write, Flag::NoScript, Flag::Blocking, Flag::Fast])
        .categories(&[Category::Sortedset])
        .keys(keys::TAKE_ALL_BUT_LAST)
        .doc(
            "key [key ...] timeout",
            "O(log(N))",
            "Removes the member with the highest score of the first of several sorted sets \
             that has any, or waits for one.",
        )
        .reply(
            "array of the key, the member and its score; null array where there was none in time",
        ),
    Command::new("bzmpop", -5, Group::SortedSet, "7.0.0")
        .flags(&[Flag::Write, Flag::Blocking, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::WAIT_COUNTED)
        .doc(
            "timeout numkeys key [key ...] MIN | MAX [COUNT count]",
            "O(K)+O(M*log(N)) for K keys and M members",
            "Removes members of the first sorted set that is there, or waits for one, and \
             returns them.",
        )
        .reply(
            "array of the key and an array of pairs of bulk and double; null array where \
             there was none in time",
        ),
    Command::new("zrandmember", -2, Group::SortedSet, "6.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key [count [WITHSCORES]]",
            "O(N) for N members returned",
            "Returns members chosen by chance, different ones unless the count is negative.",
        )
        .reply("bulk or null; with a count array of bulk, with WITHSCORES each with its double"),
    Command::new("zscan", -3, Group::SortedSet, "2.8.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Sortedset])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key cursor [MATCH pattern] [COUNT count]",
            "O(1) for every call",
            "Walks over the members of a sorted set in small steps.",
        )
        .reply("array of the next cursor and an array of bulk: members and scores in turn"),
    Command::new("zunion", -3, Group::SortedSet, "6.2.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] \
             [WITHSCORES]",
            "O(N)+O(M*log(M)) for N members of all and M of the result",
            "Returns what is in any of several sorted sets.",
        )
        .reply("array of bulk; with WITHSCORES each with its double"),
    Command::new("zunionstore", -4, Group::SortedSet, "2.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::STORE_COUNTED)
        .doc(
            "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM \
             | MIN | MAX]",
            "O(N)+O(M*log(M)) for N members of all and M of the result",
            "Stores what is in any of several sorted sets.",
        )
        .reply("integer: members of the result"),
    Command::new("zinter", -3, Group::SortedSet, "6.2.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] \
             [WITHSCORES]",
            "O(N)+O(M*log(M)) for N members of all and M of the result",
            "Returns what is in all of several sorted sets.",
        )
        .reply("array of bulk; with WITHSCORES each with its double"),
    Command::new("zinterstore", -4, Group::SortedSet, "2.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::STORE_COUNTED)
        .doc(
            "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM \
             | MIN | MAX]",
            "O(N)+O(M*log(M)) for N members of all and M of the result",
            "Stores what is in all of several sorted sets.",
        )
        .reply("integer: members of the result"),
    Command::new("zintercard", -3, Group::SortedSet, "7.0.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [LIMIT limit]",
            "O(N) for N members of all",
            "Counts what is in all of several sorted sets.",
        )
        .reply("integer"),
    Command::new("zdiff", -3, Group::SortedSet, "6.2.0")
        .flags(&[Flag::ReadOnly, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::READ_COUNTED)
        .doc(
            "numkeys key [key ...] [WITHSCORES]",
            "O(N)+O(M*log(M)) for N members of all and M of the result",
            "Returns what is in the first of several sorted sets only.",
        )
        .reply("array of bulk; with WITHSCORES each with its double"),
    Command::new("zdiffstore", -4, Group::SortedSet, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[Category::Sortedset])
        .keys(keys::STORE_COUNTED)
        .doc(
            "destination numkeys key [key ...]",
            "O(N)+O(M*log(M)) for N members of all and M of the result",
            "Stores what is in the first of several sorted sets only.",
        )
        .reply("integer: members of the result"),
];
