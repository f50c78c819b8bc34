//! Defines the table rows for commands that manage the server and its databases.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("dbsize", 1, Group::Server, "1.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .doc("", "O(1)", "Returns the number of keys in the database.")
        .reply("integer"),
    Command::new("flushdb", -1, Group::Server, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Keyspace, Category::Dangerous])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .doc(
            "[ASYNC | SYNC]",
            "O(N) for N keys; O(1) with ASYNC",
            "Deletes all keys of the database.",
        )
        .reply("OK"),
    Command::new("flushall", -1, Group::Server, "1.0.0")
        .flags(&[Flag::Write])
        .categories(&[Category::Keyspace, Category::Dangerous])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .doc(
            "[ASYNC | SYNC]",
            "O(N) for N keys; O(1) with ASYNC",
            "Deletes all keys of all databases.",
        )
        .reply("OK"),
    Command::new("swapdb", 3, Group::Server, "4.0.0")
        .flags(&[Flag::Write, Flag::Fast])
        .categories(&[Category::Keyspace, Category::Dangerous])
        .doc(
            "index1 index2",
            "O(N) for N clients that watch keys or are blocked on keys",
            "Swaps two databases for all connections.",
        )
        .reply("OK"),
    Command::new("save", 1, Group::Server, "1.0.0")
        .flags(&[
            Flag::Admin,
            Flag::NoScript,
            Flag::NoAsyncLoading,
            Flag::NoMulti,
        ])
        .doc(
            "",
            "O(N) where N is the size of the store",
            "Writes a checkpoint of the store and, if the operator chose `dir`, a snapshot for \
             Redis. Other commands run in the meantime.",
        )
        .reply("OK"),
    Command::new("bgsave", -1, Group::Server, "1.0.0")
        .flags(&[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading])
        .doc(
            "[SCHEDULE]",
            "O(1)",
            "Begins a checkpoint, and a snapshot for Redis, like SAVE, in the background.",
        )
        .reply("simple"),
    Command::new("bgrewriteaof", 1, Group::Server, "1.0.0")
        .flags(&[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading])
        .doc(
            "",
            "O(1)",
            "Begins a checkpoint of the store in the background. The journal's older \
             files are then removed.",
        )
        .reply("simple"),
    Command::new("lastsave", 1, Group::Server, "1.0.0")
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Admin, Category::Dangerous])
        .tips(&["nondeterministic_output"])
        .doc(
            "",
            "O(1)",
            "Returns the time of the last checkpoint or snapshot, or the server's start if there is \
             none.",
        )
        .reply("integer: Unix time in seconds"),
    Command::new("role", 1, Group::Server, "2.8.12")
        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Admin, Category::Dangerous])
        .doc(
            "",
            "O(1)",
            "Returns the store's role: a master without replicas, or a replica with its source.",
        )
        .reply("array of the role and its details"),
    Command::new("time", 1, Group::Server, "2.6.0")
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .tips(&["nondeterministic_output"])
        .doc("", "O(1)", "Returns the server time.")
        .reply("array of two bulks: seconds and microseconds"),
    Command::new("command", -1, Group::Server, "2.8.13")
        .flags(&[Flag::Loading, Flag::Stale])
        .categories(&[Category::Connection])
        .tips(&["nondeterministic_output_order"])
        .doc(
            "",
            "O(N) for N commands",
            "Returns information about all commands.",
        )
        .reply("array")
        .subcommands(
            const {
                &[
                    Command::new("command|count", 2, Group::Server, "2.8.13")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Returns the number of commands.")
                        .reply("integer"),
                    Command::new("command|docs", -2, Group::Server, "7.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["nondeterministic_output_order"])
                        .doc(
                            "[command-name [command-name ...]]",
                            "O(N) for N commands",
                            "Returns documentation of commands.",
                        )
                        .reply("map of name to documentation"),
                    Command::new("command|info", -2, Group::Server, "2.8.13")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["nondeterministic_output_order"])
                        .doc(
                            "[command-name [command-name ...]]",
                            "O(N) for N commands",
                            "Returns the arity, flags, keys and categories of commands.",
                        )
                        .reply("array of descriptions or nulls"),
                    Command::new("command|list", -2, Group::Server, "7.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["nondeterministic_output_order"])
                        .doc(
                            "[FILTERBY MODULE module-name | ACLCAT category | PATTERN pattern]",
                            "O(N) for N commands",
                            "Returns the names of commands.",
                        )
                        .reply("array of bulk"),
                    Command::new("command|getkeys", -4, Group::Server, "2.8.13")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "command [arg [arg ...]]",
                            "O(N) for N arguments",
                            "Extracts the keys from a command.",
                        )
                        .reply("array of bulk"),
                    Command::new("command|getkeysandflags", -4, Group::Server, "7.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "command [arg [arg ...]]",
                            "O(N) for N arguments",
                            "Extracts the keys and their access flags from a command.",
                        )
                        .reply("array of pairs of key and flags"),
                    Command::new("command|help", 2, Group::Server, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Returns help about the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
    Command::new("info", -1, Group::Server, "1.0.0")
        .flags(&[Flag::Loading, Flag::Stale])
        .categories(&[Category::Dangerous])
        .tips(&[
            "nondeterministic_output",
            "request_policy:all_shards",
            "response_policy:special",
        ])
        .doc(
            "[section [section ...]]",
            "O(1)",
            "Returns information and statistics about the server.",
        )
        .reply("verbatim text"),
    Command::new("config", -2, Group::Server, "2.0.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for configuration commands.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("config|get", -3, Group::Server, "2.0.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .doc(
                            "parameter [parameter ...]",
                            "O(N) for N parameters",
                            "Returns the configuration parameters that match any of the patterns.",
                        )
                        .reply("map of parameter to value"),
                    Command::new("config|set", -4, Group::Server, "2.0.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "parameter value [parameter value ...]",
                            "O(N) for N parameters",
                            "Sets configuration parameters, all or none.",
                        )
                        .reply("OK"),
                    Command::new("config|resetstat", 2, Group::Server, "2.0.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .doc("", "O(1)", "Resets the statistics that INFO reports.")
                        .reply("OK"),
                    Command::new("config|rewrite", 2, Group::Server, "2.8.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .doc(
                            "",
                            "O(1)",
                            "Returns an error because the server does not write its configuration \
                             file.",
                        )
                        .reply("an error"),
                    Command::new("config|help", 2, Group::Server, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .doc("", "O(1)", "Returns help about the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
    Command::new("slowlog", -2, Group::Server, "2.2.12")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for slow log commands.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("slowlog|get", -2, Group::Server, "2.2.12")
                        .flags(&[Flag::Admin, Flag::Loading, Flag::Stale])
                        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
                        .doc(
                            "[count]",
                            "O(N) for N entries",
                            "Returns the newest entries of the slow log.",
                        )
                        .reply("array of entries"),
                    Command::new("slowlog|len", 2, Group::Server, "2.2.12")
                        .flags(&[Flag::Admin, Flag::Loading, Flag::Stale])
                        .tips(&[
                            "request_policy:all_nodes",
                            "response_policy:agg_sum",
                            "nondeterministic_output",
                        ])
                        .doc("", "O(1)", "Returns the number of entries in the slow log.")
                        .reply("integer"),
                    Command::new("slowlog|reset", 2, Group::Server, "2.2.12")
                        .flags(&[Flag::Admin, Flag::Loading, Flag::Stale])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "",
                            "O(N) for N entries",
                            "Deletes all entries of the slow log.",
                        )
                        .reply("OK"),
                    Command::new("slowlog|help", 2, Group::Server, "6.2.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .doc("", "O(1)", "Returns help about the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
    Command::new("monitor", 1, Group::Server, "1.0.0")
        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
        .doc(
            "",
            "O(1), plus O(N) for each command with N monitoring connections",
            "Streams every command that the server runs. Commands of processes that map the store \
             are not included.",
        )
        .reply("OK, then a line for each command"),
    Command::new("debug", -2, Group::Server, "1.0.0")
        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
        .doc(
            "subcommand [arg [arg ...]]",
            "Depends on the subcommand",
            "A container for commands that test servers and clients.",
        )
        .reply("depends on the subcommand")
        .system(),
    Command::new("shutdown", -1, Group::Server, "1.0.0")
        .flags(&[
            Flag::Admin,
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::NoMulti,
            Flag::AllowBusy,
        ])
        .doc(
            "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
            "O(1)",
            "Shuts down the server.",
        )
        .reply("nothing, or an error"),
    // Redis does not have this command.
    Command::new("replica.wait", -3, Group::Server, "0.1.0")
        .flags(&[Flag::NoScript])
        .doc(
            "offset timeout [key]",
            "O(1)",
            "Waits until a replica has applied its source's changes up to a position of the source \
             (master_repl_offset), at most for the timeout in milliseconds. If the source is a \
             cluster, the position is that of the master that has the key.",
        )
        .reply("integer: 1 if the changes are applied, 0 if the time ran out"),
];
