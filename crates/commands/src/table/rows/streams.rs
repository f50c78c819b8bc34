//! Defines the table rows for stream commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::key_spec::KeySpec;
use crate::table::keys;

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
            "O(log N); trimming adds O(log N), and trimmed entries are freed in small steps",
            "Appends an entry to a stream, creating it if necessary, and optionally trims the \
             stream.",
        )
        .reply("bulk: the ID of the entry; with NOMKSTREAM null if the stream does not exist"),
    Command::new("xlen", 2, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Stream])
        .keys(keys::LOOK_KEY)
        .doc("key", "O(1)", "Returns the number of entries in a stream.")
        .reply("integer"),
    Command::new("xrange", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Stream])
        .keys(keys::READ_KEY)
        .doc(
            "key start end [COUNT count]",
            "O(log N + M) for M entries returned",
            "Returns the entries of a stream within a range of IDs.",
        )
        .reply("array of entries: ID and array of fields and values"),
    Command::new("xrevrange", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Stream])
        .keys(keys::READ_KEY)
        .doc(
            "key end start [COUNT count]",
            "O(log N + M) for M entries returned",
            "Returns the entries of a stream within a range of IDs, in reverse order.",
        )
        .reply("array of entries: ID and array of fields and values"),
    Command::new("xread", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly, Flag::Blocking, Flag::MovableKeys])
        .categories(&[Category::Stream])
        .keys(const { &[KeySpec::keyword("STREAMS", 1, -1, keys::READ).half()] })
        .doc(
            "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
            "O(M * log N) for M streams, plus O(K) for K entries returned",
            "Returns the entries after a given ID in each stream. With BLOCK, blocks until an \
             entry is available.",
        )
        .reply("map of key to array of entries; null if there are no entries"),
    Command::new("xdel", -3, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Stream])
        .keys(keys::DROP_KEY)
        .doc(
            "key id [id ...]",
            "O(M * log N) for M ids",
            "Deletes entries of a stream.",
        )
        .reply("integer: number of deleted entries"),
    Command::new("xtrim", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Stream])
        .tips(&["nondeterministic_output"])
        .keys(keys::DROP_KEY)
        .doc(
            "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]",
            "O(log N); deleted entries are freed in small steps",
            "Trims a stream by deleting its oldest entries.",
        )
        .reply("integer: number of deleted entries"),
    Command::new("xsetid", -3, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Stream])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key last-id [ENTRIESADDED entries_added] [MAXDELETEDID max_deleted_entry_id]",
            "O(log N)",
            "Sets the last ID of a stream; intended for replication.",
        )
        .reply("OK"),
    Command::new("xgroup", -2, Group::Stream, "5.0.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for consumer group commands.",
        )
        .reply("depends on the subcommand")
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
                            "Creates a consumer group that receives the entries after an ID.",
                        )
                        .reply("OK"),
                    Command::new("xgroup|setid", -5, Group::Stream, "5.0.0")
                        .flags(&[Flag::Write])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::CHANGE)] })
                        .doc(
                            "key groupname <id | $> [ENTRIESREAD entries_read]",
                            "O(log N)",
                            "Sets the last delivered ID of a consumer group.",
                        )
                        .reply("OK"),
                    Command::new("xgroup|destroy", 4, Group::Stream, "5.0.0")
                        .flags(&[Flag::Write])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::DROP)] })
                        .doc(
                            "key groupname",
                            "O(log N); pending entries are freed in small steps",
                            "Destroys a consumer group.",
                        )
                        .reply("integer: 1 destroyed, 0 does not exist"),
                    Command::new("xgroup|createconsumer", 5, Group::Stream, "6.2.0")
                        .flags(&[Flag::Write, Flag::DenyOom])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::ADD)] })
                        .doc(
                            "key groupname consumername",
                            "O(log N)",
                            "Creates a consumer in a consumer group.",
                        )
                        .reply("integer: 1 created, 0 already exists"),
                    Command::new("xgroup|delconsumer", 5, Group::Stream, "5.0.0")
                        .flags(&[Flag::Write])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::DROP)] })
                        .doc(
                            "key groupname consumername",
                            "O(M * log N) for M pending entries",
                            "Deletes a consumer and its pending entries from a consumer group.",
                        )
                        .reply("integer: number of entries that were pending"),
                    Command::new("xgroup|help", 2, Group::Stream, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Stream])
                        .doc("", "O(1)", "Returns help about the subcommands.")
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
            "Returns new entries of a consumer group to a consumer, or the pending entries of the \
             consumer. With BLOCK, blocks until an entry is available.",
        )
        .reply("map of key to array of entries; null if there are no entries"),
    Command::new("xack", -4, Group::Stream, "5.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Stream])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key group id [id ...]",
            "O(M * log N) for M ids",
            "Acknowledges entries, removing them from the pending entries of a consumer group.",
        )
        .reply("integer: number of entries that were pending"),
    Command::new("xpending", -3, Group::Stream, "5.0.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Stream])
        .tips(&["nondeterministic_output"])
        .keys(keys::READ_KEY)
        .doc(
            "key group [[IDLE min-idle-time] start end count [consumer]]",
            "O(log N + M) for M entries examined",
            "Returns a summary or a list of the pending entries of a consumer group.",
        )
        .reply(
            "array: count, first ID, last ID, array of consumers; with a range array of ID, \
             consumer, idle milliseconds, deliveries",
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
            "Transfers the ownership of pending entries to a consumer.",
        )
        .reply("array of entries; with JUSTID array of IDs"),
    Command::new("xautoclaim", -6, Group::Stream, "6.2.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Stream])
        .tips(&["nondeterministic_output"])
        .keys(keys::DROP_KEY)
        .doc(
            "key group consumer min-idle-time start [COUNT count] [JUSTID]",
            "O(M * log N) for M entries claimed or examined",
            "Transfers the ownership of pending entries from an ID onward to a consumer.",
        )
        .reply("array: next start ID, array of entries or IDs, array of deleted IDs"),
    Command::new("xinfo", -2, Group::Stream, "5.0.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for commands that inspect streams.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("xinfo|stream", -3, Group::Stream, "5.0.0")
                        .flags(&[Flag::ReadOnly])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::READ)] })
                        .doc(
                            "key [FULL [COUNT count]]",
                            "O(log N); with FULL O(M) for M entries, consumers and pending entries \
                         returned",
                            "Returns information about a stream.",
                        )
                        .reply("map"),
                    Command::new("xinfo|groups", 3, Group::Stream, "5.0.0")
                        .flags(&[Flag::ReadOnly])
                        .categories(&[Category::Stream])
                        .keys(const { &[KeySpec::second(keys::READ)] })
                        .doc(
                            "key",
                            "O(M * log N) for M groups",
                            "Returns information about the consumer groups of a stream.",
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
                            "Returns information about the consumers of a consumer group.",
                        )
                        .reply("array of maps"),
                    Command::new("xinfo|help", 2, Group::Stream, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Stream])
                        .doc("", "O(1)", "Returns help about the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
];
