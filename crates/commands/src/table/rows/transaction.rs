//! Rows of the transaction commands.

use super::keys;
use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};

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
        .doc("", "O(1)", "Queues the commands that follow, for EXEC.")
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
            "That of the queued commands",
            "Runs all queued commands as one: all or none of them, and nobody sees half.",
        )
        .reply("array of the commands' replies; null where a watched key was changed"),
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
            "Forgets the queued commands and the watched keys.",
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
            "Watches keys: the next EXEC runs only where none of them was changed.",
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
        .doc("", "O(N) for N keys", "Forgets the watched keys.")
        .reply("OK"),
];
