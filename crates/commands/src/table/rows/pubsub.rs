//! Rows of the publish/subscribe commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;

/// The flags of commands that change the connection's subscriptions.
const SUBSCRIBING: &[Flag] = &[Flag::Pubsub, Flag::NoScript, Flag::Loading, Flag::Stale];
/// The flags of subcommands that only inspect.
const LOOKING: &[Flag] = &[Flag::Pubsub, Flag::Loading, Flag::Stale];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("subscribe", -2, Group::Pubsub, "2.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .doc(
            "channel [channel ...]",
            "O(N) for N channels",
            "Begins to receive the messages of channels.",
        )
        .reply(
            "for each channel a push: subscribe, the channel, and the subscriptions there are now",
        ),
    Command::new("unsubscribe", -1, Group::Pubsub, "2.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .doc(
            "[channel [channel ...]]",
            "O(N) for N channels",
            "Stops receiving the messages of channels, or of all.",
        )
        .reply("for each channel a push: unsubscribe, the channel, and the subscriptions left"),
    Command::new("psubscribe", -2, Group::Pubsub, "2.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .doc(
            "pattern [pattern ...]",
            "O(N) for N patterns",
            "Begins to receive the messages of channels that match.",
        )
        .reply(
            "for each pattern a push: psubscribe, the pattern, and the subscriptions there \
             are now",
        ),
    Command::new("punsubscribe", -1, Group::Pubsub, "2.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .doc(
            "[pattern [pattern ...]]",
            "O(N+M) for N patterns, and M of all clients",
            "Stops receiving the messages that match patterns, or any.",
        )
        .reply("for each pattern a push: punsubscribe, the pattern, and the subscriptions left"),
    Command::new("ssubscribe", -2, Group::Pubsub, "7.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .keys(const { &[KeySpec::all_from(1, &[KeyFlag::NotKey])] })
        .doc(
            "shardchannel [shardchannel ...]",
            "O(N) for N shard channels",
            "Begins to receive the messages of shard channels.",
        )
        .reply(
            "for each shard channel a push: ssubscribe, its name, and the subscriptions to \
             shard channels there are now",
        ),
    Command::new("sunsubscribe", -1, Group::Pubsub, "7.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .keys(const { &[KeySpec::all_from(1, &[KeyFlag::NotKey])] })
        .doc(
            "[shardchannel [shardchannel ...]]",
            "O(N) for N shard channels",
            "Stops receiving the messages of shard channels, or of all.",
        )
        .reply(
            "for each shard channel a push: sunsubscribe, its name, and the subscriptions to \
             shard channels left",
        ),
    Command::new("publish", 3, Group::Pubsub, "2.0.0")
        .flags(&[Flag::Pubsub, Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Pubsub])
        .doc(
            "channel message",
            "O(N+M) for N receivers and M patterns of all clients",
            "Sends a message to all who are subscribed to the channel, in every process.",
        )
        .reply("integer: its receivers"),
    Command::new("spublish", 3, Group::Pubsub, "7.0.0")
        .flags(&[Flag::Pubsub, Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Pubsub])
        .keys(const { &[KeySpec::first(&[KeyFlag::NotKey])] })
        .doc(
            "shardchannel message",
            "O(N) for N receivers",
            "Sends a message to all who are subscribed to the shard channel, in every process.",
        )
        .reply("integer: its receivers"),
    Command::new("pubsub", -2, Group::Pubsub, "2.8.0")
        .doc(
            "",
            "That of the subcommand",
            "Looks at channels and who is subscribed.",
        )
        .reply("that of the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("pubsub|channels", -2, Group::Pubsub, "2.8.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "[pattern]",
                            "O(N) for N channels",
                            "Lists the channels that somebody is subscribed to.",
                        )
                        .reply("array of bulk"),
                    Command::new("pubsub|numpat", 2, Group::Pubsub, "2.8.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "",
                            "O(N) for N patterns",
                            "Counts the patterns that somebody is subscribed to.",
                        )
                        .reply("integer"),
                    Command::new("pubsub|numsub", -2, Group::Pubsub, "2.8.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "[channel [channel ...]]",
                            "O(N) for N channels",
                            "Counts the receivers of channels, patterns not counted.",
                        )
                        .reply("array: each channel and its receivers"),
                    Command::new("pubsub|shardchannels", -2, Group::Pubsub, "7.0.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "[pattern]",
                            "O(N) for N shard channels",
                            "Lists the shard channels that somebody is subscribed to.",
                        )
                        .reply("array of bulk"),
                    Command::new("pubsub|shardnumsub", -2, Group::Pubsub, "7.0.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "[shardchannel [shardchannel ...]]",
                            "O(N) for N shard channels",
                            "Counts the receivers of shard channels.",
                        )
                        .reply("array: each shard channel and its receivers"),
                    Command::new("pubsub|help", 2, Group::Pubsub, "6.2.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .doc("", "O(1)", "Explains the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
];
