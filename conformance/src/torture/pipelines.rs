//! Tests with very long pipelines.

use anyhow::{Context, Result, ensure};

use super::{Note, Target};
use crate::client::Client;
use crate::command::Command;
use crate::resp::{self, Reply};

fn expect_counting(replies: impl Iterator<Item = Result<Reply>>, count: usize) -> Result<()> {
    let mut seen = 0i64;
    for reply in replies {
        let reply = reply?;
        seen += 1;
        ensure!(
            reply == Reply::Integer(seen),
            "reply {seen} of {count}: expected :{seen}, got {reply}"
        );
    }
    Ok(())
}

fn counting(count: usize) -> Vec<Command> {
    vec![Command::of(["INCR", "torture:counter"]); count]
}

/// Sends a pipeline while reading its replies, which must be complete and in order.
///
/// # Errors
/// Returns an error for the first reply that is out of order, or for a broken connection.
pub fn many_commands_at_once(target: &Target, count: usize) -> Result<Note> {
    let mut client = Client::connect(&target.address)?;
    client.call(["DEL", "torture:counter"])?;
    let replies = client.pipeline(&counting(count))?;
    expect_counting(replies.into_iter().map(Ok), count)?;
    client.call(["DEL", "torture:counter"])?;
    Ok(format!("{count} replies in order"))
}

/// Sends an entire pipeline before reading the first reply, as many clients do.
///
/// # Errors
/// Returns an error for a reply that is out of order, for a broken connection, or if the server
/// stops reading before its replies are read.
pub fn many_commands_unread(target: &Target, count: usize) -> Result<Note> {
    let mut client = Client::connect(&target.address)?;
    client.call(["DEL", "torture:counter"])?;
    let mut bytes = Vec::new();
    for command in counting(count) {
        resp::write_command(&mut bytes, &command.0)?;
    }
    client
        .send_raw(&bytes)
        .context("the server did not take the whole pipeline")?;
    expect_counting((0..count).map(|_| Ok(client.receive()?)), count)?;
    client.call(["DEL", "torture:counter"])?;
    Ok(format!(
        "{} KiB sent before the first reply was read",
        bytes.len() / 1024
    ))
}
