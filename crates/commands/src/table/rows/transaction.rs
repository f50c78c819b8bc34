//! Defines the table rows for transaction commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::keys;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("multi", 1, Group::Transaction, "1.2.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::AllowBusy,
        ])
        .categories(&[Category::Transaction])
        .doc(
            "",
            "O(1)",
            "Starts a transaction, which queues the following commands for EXEC.",
        )
        .reply("OK"),
    Command::new("exec", 1, Group::Transaction, "1.2.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::SkipSlowlog,
        ])
        .categories(&[Category::Transaction])
        .doc(
            "",
            "Depends on the queued commands",
            "Runs all queued commands atomically and isolated from other clients.",
        )
        .reply("array of the commands' replies; null if a watched key has changed"),
    Command::new("discard", 1, Group::Transaction, "2.0.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::AllowBusy,
        ])
        .categories(&[Category::Transaction])
        .doc(
            "",
            "O(N) for N queued commands",
            "Discards the queued commands and unwatches all keys.",
        )
        .reply("OK"),
    Command::new("watch", -2, Group::Transaction, "2.2.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::AllowBusy,
        ])
        .categories(&[Category::Transaction])
        .keys(keys::LOOK_ALL)
        .doc(
            "key [key ...]",
            "O(N) for N keys",
            "Watches keys; the next EXEC does nothing if a watched key has changed.",
        )
        .reply("OK"),
    Command::new("unwatch", 1, Group::Transaction, "2.2.0")
        .flags(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::AllowBusy,
        ])
        .categories(&[Category::Transaction])
        .doc("", "O(N) for N keys", "Unwatches all keys.")
        .reply("OK"),
];
