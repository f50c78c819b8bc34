//! Defines the table rows for commands that manage the connection.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("ping", -1, Group::Connection, "1.0.0")
        .flags(&[Flag::Fast])
        .categories(&[Category::Connection])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .doc("[message]", "O(1)", "Checks that the server responds.")
        .reply("PONG, or bulk: the message"),
    Command::new("echo", 2, Group::Connection, "1.0.0")
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Connection])
        .doc("message", "O(1)", "Returns its argument.")
        .reply("bulk"),
    Command::new("select", 2, Group::Connection, "1.0.0")
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Connection])
        .doc("index", "O(1)", "Selects the database of the connection.")
        .reply("OK"),
    Command::new("hello", -1, Group::Connection, "6.0.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::NoAuth,
            Flag::AllowBusy,
        ])
        .categories(&[Category::Connection])
        .doc(
            "[protover [AUTH username password] [SETNAME clientname]]",
            "O(1)",
            "Selects the protocol version, and optionally authenticates and names the connection.",
        )
        .reply("map of the server's properties"),
    Command::new("auth", -2, Group::Connection, "1.0.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::NoAuth,
            Flag::AllowBusy,
        ])
        .categories(&[Category::Connection])
        .doc(
            "[username] password",
            "O(N) for N passwords of the user",
            "Authenticates the connection.",
        )
        .reply("OK"),
    Command::new("quit", -1, Group::Connection, "1.0.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::NoAuth,
            Flag::AllowBusy,
        ])
        .categories(&[Category::Connection])
        .doc(
            "",
            "O(1)",
            "Closes the connection after all replies are sent.",
        )
        .reply("OK"),
    Command::new("reset", 1, Group::Connection, "6.2.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::NoAuth,
            Flag::AllowBusy,
        ])
        .categories(&[Category::Connection])
        .doc("", "O(1)", "Resets the state of the connection.")
        .reply("RESET"),
    Command::new("client", -2, Group::Connection, "2.4.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for connection commands.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("client|id", 2, Group::Connection, "5.0.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Returns the ID of the connection.")
                        .reply("integer"),
                    Command::new("client|getname", 2, Group::Connection, "2.6.9")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Returns the name of the connection.")
                        .reply("bulk or null"),
                    Command::new("client|setname", 3, Group::Connection, "2.6.9")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "connection-name",
                            "O(1)",
                            "Sets the name of the connection.",
                        )
                        .reply("OK"),
                    Command::new("client|setinfo", 4, Group::Connection, "7.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "<LIB-NAME libname | LIB-VER libver>",
                            "O(1)",
                            "Sets the name or version of the client library of the connection.",
                        )
                        .reply("OK"),
                    Command::new("client|info", 2, Group::Connection, "6.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["nondeterministic_output"])
                        .doc("", "O(1)", "Returns information about the connection.")
                        .reply("bulk"),
                    Command::new("client|list", -2, Group::Connection, "2.4.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["nondeterministic_output"])
                        .doc(
                            "[TYPE NORMAL | MASTER | REPLICA | PUBSUB] [ID client-id \
             [client-id ...]]",
                            "O(N) for N connections",
                            "Lists open connections, one per line.",
                        )
                        .reply("bulk"),
                    Command::new("client|kill", -3, Group::Connection, "2.4.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "<ip:port | [ID client-id] [TYPE NORMAL | MASTER | SLAVE | REPLICA | \
                             PUBSUB] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME \
                             yes/no]>",
                            "O(N) for N connections",
                            "Closes the connections that match all filters.",
                        )
                        .reply("integer: number of closed connections; OK in the old form"),
                    Command::new("client|no-evict", 3, Group::Connection, "7.0.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "ON | OFF",
                            "O(1)",
                            "Protects the connection from being closed to free buffer memory.",
                        )
                        .reply("OK"),
                    Command::new("client|no-touch", 3, Group::Connection, "7.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "ON | OFF",
                            "O(1)",
                            "Controls whether commands of the connection update the idle time and \
                             access frequency of keys.",
                        )
                        .reply("OK"),
                    Command::new("client|pause", -3, Group::Connection, "2.9.50")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "timeout [WRITE | ALL]",
                            "O(1)",
                            "Pauses the commands of all connections for a number of milliseconds.",
                        )
                        .reply("OK"),
                    Command::new("client|unpause", 2, Group::Connection, "6.2.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "",
                            "O(N) for N paused connections",
                            "Resumes the connections that CLIENT PAUSE paused.",
                        )
                        .reply("OK"),
                    Command::new("client|unblock", -3, Group::Connection, "5.0.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "client-id [TIMEOUT | ERROR]",
                            "O(log N) for N connections",
                            "Unblocks a connection that is blocked by a command.",
                        )
                        .reply("integer: 1 unblocked, 0 not"),
                    Command::new("client|reply", 3, Group::Connection, "3.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "ON | OFF | SKIP",
                            "O(1)",
                            "Controls whether the server sends replies to the connection.",
                        )
                        .reply("OK, or nothing"),
                    Command::new("client|tracking", -3, Group::Connection, "6.0.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] \
                             [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
                            "O(1), and O(P) for P prefixes of other connections",
                            "Tells the connection, or another one, which keys have changed, for a \
                             cache in the client.",
                        )
                        .reply("OK"),
                    Command::new("client|caching", 3, Group::Connection, "6.0.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "<YES | NO>",
                            "O(1)",
                            "Controls whether the keys of the next command are tracked.",
                        )
                        .reply("OK"),
                    Command::new("client|trackinginfo", 2, Group::Connection, "6.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Returns which keys the connection tracks.")
                        .reply("map"),
                    Command::new("client|getredir", 2, Group::Connection, "6.0.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "",
                            "O(1)",
                            "Returns the ID of the connection that is told about changed keys.",
                        )
                        .reply("integer: 0 this connection, -1 none"),
                    Command::new("client|help", 2, Group::Connection, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Returns help about the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
];
