//! Defines the table rows for commands that manage scripts and functions.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;
use crate::table::keys::{READ, READ_AND_CHANGE};

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
            "Depends on the script",
            "Runs a Lua script as one transaction.",
        )
        .reply("depends on the script"),
    Command::new("evalsha", -3, Group::Scripting, "2.6.0")
        .flags(FLAGS)
        .categories(&[Category::Scripting])
        .keys(const { &[KeySpec::counted(2, USE)] })
        .doc(
            "sha1 numkeys [key [key ...]] [arg [arg ...]]",
            "Depends on the script",
            "Runs a script of the store, given its SHA-1 digest.",
        )
        .reply("depends on the script"),
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
            "Depends on the script",
            "The read-only variant of EVAL.",
        )
        .reply("depends on the script"),
    Command::new("evalsha_ro", -3, Group::Scripting, "7.0.0")
        .flags(READING)
        .categories(&[Category::Scripting])
        .keys(const { &[KeySpec::counted(2, READ)] })
        .doc(
            "sha1 numkeys [key [key ...]] [arg [arg ...]]",
            "Depends on the script",
            "The read-only variant of EVALSHA.",
        )
        .reply("depends on the script"),
    Command::new("script", -2, Group::Scripting, "2.6.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for script commands.",
        )
        .reply("depends on the subcommand")
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
                            "Determines which scripts exist in the store.",
                        )
                        .reply("array of integers: 1 known, 0 not"),
                    Command::new("script|load", 3, Group::Scripting, "2.6.0")
                        .flags(&[Flag::NoScript, Flag::Stale])
                        .categories(&[Category::Scripting])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "script",
                            "O(N) for a script of N bytes",
                            "Loads a script into the store and returns its SHA-1 digest.",
                        )
                        .reply("bulk"),
                    Command::new("script|flush", -2, Group::Scripting, "2.6.0")
                        .flags(&[Flag::NoScript])
                        .categories(&[Category::Scripting])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "[ASYNC | SYNC]",
                            "O(N) for N scripts",
                            "Removes all scripts from the store.",
                        )
                        .reply("simple"),
                    Command::new("script|kill", 2, Group::Scripting, "2.6.0")
                        .flags(&[Flag::NoScript, Flag::AllowBusy])
                        .categories(&[Category::Scripting])
                        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
                        .doc(
                            "",
                            "O(1)",
                            "Kills long-running scripts that have written nothing, in any process.",
                        )
                        .reply("simple"),
                    Command::new("script|debug", 3, Group::Scripting, "3.2.0")
                        .flags(&[Flag::NoScript])
                        .categories(&[Category::Scripting])
                        .doc(
                            "YES | SYNC | NO",
                            "O(1)",
                            "Returns an error because the script debugger is not supported.",
                        )
                        .reply("error"),
                    Command::new("script|help", 2, Group::Scripting, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Scripting])
                        .doc("", "O(1)", "Returns help about the subcommands.")
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
            "Depends on the function",
            "Calls a function as one transaction.",
        )
        .reply("depends on the function"),
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
            "Depends on the function",
            "The read-only variant of FCALL.",
        )
        .reply("depends on the function"),
    Command::new("function", -2, Group::Scripting, "7.0.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for function commands.",
        )
        .reply("depends on the subcommand")
        .subcommands(FUNCTION),
];

/// The flags of commands that change function libraries.
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
            "O(N+M) for N bytes of code and M libraries",
            "Loads a function library into the store and returns its name.",
        )
        .reply("bulk"),
    Command::new("function|delete", 3, Group::Scripting, "7.0.0")
        .flags(CHANGING)
        .categories(&[Category::Scripting])
        .tips(EVERYWHERE)
        .doc("library-name", "O(1)", "Deletes a function library.")
        .reply("simple"),
    Command::new("function|flush", -2, Group::Scripting, "7.0.0")
        .flags(CHANGING)
        .categories(&[Category::Scripting])
        .tips(EVERYWHERE)
        .doc(
            "[ASYNC | SYNC]",
            "O(N) for N libraries",
            "Deletes all function libraries.",
        )
        .reply("simple"),
    Command::new("function|list", -2, Group::Scripting, "7.0.0")
        .flags(&[Flag::NoScript])
        .categories(&[Category::Scripting])
        .tips(&["nondeterministic_output_order"])
        .doc(
            "[LIBRARYNAME library-name-pattern] [WITHCODE]",
            "O(N) for N functions",
            "Returns information about function libraries and their functions.",
        )
        .reply("array of maps"),
    Command::new("function|dump", 2, Group::Scripting, "7.0.0")
        .flags(&[Flag::NoScript])
        .categories(&[Category::Scripting])
        .doc(
            "",
            "O(N) where N is the total length of all libraries",
            "Returns all function libraries as one serialized payload, which Redis can restore.",
        )
        .reply("bulk"),
    Command::new("function|restore", -3, Group::Scripting, "7.0.0")
        .flags(ADDING)
        .categories(&[Category::Scripting])
        .tips(EVERYWHERE)
        .doc(
            "serialized-value [FLUSH | APPEND | REPLACE]",
            "O(N) where N is the total length of all libraries",
            "Restores function libraries from a payload of FUNCTION DUMP, also from Redis.",
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
        .doc(
            "",
            "O(1)",
            "Returns the function that runs in this process, and the number of libraries and \
             functions.",
        )
        .reply("map"),
    Command::new("function|kill", 2, Group::Scripting, "7.0.0")
        .flags(&[Flag::NoScript, Flag::AllowBusy])
        .categories(&[Category::Scripting])
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
        .doc(
            "",
            "O(1)",
            "Kills long-running functions that have written nothing, in any process.",
        )
        .reply("simple"),
    Command::new("function|help", 2, Group::Scripting, "7.0.0")
        .flags(&[Flag::Loading, Flag::Stale])
        .categories(&[Category::Scripting])
        .doc("", "O(1)", "Returns help about the subcommands.")
        .reply("array of simple"),
];
