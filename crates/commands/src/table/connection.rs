//! The commands about the connection itself.

use super::command::{Category, Command, Flag, Group};
use crate::handlers;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("ping", -1, Group::Connection, "1.0.0")
        .flags(&[Flag::Fast])
        .categories(&[Category::Connection])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .doc(
            "[message]",
            "O(1)",
            "Answers, to show that the server does.",
        )
        .reply("PONG, or bulk: the message")
        .handler(handlers::connection::ping),
    Command::new("echo", 2, Group::Connection, "1.0.0")
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Connection])
        .doc("message", "O(1)", "Returns its argument.")
        .reply("bulk")
        .handler(handlers::connection::echo),
    Command::new("select", 2, Group::Connection, "1.0.0")
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Connection])
        .doc(
            "index",
            "O(1)",
            "Chooses the database the connection works on.",
        )
        .reply("OK")
        .handler(handlers::connection::select),
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
            "Chooses the protocol version, and logs in and names the \
             connection where asked to.",
        )
        .reply("map of the server's properties")
        .handler(handlers::connection::hello),
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
            "Logs in.",
        )
        .reply("OK")
        .handler(handlers::connection::auth),
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
            "Ends the connection after all replies are sent.",
        )
        .reply("OK")
        .handler(handlers::connection::quit),
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
        .doc(
            "",
            "O(1)",
            "Puts the connection into the state of a new one.",
        )
        .reply("RESET")
        .handler(handlers::connection::reset),
    Command::new("client", -2, Group::Connection, "2.4.0")
        .doc(
            "",
            "That of the subcommand",
            "Looks at connections and changes them.",
        )
        .reply("that of the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("client|id", 2, Group::Connection, "5.0.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Returns the connection's number.")
                        .reply("integer")
                        .handler(handlers::client::id),
                    Command::new("client|getname", 2, Group::Connection, "2.6.9")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Returns the connection's name.")
                        .reply("bulk or null")
                        .handler(handlers::client::getname),
                    Command::new("client|setname", 3, Group::Connection, "2.6.9")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("connection-name", "O(1)", "Names the connection.")
                        .reply("OK")
                        .handler(handlers::client::setname),
                    Command::new("client|setinfo", 4, Group::Connection, "7.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "<LIB-NAME libname | LIB-VER libver>",
                            "O(1)",
                            "Tells which library the client is written with.",
                        )
                        .reply("OK")
                        .handler(handlers::client::setinfo),
                    Command::new("client|info", 2, Group::Connection, "6.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["nondeterministic_output"])
                        .doc("", "O(1)", "Describes the connection in one line.")
                        .reply("bulk")
                        .handler(handlers::client::info),
                    Command::new("client|list", -2, Group::Connection, "2.4.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .tips(&["nondeterministic_output"])
                        .doc(
                            "[TYPE NORMAL | MASTER | REPLICA | PUBSUB] [ID client-id \
             [client-id ...]]",
                            "O(N) for N connections",
                            "Describes connections, one a line.",
                        )
                        .reply("bulk")
                        .handler(handlers::client::list),
                    Command::new("client|kill", -3, Group::Connection, "2.4.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "<ip:port | [ID client-id] [TYPE NORMAL | MASTER | SLAVE | REPLICA | PUBSUB] [USER username] \
             [ADDR ip:port] [LADDR ip:port] [SKIPME yes/no]>",
                            "O(N) for N connections",
                            "Closes connections.",
                        )
                        .reply("integer: connections closed; OK in the old form")
                        .handler(handlers::client::kill),
                    Command::new("client|no-evict", 3, Group::Connection, "7.0.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "ON | OFF",
                            "O(1)",
                            "Spares the connection where others are closed for want \
             of memory.",
                        )
                        .reply("OK")
                        .handler(handlers::client::no_evict),
                    Command::new("client|no-touch", 3, Group::Connection, "7.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "ON | OFF",
                            "O(1)",
                            "Has the connection's look-ups count as no use of their keys.",
                        )
                        .reply("OK")
                        .handler(handlers::client::no_touch),
                    Command::new("client|pause", -3, Group::Connection, "2.9.50")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "timeout [WRITE | ALL]",
                            "O(1)",
                            "Holds the commands of all connections back for some \
             milliseconds.",
                        )
                        .reply("OK")
                        .handler(handlers::client::pause),
                    Command::new("client|unpause", 2, Group::Connection, "6.2.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(N) for N connections that wait", "Ends a pause.")
                        .reply("OK")
                        .handler(handlers::client::unpause),
                    Command::new("client|unblock", -3, Group::Connection, "5.0.0")
                        .flags(&[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "client-id [TIMEOUT | ERROR]",
                            "O(log N) for N connections",
                            "Ends the wait of a command that blocks its connection.",
                        )
                        .reply("integer: 1 unblocked, 0 not")
                        .handler(handlers::client::unblock),
                    Command::new("client|reply", 3, Group::Connection, "3.2.0")
                        .flags(&[Flag::NoScript, Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc(
                            "ON | OFF | SKIP",
                            "O(1)",
                            "Turns replies off, on again, or off for the next command.",
                        )
                        .reply("OK, or nothing")
                        .handler(handlers::client::reply_mode),
                    Command::new("client|help", 2, Group::Connection, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Connection])
                        .doc("", "O(1)", "Explains the subcommands.")
                        .reply("array of simple")
                        .handler(handlers::server::help),
                ]
            },
        ),
];
