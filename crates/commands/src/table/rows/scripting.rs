//! Rows of the commands for scripts and functions.

use super::keys::{READ, READ_AND_CHANGE};
use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;

const FLAGS: &[Flag] = &[
    Flag::NoScript,
    Flag::Stale,
    Flag::SkipMonitor,
    Flag::NoMandatoryKeys,
    Flag::MovableKeys,
];
const READING: &[Flag] = &[
    Flag::ReadOnly,
    Flag::NoScript,
    Flag::Stale,
    Flag::SkipMonitor,
    Flag::NoMandatoryKeys,
    Flag::MovableKeys,
];
const USE: &[KeyFlag] = READ_AND_CHANGE;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("eval", -3, Group::Scripting, "2.6.0")
        .flags(FLAGS)
        .categories(&[Category::Scripting])
        .keys(
            const {
                &[KeySpec::counted(2, USE).notes(
                    "We cannot tell how the keys will be used so we assume \
             the worst, RW and UPDATE",
                )]
            },
        )
        .doc(
            "script numkeys [key [key ...]] [arg [arg ...]]",
            "That of the commands in the script",
            "Runs a script in Lua, as one transaction.",
        )
        .reply("that of the script"),
    Command::new("evalsha", -3, Group::Scripting, "2.6.0")
        .flags(FLAGS)
        .categories(&[Category::Scripting])
        .keys(const { &[KeySpec::counted(2, USE)] })
        .doc(
            "sha1 numkeys [key [key ...]] [arg [arg ...]]",
            "That of the commands in the script",
            "Runs a script that the store knows by its SHA-1.",
        )
        .reply("that of the script"),
    Command::new("eval_ro", -3, Group::Scripting, "7.0.0")
        .flags(READING)
        .categories(&[Category::Scripting])
        .keys(
            const {
                &[KeySpec::counted(2, READ).notes(
                    "We cannot tell how the keys will be used so we assume \
             the worst, RO and ACCESS",
                )]
            },
        )
        .doc(
            "script numkeys [key [key ...]] [arg [arg ...]]",
            "That of the commands in the script",
            "Runs a script in Lua that may change nothing.",
        )
        .reply("that of the script"),
    Command::new("evalsha_ro", -3, Group::Scripting, "7.0.0")
        .flags(READING)
        .categories(&[Category::Scripting])
        .keys(const { &[KeySpec::counted(2, READ)] })
        .doc(
            "sha1 numkeys [key [key ...]] [arg [arg ...]]",
            "That of the commands in the script",
            "Runs a script that the store knows by its SHA-1, and that may change nothing.",
        )
        .reply("that of the script"),
    Command::new("script", -2, Group::Scripting, "2.6.0")
        .doc("", "That of the subcommand", "Looks at scripts.")
        .reply("that of the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("script|exists", -3, Group::Scripting, "2.6.0")
                        .flags(&[Flag::NoScript])
                        .categories(&[Category::Scripting])
                        .tips(&[
                            "request_policy:all_shards",
                            "response_policy:agg_logical_and",
                        ])
                        .doc(
                            "sha1 [sha1 ...]",
                            "O(N) for N scripts",
                            "Says which scripts the store knows.",
                        )
                        .reply("array of integers: 1 known, 0 not"),
                    Command::new("script|load", 3, Group::Scripting, "2.6.0")
                        .flags(&[Flag::NoScript, Flag::Stale])
                        .categories(&[Category::Scripting])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "script",
                            "O(N) in the length of the script",
                            "Keeps a script in the store, and returns its SHA-1.",
                        )
                        .reply("bulk"),
                    Command::new("script|flush", -2, Group::Scripting, "2.6.0")
                        .flags(&[Flag::NoScript])
                        .categories(&[Category::Scripting])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "[ASYNC | SYNC]",
                            "O(N) for N scripts",
                            "Forgets all scripts.",
                        )
                        .reply("simple"),
                    Command::new("script|kill", 2, Group::Scripting, "2.6.0")
                        .flags(&[Flag::NoScript, Flag::AllowBusy])
                        .categories(&[Category::Scripting])
                        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
                        .doc(
                            "",
                            "O(1)",
                            "Ends scripts that run for long, in whatever process, and have changed nothing.",
                        )
                        .reply("simple"),
                    Command::new("script|debug", 3, Group::Scripting, "3.2.0")
                        .flags(&[Flag::NoScript])
                        .categories(&[Category::Scripting])
                        .doc("YES | SYNC | NO", "O(1)", "Is refused: there is no debugger.")
                        .reply("error"),
                    Command::new("script|help", 2, Group::Scripting, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Scripting])
                        .doc("", "O(1)", "Explains the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
    Command::new("fcall", -3, Group::Scripting, "7.0.0")
        .flags(FLAGS)
        .categories(&[Category::Scripting])
        .keys(
            const {
                &[KeySpec::counted(2, USE).notes(
                    "We cannot tell how the keys will be used so we assume \
             the worst, RW and UPDATE",
                )]
            },
        )
        .doc(
            "function numkeys [key [key ...]] [arg [arg ...]]",
            "That of the commands in the function",
            "Calls a function of a library, as one transaction.",
        )
        .reply("that of the function"),
    Command::new("fcall_ro", -3, Group::Scripting, "7.0.0")
        .flags(READING)
        .categories(&[Category::Scripting])
        .keys(
            const {
                &[KeySpec::counted(2, READ).notes(
                    "We cannot tell how the keys will be used so we assume \
             the worst, RO and ACCESS",
                )]
            },
        )
        .doc(
            "function numkeys [key [key ...]] [arg [arg ...]]",
            "That of the commands in the function",
            "Calls a function that changes nothing.",
        )
        .reply("that of the function"),
    Command::new("function", -2, Group::Scripting, "7.0.0")
        .doc("", "That of the subcommand", "Looks after libraries of functions.")
        .reply("that of the subcommand")
        .subcommands(FUNCTION),
];

