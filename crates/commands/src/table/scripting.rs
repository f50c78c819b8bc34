//! The commands of scripts, of which those of redis-py's locks, of kombu and of Celery are known.

use super::command::{Category, Command, Flag, Group, KeyFlag, KeySpec};
use super::keys::READ_AND_CHANGE;
use crate::handlers::{scripting, server};

const FLAGS: &[Flag] = &[
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
            "Runs a script of redis-py's locks, of kombu 5.7 or of \
             Celery 5.7; any other is refused as unknown.",
        )
        .reply("that of the script")
        .handler(scripting::eval),
    Command::new("evalsha", -3, Group::Scripting, "2.6.0")
        .flags(FLAGS)
        .categories(&[Category::Scripting])
        .keys(const { &[KeySpec::counted(2, USE)] })
        .doc(
            "sha1 numkeys [key [key ...]] [arg [arg ...]]",
            "That of the commands in the script",
            "Runs a script of redis-py's locks, of kombu 5.7 or of \
             Celery 5.7 by its SHA-1; answers NOSCRIPT for any other.",
        )
        .reply("that of the script")
        .handler(scripting::evalsha),
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
                            "Says which scripts are known; those that EVAL runs \
             always are.",
                        )
                        .reply("array of integers: 1 known, 0 not")
                        .handler(scripting::exists),
                    Command::new("script|load", 3, Group::Scripting, "2.6.0")
                        .flags(&[Flag::NoScript, Flag::Stale])
                        .categories(&[Category::Scripting])
                        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                        .doc(
                            "script",
                            "O(N) in the length of the script",
                            "Returns the SHA-1 of a script that EVAL runs; any other \
             is refused as unknown.",
                        )
                        .reply("bulk")
                        .handler(scripting::load),
                    Command::new("script|help", 2, Group::Scripting, "5.0.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .categories(&[Category::Scripting])
                        .doc("", "O(1)", "Explains the subcommands.")
                        .reply("array of simple")
                        .handler(server::help),
                ]
            },
        ),
];
