//! Generates commands that publish messages without receivers. The written cases test SUBSCRIBE and
//! its variants, because they reply more than once and restrict the connection.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "messages",
    makers: &[(2, publish), (3, pubsub)],
};

fn publish(g: &mut Generator, out: &mut Vec<Command>) {
    let name: &str = g.pick(&["PUBLISH", "SPUBLISH"]);
    let (channel, message) = (g.key(), g.value());
    out.push(command(name, [channel, message]));
}

fn pubsub(g: &mut Generator, out: &mut Vec<Command>) {
    let args: &[&str] = g.pick(&[
        &["CHANNELS"][..],
        &["CHANNELS", "*"],
        &["CHANNELS", "a", "b"],
        &["NUMSUB"],
        &["NUMSUB", "a", "", "a"],
        &["NUMPAT"],
        &["NUMPAT", "a"],
        &["SHARDCHANNELS"],
        &["SHARDCHANNELS", "[a"],
        &["SHARDNUMSUB"],
        &["SHARDNUMSUB", "a"],
        &["BOGUS"],
    ]);
    out.push(command("PUBSUB", args.iter().copied()));
}
