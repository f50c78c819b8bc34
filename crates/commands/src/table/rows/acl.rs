//! Defines the table rows for ACL, which manages users and their rights.

use crate::table::command::Command;
use crate::table::flags::{Flag, Group};

/// The flags of subcommands that every client may use.
const PLAIN: &[Flag] = &[Flag::NoScript, Flag::Loading, Flag::Stale];
/// The flags of subcommands for administrators.
const ADMIN: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale];

const fn row(name: &'static str, arity: i32, flags: &[Flag]) -> Command {
    Command::new(name, arity, Group::Server, "6.0.0").flags(flags)
}

pub(super) const COMMANDS: &[Command] = &[Command::new("acl", -2, Group::Server, "6.0.0")
    .doc(
        "",
        "Depends on the subcommand",
        "A container for commands that manage users and their rights.",
    )
    .reply("depends on the subcommand")
    .subcommands(SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    row("acl|cat", -2, PLAIN)
        .doc(
            "[categoryname]",
            "O(N) for N commands",
            "Returns the categories of commands, or the commands of a category.",
        )
        .reply("array of bulk"),
    row("acl|deluser", -3, ADMIN)
        .doc(
            "username [username ...]",
            "O(N) for N users",
            "Deletes users in the store, and closes their connections to all servers of the store.",
        )
        .reply("integer: number of deleted users"),
    Command::new("acl|dryrun", -4, Group::Server, "7.0.0")
        .flags(ADMIN)
        .doc(
            "username command [arg [arg ...]]",
            "O(N) for N arguments",
            "Checks whether a user may run a command, without running it.",
        )
        .reply("OK, or bulk: the reason why not"),
    row("acl|genpass", -2, PLAIN)
        .doc(
            "[bits]",
            "O(1)",
            "Returns a random password in hexadecimal digits, by default of 256 bits.",
        )
        .reply("bulk"),
    row("acl|getuser", 3, ADMIN)
        .doc(
            "username",
            "O(N) for N rules of the user, times the number of commands",
            "Returns the rules of a user.",
        )
        .reply("map, or null"),
    row("acl|list", 2, ADMIN)
        .doc(
            "",
            "O(N) for N rules of all users, times the number of commands",
            "Returns the rules of all users, in the format of configuration files.",
        )
        .reply("array of bulk"),
    row("acl|load", 2, ADMIN)
        .doc(
            "",
            "O(N) for N users",
            "Replaces all users in the store by those in the ACL file of this server.",
        )
        .reply("OK"),
    row("acl|log", -2, ADMIN)
        .doc(
            "[count | RESET]",
            "O(N) for N entries",
            "Returns the latest calls that this server denied, or removes all entries.",
        )
        .reply("array of maps, or OK"),
    row("acl|save", 2, ADMIN)
        .doc(
            "",
            "O(N) for N users",
            "Writes all users in the store to the ACL file of this server.",
        )
        .reply("OK"),
    row("acl|setuser", -3, ADMIN)
        .doc(
            "username [rule [rule ...]]",
            "O(N) for N rules",
            "Creates or changes a user in the store, for all servers of the store.",
        )
        .reply("OK"),
    row("acl|users", 2, ADMIN)
        .doc(
            "",
            "O(N) for N users",
            "Returns the names of all users in the store.",
        )
        .reply("array of bulk"),
    row("acl|whoami", 2, PLAIN)
        .doc("", "O(1)", "Returns the user of the connection.")
        .reply("bulk, or null in a process that embeds the store"),
    Command::new("acl|help", 2, Group::Server, "6.0.0")
        .flags(&[Flag::Loading, Flag::Stale])
        .doc("", "O(1)", "Returns help about the subcommands.")
        .reply("array of simple"),
];
