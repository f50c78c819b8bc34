//! Defines the table rows for publish/subscribe commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::{ChannelSpec, KeySpec};

/// The flags of commands that change the connection's subscriptions.
const SUBSCRIBING: &[Flag] = &[Flag::Pubsub, Flag::NoScript, Flag::Loading, Flag::Stale];
/// The flags of subcommands that only inspect subscriptions.
const LOOKING: &[Flag] = &[Flag::Pubsub, Flag::Loading, Flag::Stale];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("subscribe", -2, Group::Pubsub, "2.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .channels(ChannelSpec::ALL)
        .doc(
            "channel [channel ...]",
            "O(N) for N channels",
            "Subscribes to channels.",
        )
        .reply("a push for each channel: subscribe, the channel, the number of subscriptions"),
    Command::new("unsubscribe", -1, Group::Pubsub, "2.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .doc(
            "[channel [channel ...]]",
            "O(N) for N channels",
            "Unsubscribes from channels, or from all channels.",
        )
        .reply(
            "a push for each channel: unsubscribe, the channel, the number of subscriptions left",
        ),
    Command::new("psubscribe", -2, Group::Pubsub, "2.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .channels(ChannelSpec::PATTERNS)
        .doc(
            "pattern [pattern ...]",
            "O(N) for N patterns",
            "Subscribes to the channels that match patterns.",
        )
        .reply("a push for each pattern: psubscribe, the pattern, the number of subscriptions"),
    Command::new("punsubscribe", -1, Group::Pubsub, "2.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .doc(
            "[pattern [pattern ...]]",
            "O(N+M) for N patterns and M subscribed patterns of all clients",
            "Unsubscribes from patterns, or from all patterns.",
        )
        .reply(
            "a push for each pattern: punsubscribe, the pattern, the number of subscriptions left",
        ),
    Command::new("ssubscribe", -2, Group::Pubsub, "7.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .channels(ChannelSpec::ALL)
        .keys(const { &[KeySpec::all_from(1, &[KeyFlag::NotKey])] })
        .doc(
            "shardchannel [shardchannel ...]",
            "O(N) for N shard channels",
            "Subscribes to shard channels.",
        )
        .reply(
            "a push for each shard channel: ssubscribe, the channel, the number of shard \
             subscriptions",
        ),
    Command::new("sunsubscribe", -1, Group::Pubsub, "7.0.0")
        .flags(SUBSCRIBING)
        .categories(&[Category::Pubsub])
        .keys(const { &[KeySpec::all_from(1, &[KeyFlag::NotKey])] })
        .doc(
            "[shardchannel [shardchannel ...]]",
            "O(N) for N shard channels",
            "Unsubscribes from shard channels, or from all shard channels.",
        )
        .reply(
            "a push for each shard channel: sunsubscribe, the channel, the number of shard \
             subscriptions left",
        ),
    Command::new("publish", 3, Group::Pubsub, "2.0.0")
        .flags(&[Flag::Pubsub, Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Pubsub])
        .channels(ChannelSpec::FIRST)
        .doc(
            "channel message",
            "O(N+M) for N receivers and M subscribed patterns of all clients",
            "Publishes a message to all subscribers of a channel, in every process.",
        )
        .reply("integer: number of receivers"),
    Command::new("spublish", 3, Group::Pubsub, "7.0.0")
        .flags(&[Flag::Pubsub, Flag::Loading, Flag::Stale, Flag::Fast])
        .categories(&[Category::Pubsub])
        .channels(ChannelSpec::FIRST)
        .keys(const { &[KeySpec::first(&[KeyFlag::NotKey])] })
        .doc(
            "shardchannel message",
            "O(N) for N receivers",
            "Publishes a message to all subscribers of a shard channel, in every process.",
        )
        .reply("integer: number of receivers"),
    Command::new("pubsub", -2, Group::Pubsub, "2.8.0")
        .doc(
            "",
            "Depends on the subcommand",
            "A container for commands that inspect channels and subscriptions.",
        )
        .reply("depends on the subcommand")
        .subcommands(
            const {
                &[
                    Command::new("pubsub|channels", -2, Group::Pubsub, "2.8.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "[pattern]",
                            "O(N) for N channels",
                            "Returns the channels that have subscribers.",
                        )
                        .reply("array of bulk"),
                    Command::new("pubsub|numpat", 2, Group::Pubsub, "2.8.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "",
                            "O(N) for N patterns",
                            "Returns the number of distinct patterns with subscribers.",
                        )
                        .reply("integer"),
                    Command::new("pubsub|numsub", -2, Group::Pubsub, "2.8.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "[channel [channel ...]]",
                            "O(N) for N channels",
                            "Returns the number of subscribers of channels, without pattern \
                             subscriptions.",
                        )
                        .reply("array of alternating channels and numbers of receivers"),
                    Command::new("pubsub|shardchannels", -2, Group::Pubsub, "7.0.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "[pattern]",
                            "O(N) for N shard channels",
                            "Returns the shard channels that have subscribers.",
                        )
                        .reply("array of bulk"),
                    Command::new("pubsub|shardnumsub", -2, Group::Pubsub, "7.0.0")
                        .flags(LOOKING)
                        .categories(&[Category::Pubsub])
                        .doc(
                            "[shardchannel [shardchannel ...]]",
                            "O(N) for N shard channels",
                            "Returns the number of subscribers of shard channels.",
                        )
                        .reply("array of alternating shard channels and numbers of receivers"),
                    Command::new("pubsub|help", 2, Group::Pubsub, "6.2.0")
                        .flags(&[Flag::Loading, Flag::Stale])
                        .doc("", "O(1)", "Returns help about the subcommands.")
                        .reply("array of simple"),
                ]
            },
        ),
];
