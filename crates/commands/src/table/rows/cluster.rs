//! Defines the table rows for cluster commands. Undercroft has no cluster mode, so each command
//! replies like a Redis server whose cluster mode is off.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};

/// The summary that all cluster commands share.
const SUMMARY: &str = "Returns an error because cluster mode is not supported.";

/// Returns the row of a subcommand that inspects the cluster.
const fn look(
    name: &'static str,
    arity: i32,
    since: &'static str,
    syntax: &'static str,
) -> Command {
    Command::new(name, arity, Group::Cluster, since)
        .flags(&[Flag::Stale])
        .doc(syntax, "O(1)", SUMMARY)
        .reply("an error")
}

/// Marks a subcommand whose reply would be nondeterministic in a cluster.
const fn vary(command: Command) -> Command {
    command.tips(&["nondeterministic_output"])
}

/// Returns the row of a subcommand that lets administrators inspect the cluster.
const fn inspect(name: &'static str, since: &'static str) -> Command {
    vary(look(name, 3, since, "node-id").flags(&[Flag::Admin, Flag::Stale]))
}

/// Returns the row of a subcommand that changes the cluster.
const fn change(
    name: &'static str,
    arity: i32,
    since: &'static str,
    syntax: &'static str,
) -> Command {
    look(name, arity, since, syntax).flags(&[Flag::Admin, Flag::Stale, Flag::NoAsyncLoading])
}

/// Returns the row of a command that sets a connection's mode in a cluster.
const fn of_connection(name: &'static str, flags: &[Flag]) -> Command {
    Command::new(name, 1, Group::Cluster, "3.0.0")
        .flags(flags)
        .categories(&[Category::Connection])
        .doc("", "O(1)", SUMMARY)
        .reply("an error")
}

pub(super) const COMMANDS: &[Command] = &[
    of_connection("asking", &[Flag::Fast]),
    of_connection("readonly", &[Flag::Loading, Flag::Stale, Flag::Fast]),
    of_connection("readwrite", &[Flag::Loading, Flag::Stale, Flag::Fast]),
    Command::new("cluster", -2, Group::Cluster, "3.0.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for cluster commands.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    change("cluster|addslots", -3, "3.0.0", "slot [slot ...]"),
                    change(
                        "cluster|addslotsrange",
                        -4,
                        "7.0.0",
                        "start-slot end-slot [start-slot end-slot ...]",
                    ),
                    vary(change("cluster|bumpepoch", 2, "3.0.0", "")),
                    inspect("cluster|count-failure-reports", "3.0.0"),
                    look("cluster|countkeysinslot", 3, "3.0.0", "slot"),
                    change("cluster|delslots", -3, "3.0.0", "slot [slot ...]"),
                    change(
                        "cluster|delslotsrange",
                        -4,
                        "7.0.0",
                        "start-slot end-slot [start-slot end-slot ...]",
                    ),
                    change("cluster|failover", -2, "3.0.0", "[FORCE | TAKEOVER]"),
                    change("cluster|flushslots", 2, "3.0.0", ""),
                    change("cluster|forget", 3, "3.0.0", "node-id"),
                    vary(look("cluster|getkeysinslot", 4, "3.0.0", "slot count")),
                    look("cluster|help", 2, "5.0.0", "").flags(&[Flag::Loading, Flag::Stale]),
                    vary(look("cluster|info", 2, "3.0.0", "")),
                    look("cluster|keyslot", 3, "3.0.0", "key"),
                    vary(look("cluster|links", 2, "7.0.0", "")),
                    change("cluster|meet", -4, "3.0.0", "ip port [cluster_bus_port]"),
                    look("cluster|myid", 2, "3.0.0", ""),
                    vary(look("cluster|nodes", 2, "3.0.0", "")),
                    inspect("cluster|replicas", "5.0.0"),
                    change("cluster|replicate", 3, "3.0.0", "node-id"),
                    look("cluster|reset", -2, "3.0.0", "[HARD | SOFT]").flags(&[
                        Flag::Admin,
                        Flag::NoScript,
                        Flag::Stale,
                    ]),
                    change("cluster|saveconfig", 2, "3.0.0", ""),
                    change("cluster|set-config-epoch", 3, "3.0.0", "config-epoch"),
                    change(
                        "cluster|setslot",
                        -4,
                        "3.0.0",
                        "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>",
                    ),
                    vary(look("cluster|shards", 2, "7.0.0", "")),
                    inspect("cluster|slaves", "3.0.0").deprecated("5.0.0", "`CLUSTER REPLICAS`"),
                    vary(look("cluster|slots", 2, "3.0.0", ""))
                        .deprecated("7.0.0", "`CLUSTER SHARDS`"),
                ]
            },
        ),
];
