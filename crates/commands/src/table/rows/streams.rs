//! Rows of the commands on streams.

use super::keys;
use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::key_spec::KeySpec;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("xadd", -5, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Stream])
        .tips(&["nondeterministic_output"])
        .keys(
            const {
                &[KeySpec::first(keys::CHANGE)
                    .notes("UPDATE instead of INSERT because of the optional trimming feature")]
            },
        )
        .doc(
            "key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field \
             value [field value ...]",
            "O(log N); with trimming O(log N) more, what is trimmed is freed in small steps",
            "Adds an entry to a stream, which is made where it is not there, and trims it where \
             asked.",
        )
        .reply("bulk: the entry's id; null with NOMKSTREAM where there is no stream"),
    Command::new("xlen", 2, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Stream])
        .keys(keys::LOOK_KEY)
        .doc("key", "O(1)", "Counts the entries of a stream.")
        .reply("integer"),
    Command::new("xrange", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Stream])
        .keys(keys::READ_KEY)
        .doc(
            "key start end [COUNT count]",
            "O(log N + M) for M entries returned",
            "Returns entries from one id to another.",
        )
        .reply("array of entries: id, and array of fields and values"),
    Command::new("xrevrange", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Stream])
        .keys(keys::READ_KEY)
        .doc(
            "key end start [COUNT count]",
            "O(log N + M) for M entries returned",
            "Returns entries from one id back to another, the last first.",
        )
        .reply("array of entries: id, and array of fields and values"),
    Command::new("xread", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly, Flag::Blocking, Flag::MovableKeys])
        .categories(&[Category::Stream])
        .keys(const { &[KeySpec::keyword("STREAMS", 1, -1, keys::READ).half()] })
        .doc(
            "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
            "O(M * log N) for M streams, and the entries returned",
            "Returns the entries of streams behind an id each; waits for some where asked.",
        )
        .reply("map of key to array of entries; null where there are none"),
    Command::new("xdel", -3, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Stream])
        .keys(keys::DROP_KEY)
        .doc(
            "key id [id ...]",
            "O(M * log N) for M ids",
            "Deletes entries.",
        )
        .reply("integer: entries that were there"),
    Command::new("xtrim", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Stream])
        .tips(&["nondeterministic_output"])
        .keys(keys::DROP_KEY)
        .doc(
            "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]",
            "O(log N); what goes is freed in small steps",
            "Deletes the first entries of a stream.",
        )
        .reply("integer: entries deleted"),
    Command::new("xsetid", -3, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Stream])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key last-id [ENTRIESADDED entries_added] [MAXDELETEDID max_deleted_entry_id]",
            "O(log N)",
            "Sets a stream's last id; for replication.",
        )
        .reply("OK"),
    Command::new("xgroup", -2, Group::Stream, "5.0.0")
        .doc(
            "",
            "That of the subcommand",
            "Makes groups of consumers, and removes them.",
        )
        .reply("that of the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("xgroup|create", -5, Group::Stream, "5.0.0")
                        .flags(&[Flag::Write, Flag::DenyOom])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::ADD)] })
                        .doc(
                            "key groupname <id | $> [MKSTREAM] [ENTRIESREAD entries_read]",
                            "O(log N)",
                            "Makes a group that has been given the entries up to an id.",
                        )
                        .reply("OK"),
                    Command::new("xgroup|setid", -5, Group::Stream, "5.0.0")
                        .flags(&[Flag::Write])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::CHANGE)] })
                        .doc(
                            "key groupname <id | $> [ENTRIESREAD entries_read]",
                            "O(log N)",
                            "Sets up to which id a group has been given entries.",
                        )
                        .reply("OK"),
                    Command::new("xgroup|destroy", 4, Group::Stream, "5.0.0")
                        .flags(&[Flag::Write])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::DROP)] })
                        .doc(
                            "key groupname",
                            "O(log N); what is pending is freed in small steps",
                            "Removes a group.",
                        )
                        .reply("integer: 1, or 0 where there is none"),
                    Command::new("xgroup|createconsumer", 5, Group::Stream, "6.2.0")
                        .flags(&[Flag::Write, Flag::DenyOom])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::ADD)] })
                        .doc(
                            "key groupname consumername",
                            "O(log N)",
                            "Makes a consumer.",
                        )
                        .reply("integer: 1, or 0 where it is there"),
                    Command::new("xgroup|delconsumer", 5, Group::Stream, "5.0.0")
                        .flags(&[Flag::Write])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::DROP)] })
                        .doc(
                            "key groupname consumername",
                            "O(M * log N) for M pending entries",
                            "Removes a consumer with what is pending at it.",
                        )
                        .reply("integer: entries that were pending"),
                    Command::new("xgroup|help", 2, Group::Stream, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Stream])
                        .doc("", "O(1)", "Explains the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
    Command::new("xreadgroup", -7, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::Blocking, Flag::MovableKeys])
        .categories(&[Category::Stream])
        .keys(const { &[KeySpec::keyword("STREAMS", 4, -1, keys::READ).half()] })
        .doc(
            "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key \
             ...] id [id ...]",
            "O(M * log N) for M entries returned",
            "Gives a consumer the next entries of its group, or those pending at it again; \
             waits for some where asked.",
        )
        .reply("map of key to array of entries; null where there are none"),
    Command::new("xack", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Stream])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key group id [id ...]",
            "O(M * log N) for M ids",
            "Takes entries from what is pending in a group.",
        )
        .reply("integer: entries that were pending"),
    Command::new("xpending", -3, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Stream])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key group [[IDLE min-idle-time] start end count [consumer]]",
            "O(log N + M) for M entries looked at",
            "Tells what is pending in a group.",
        )
        .reply(
            "array: number, first id, last id, array of consumers; with a range array of id, \
             consumer, milliseconds, deliveries",
        ),
    Command::new("xclaim", -6, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Stream])
        .tips(&["nondeterministic_output"])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] \
             [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]",
            "O(M * log N) for M ids",
            "Gives pending entries to another consumer.",
        )
        .reply("array of entries; with JUSTID of ids"),
    Command::new("xautoclaim", -6, Group::Stream, "6.2.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Stream])
        .tips(&["nondeterministic_output"])
        .keys(keys::DROP_KEY)
        .doc(
            "key group consumer min-idle-time start [COUNT count] [JUSTID]",
            "O(M * log N) for M entries claimed, and those looked at",
            "Gives the first pending entries from an id on to another consumer.",
        )
        .reply("array: where to go on, array of entries or ids, array of ids that are gone"),
    Command::new("xinfo", -2, Group::Stream, "5.0.0")
        .doc(
            "",
            "That of the subcommand",
            "Looks at streams, groups and consumers.",
        )
        .reply("that of the subcommand")
        .subcommands(
            const {
                &[
                Command::new("xinfo|stream", -3, Group::Stream, "5.0.0")
                    .flags(&[Flag::ReadOnly])
                    .categories(&[Category::Stream])
                    .keys(const { &[KeySpec::second(keys::READ)] })
                    .doc(
                        "key [FULL [COUNT count]]",
                        "O(log N); with FULL O(M) for M entries, consumers and pending ones told",
                        "Tells of a stream.",
                    )
                    .reply("map"),
                Command::new("xinfo|groups", 3, Group::Stream, "5.0.0")
                    .flags(&[Flag::ReadOnly])
                    .categories(&[Category::Stream])
                    .keys(const { &[KeySpec::second(keys::READ)] })
                    .doc(
                        "key",
                        "O(M * log N) for M groups",
                        "Tells of a stream's groups.",
                    )
                    .reply("array of maps"),
                Command::new("xinfo|consumers", 4, Group::Stream, "5.0.0")
                    .flags(&[Flag::ReadOnly])
                    .categories(&[Category::Stream])
                    .tips(&["nondeterministic_output"])
                    .keys(const { &[KeySpec::second(keys::READ)] })
                    .doc(
                        "key groupname",
                        "O(M * log N) for M consumers",
                        "Tells of a group's consumers.",
                    )
                    .reply("array of maps"),
                Command::new("xinfo|help", 2, Group::Stream, "5.0.0")
                    .flags(&[Flag::Loading, Flag::Stale])
                    .categories(&[Category::Stream])
                    .doc(
                        "",
                        "O(1)",
                        "Explains the subcommands.",
                    )
                    .reply("array of simple"),
            ]
            },
        ),
];
