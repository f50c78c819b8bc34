//! Defines the table rows for HyperLogLog commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;
use crate::table::keys::{self, READ};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("pfadd", -2, Group::Hyperloglog, "2.8.9")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .categories(&[Category::Hyperloglog])
        .keys(keys::ADD_KEY)
        .doc(
            "key [element [element ...]]",
            "O(1) for each element",
            "Adds elements to a HyperLogLog, creating it if necessary.",
        )
        .reply("integer: 1 if the estimate may have changed, otherwise 0"),
    Command::new("pfcount", -2, Group::Hyperloglog, "2.8.9")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Hyperloglog])
        .keys(
            const {
                &[
                    KeySpec::all_from(1, &[KeyFlag::ReadWrite, KeyFlag::Access]).notes(
                        "RW because it may change the internal representation of \
             the key, and propagate to replicas",
                    ),
                ]
            },
        )
        .doc(
            "key [key ...]",
            "O(1) for one key, whose count is cached; O(N) for N keys",
            "Returns the approximate number of distinct elements in the union of HyperLogLogs.",
        )
        .reply("integer"),
    Command::new("pfmerge", -2, Group::Hyperloglog, "2.8.9")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Hyperloglog])
        .keys(
            const {
                &[
                    KeySpec::first(&[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Insert]),
                    KeySpec::all_from(2, READ),
                ]
            },
        )
        .doc(
            "destkey [sourcekey [sourcekey ...]]",
            "O(N) for N keys",
            "Merges HyperLogLogs into one.",
        )
        .reply("OK"),
    Command::new("pfdebug", 3, Group::Hyperloglog, "2.8.9")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Admin])
        .categories(&[Category::Hyperloglog])
        .keys(const { &[KeySpec::second(&[KeyFlag::ReadWrite, KeyFlag::Access])] })
        .doc(
            "GETREG | DECODE | ENCODING | TODENSE key",
            "O(1)",
            "Inspects or changes the internal encoding of a HyperLogLog.",
        )
        .reply("depends on the subcommand")
        .system(),
    Command::new("pfselftest", 1, Group::Hyperloglog, "2.8.9")
        .flags(&[Flag::Admin])
        .categories(&[Category::Hyperloglog])
        .doc(
            "",
            "O(1)",
            "Tests the sparse encoding of HyperLogLogs against the dense encoding.",
        )
        .reply("OK")
        .system(),
];