/// The flags of commands that change libraries.
const CHANGING: &[Flag] = &[Flag::Write, Flag::NoScript];
const ADDING: &[Flag] = &[Flag::Write, Flag::DenyOom, Flag::NoScript];
const EVERYWHERE: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const FUNCTION: &[Command] = &[
    Command::new("function|load", -3, Group::Scripting, "7.0.0")
        .flags(ADDING)
        .categories(&[Category::Scripting])
        .tips(EVERYWHERE)
        .doc(
            "[REPLACE] function-code",
            "O(N) in the length of the code, and for N libraries",
            "Keeps a library of functions in the store, and returns its name.",
        )
        .reply("bulk"),
    Command::new("function|delete", 3, Group::Scripting, "7.0.0")
        .flags(CHANGING)
        .categories(&[Category::Scripting])
        .tips(EVERYWHERE)
        .doc("library-name", "O(1)", "Forgets a library.")
        .reply("simple"),
    Command::new("function|flush", -2, Group::Scripting, "7.0.0")
        .flags(CHANGING)
        .categories(&[Category::Scripting])
        .tips(EVERYWHERE)
        .doc(
            "[ASYNC | SYNC]",
            "O(N) for N libraries",
            "Forgets all libraries.",
        )
        .reply("simple"),
    Command::new("function|list", -2, Group::Scripting, "7.0.0")
        .flags(&[Flag::NoScript])
        .categories(&[Category::Scripting])
        .tips(&["nondeterministic_output_order"])
        .doc(
            "[LIBRARYNAME library-name-pattern] [WITHCODE]",
            "O(N) for N functions",
            "Tells of libraries and their functions.",
        )
        .reply("array of maps"),
    Command::new("function|dump", 2, Group::Scripting, "7.0.0")
        .flags(&[Flag::NoScript])
        .categories(&[Category::Scripting])
        .doc(
            "",
            "O(N) in the length of all libraries",
            "All libraries in one text, which Redis can restore.",
        )
        .reply("bulk"),
    Command::new("function|restore", -3, Group::Scripting, "7.0.0")
        .flags(ADDING)
        .categories(&[Category::Scripting])
        .tips(EVERYWHERE)
        .doc(
            "serialized-value [FLUSH | APPEND | REPLACE]",
            "O(N) in the length of all libraries",
            "Restores libraries that FUNCTION DUMP gave, here or in Redis.",
        )
        .reply("simple"),
    Command::new("function|stats", 2, Group::Scripting, "7.0.0")
        .flags(&[Flag::NoScript, Flag::AllowBusy])
        .categories(&[Category::Scripting])
        .tips(&[
            "nondeterministic_output",
            "request_policy:all_shards",
            "response_policy:special",
        ])
        .doc("", "O(1)", "Counts libraries and functions.")
        .reply("map"),
    Command::new("function|kill", 2, Group::Scripting, "7.0.0")
        .flags(&[Flag::NoScript, Flag::AllowBusy])
        .categories(&[Category::Scripting])
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
        .doc(
            "",
            "O(1)",
            "Ends functions that run for long, in whatever process, and have changed nothing.",
        )
        .reply("simple"),
    Command::new("function|help", 2, Group::Scripting, "7.0.0")
        .flags(&[Flag::Loading, Flag::Stale])
        .categories(&[Category::Scripting])
        .doc("", "O(1)", "Explains the subcommands.")
        .reply("array of simple"),
];
