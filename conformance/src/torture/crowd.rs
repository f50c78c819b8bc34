//! Tests with many connections.

use anyhow::{Context, Result, ensure};

use super::{Note, Target, others_are_served};
use crate::client::Client;
use crate::resp::Reply;
use crate::servers::raise_descriptor_limit;

/// Opens idle connections, and checks that a new client and the idle clients are served. If the
/// descriptor limit permits fewer connections, the note says so.
///
/// # Errors
/// Returns an error that states the expected and the actual reply.
pub fn idle_connections(target: &Target, wanted: usize) -> Result<Note> {
    // Each connection needs one descriptor in this process and one in the server, which inherited
    // the limit.
    let possible = usize::try_from(raise_descriptor_limit().saturating_sub(500))?;
    let count = wanted.min(possible);
    ensure!(
        count > 0,
        "the limit of open descriptors is too low for any connection"
    );
    let mut idle = Vec::with_capacity(count);
    for number in 0..count {
        let mut client = Client::connect(&target.address)
            .with_context(|| format!("idle connection {number} of {count}"))?;
        // A reply proves that the server has accepted the connection, which could otherwise still
        // be in the backlog.
        let reply = client.call(["PING"])?;
        ensure!(
            reply == Reply::Simple(b"PONG".to_vec()),
            "connection {number}: got {reply}"
        );
        idle.push(client);
    }
    others_are_served(&target.address)?;
    for (number, client) in idle.iter_mut().enumerate().step_by(97) {
        let reply = client.call(["ECHO", "still here"])?;
        ensure!(
            reply == Reply::Bulk(b"still here".to_vec()),
            "idle connection {number}: got {reply}"
        );
    }
    drop(idle);
    others_are_served(&target.address)?;
    let note = format!("{count} connections");
    Ok(if count < wanted {
        format!("{note} (not {wanted}: the limit of open descriptors)")
    } else {
        note
    })
}

/// Opens connections that each send half a command, and checks that the commands are answered once
/// their second half arrives.
///
/// # Errors
/// Returns an error that states the expected and the actual reply.
pub fn half_sent_commands(target: &Target, count: usize) -> Result<Note> {
    let mut waiting = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = Client::connect(&target.address)?;
        client.send_raw(b"*2\r\n$4\r\nECHO\r\n$12\r\nfirst")?;
        waiting.push(client);
    }
    others_are_served(&target.address)?;
    for client in &mut waiting {
        client.send_raw(b"-second\r\n")?;
        let reply = client.receive()?;
        ensure!(
            reply == Reply::Bulk(b"first-second".to_vec()),
            "got {reply}"
        );
    }
    Ok(format!("{count} connections"))
}

/// Checks that once `limit` clients are connected, another client gets an error and is
/// disconnected, and that a client is admitted again after one of them leaves.
///
/// # Errors
/// Returns an error that states the expected and the actual reply.
pub fn clients_beyond_the_limit(target: &Target, limit: usize) -> Result<Note> {
    let mut inside = Vec::new();
    // The server may still count the connection on which the test waited for it to start.
    let mut refused = None;
    while refused.is_none() {
        let mut client = Client::connect(&target.address)?;
        match client.call(["PING"])? {
            Reply::Simple(_) => inside.push(client),
            other => refused = Some(other),
        }
        ensure!(
            inside.len() <= limit,
            "expected at most {limit} clients, {} are in",
            inside.len()
        );
    }
    ensure!(
        inside.len() + 1 >= limit,
        "expected {limit} clients, only {} came in",
        inside.len()
    );
    let expected = Reply::Error(b"ERR max number of clients reached".to_vec());
    ensure!(refused == Some(expected), "got {refused:?}");
    inside.pop();
    // Retry, because the server may notice late that a client has left.
    for _ in 0..10_000 {
        let mut client = Client::connect(&target.address)?;
        match client.call(["PING"]) {
            Ok(Reply::Simple(_)) => return Ok(format!("{limit} clients")),
            _ => std::thread::yield_now(),
        }
    }
    anyhow::bail!("no client can connect after one has left")
}
