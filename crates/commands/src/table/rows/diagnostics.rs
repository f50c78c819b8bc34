//! Defines the table rows for diagnostics and for unsupported features: LATENCY, MEMORY, MODULE,
//! REPLICAOF and LOLWUT.

use crate::table::command::Command;
use crate::table::flags::{Flag, Group};
use crate::table::keys;

/// The flags of administrative commands, which run even when most other commands do not.
const ADMIN: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale];
/// Tips for cluster clients: send the command to every node.
const OF_EACH_NODE: &[&str] = &[
    "nondeterministic_output",
    "request_policy:all_nodes",
    "response_policy:special",
];
const OF_EACH_SHARD: &[&str] = &[
    "nondeterministic_output",
    "request_policy:all_shards",
    "response_policy:special",
];

/// Returns the row of a LATENCY subcommand.
const fn latency(
    name: &'static str,
    arity: i32,
    since: &'static str,
    tips: &'static [&'static str],
) -> Command {
    Command::new(name, arity, Group::Server, since)
        .flags(ADMIN)
        .tips(tips)
}

/// Returns the row of a MEMORY subcommand.
const fn memory(name: &'static str, tips: &'static [&'static str]) -> Command {
    Command::new(name, 2, Group::Server, "4.0.0").tips(tips)
}

/// Returns the row of a MODULE subcommand that would load or unload modules.
const fn module(
    name: &'static str,
    arity: i32,
    since: &'static str,
    syntax: &'static str,
) -> Command {
    Command::new(name, arity, Group::Server, since)
        .flags(&[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading])
        .doc(
            syntax,
            "O(1)",
            "Returns an error because modules are not supported.",
        )
        .reply("an error")
}

/// Returns the row of a container's HELP subcommand.
const fn help(name: &'static str, since: &'static str) -> Command {
    Command::new(name, 2, Group::Server, since)
        .flags(&[Flag::Loading, Flag::Stale])
        .doc("", "O(1)", "Returns help about the subcommands.")
        .reply("array of simple")
}

/// Returns the row of REPLICAOF or of its older name, SLAVEOF.
const fn follow(name: &'static str, since: &'static str) -> Command {
    Command::new(name, 3, Group::Server, since)
        .flags(&[
            Flag::Admin,
            Flag::NoScript,
            Flag::Stale,
            Flag::NoAsyncLoading,
        ])
        .doc(
            "<host port | NO ONE>",
            "O(1)",
            "Makes the store a replica of a server, or ends this. Needs a server.",
        )
        .reply("OK")
}

/// Returns the row of SYNC or PSYNC, which replicas send to a master.
const fn copy(
    name: &'static str,
    arity: i32,
    since: &'static str,
    syntax: &'static str,
) -> Command {
    Command::new(name, arity, Group::Server, since)
        .flags(&[
            Flag::Admin,
            Flag::NoScript,
            Flag::NoAsyncLoading,
            Flag::NoMulti,
        ])
        .doc(
            syntax,
            "O(1)",
            "Makes the connection a replica, which receives the data set and all later changes.",
        )
        .reply("the data set and the stream of changes")
}

pub(super) const COMMANDS: &[Command] = &[
    Command::new("latency", -2, Group::Server, "2.8.13")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for latency diagnostics commands.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    latency("latency|doctor", 2, "2.8.13", OF_EACH_NODE)
                        .doc(
                            "",
                            "O(N) for N events",
                            "Returns a human-readable report on latency events, with advice.",
                        )
                        .reply("verbatim text"),
                    latency("latency|graph", 3, "2.8.13", OF_EACH_NODE)
                        .doc(
                            "event",
                            "O(1)",
                            "Returns an ASCII graph of the samples of a latency event.",
                        )
                        .reply("verbatim text"),
                    help("latency|help", "2.8.13"),
                    latency("latency|histogram", -2, "7.0.0", OF_EACH_NODE)
                        .doc(
                            "[command [command ...]]",
                            "O(N) for N commands that have been called",
                            "Returns the cumulative latency distribution of commands.",
                        )
                        .reply("map of command to a map of calls and histogram_usec"),
                    latency("latency|history", 3, "2.8.13", OF_EACH_NODE)
                        .doc(
                            "event",
                            "O(1)",
                            "Returns the samples of a latency event, oldest first.",
                        )
                        .reply("array of pairs: Unix time in seconds and milliseconds"),
                    latency("latency|latest", 2, "2.8.13", OF_EACH_NODE)
                        .doc(
                            "",
                            "O(N) for N events",
                            "Returns the latest sample of each latency event.",
                        )
                        .reply(
                            "array of arrays: event, Unix time in seconds, latest and maximum \
                             milliseconds",
                        ),
                    latency(
                        "latency|reset",
                        -2,
                        "2.8.13",
                        &["request_policy:all_nodes", "response_policy:all_succeeded"],
                    )
                    .doc(
                        "[event [event ...]]",
                        "O(N) for N events",
                        "Deletes the samples of latency events, or of all events.",
                    )
                    .reply("integer: number of events that were reset"),
                ]
            },
        ),
    Command::new("memory", -2, Group::Server, "4.0.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for memory diagnostics commands.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    memory("memory|doctor", OF_EACH_SHARD)
                        .doc(
                            "",
                            "O(1)",
                            "Returns a human-readable report on memory problems of the store.",
                        )
                        .reply("verbatim text"),
                    help("memory|help", "4.0.0"),
                    memory("memory|malloc-stats", OF_EACH_SHARD)
                        .doc(
                            "",
                            "O(1)",
                            "Returns a human-readable summary of the sizes of the store, its heap \
                             and its logs.",
                        )
                        .reply("verbatim text"),
                    memory(
                        "memory|purge",
                        &["request_policy:all_shards", "response_policy:all_succeeded"],
                    )
                    .doc(
                        "",
                        "O(N) where N is the amount of free memory",
                        "Returns free memory of the store to the operating system after one \
                         second; does nothing within MULTI.",
                    )
                    .reply("OK"),
                    memory("memory|stats", OF_EACH_SHARD)
                        .doc(
                            "",
                            "O(1)",
                            "Returns details about the memory use of the store.",
                        )
                        .reply("map of name to value"),
                    Command::new("memory|usage", -3, Group::Server, "4.0.0")
                        .flags(&[Flag::ReadOnly])
                        .keys(keys::LOOK_SECOND)
                        .doc(
                            "key [SAMPLES count]",
                            "O(N) for N samples",
                            "Estimates the memory use of a key and its value in bytes.",
                        )
                        .reply("integer or null"),
                ]
            },
        ),
    Command::new("module", -2, Group::Server, "4.0.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for module commands.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    help("module|help", "5.0.0"),
                    Command::new("module|list", 2, Group::Server, "4.0.0")
                        .flags(&[Flag::Admin, Flag::NoScript])
                        .tips(&["nondeterministic_output_order"])
                        .doc(
                            "",
                            "O(1)",
                            "Returns an empty list because modules are not supported.",
                        )
                        .reply("empty array"),
                    module("module|load", -3, "4.0.0", "path [arg [arg ...]]"),
                    module(
                        "module|loadex",
                        -3,
                        "7.0.0",
                        "path [CONFIG name value [CONFIG name value ...]] [ARGS arg [arg ...]]",
                    ),
                    module("module|unload", 3, "4.0.0", "name"),
                ]
            },
        ),
    follow("replicaof", "5.0.0"),
    follow("slaveof", "1.0.0").deprecated("5.0.0", "`REPLICAOF`"),
    copy("sync", 1, "1.0.0", ""),
    copy("psync", -3, "2.8.0", "replicationid offset"),
    Command::new("replconf", -1, Group::Server, "3.0.0")
        .flags(&[
            Flag::Admin,
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::AllowBusy,
        ])
        .doc(
            "",
            "O(1)",
            "Sets the options with which a connection becomes a replica.",
        )
        .reply("OK")
        .system(),
    Command::new("lolwut", -1, Group::Server, "5.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .doc(
            "[VERSION version]",
            "O(1)",
            "Draws a vault and displays the version.",
        )
        .reply("verbatim text"),
];
