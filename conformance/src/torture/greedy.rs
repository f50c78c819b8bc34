//! Tests with clients that try to use up the server's memory.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::inputs::is_closed;
use super::{Note, Target, others_are_served};
use crate::client::{Client, Socket};
use crate::command::Command;
use crate::resp;
use crate::servers::private_memory;

/// The permitted growth of a server's private memory, in bytes, under these attacks. It is well
/// above Redis' configured output limit (64 MiB) plus allocator slack, and well below the memory
/// that the attacks request.
const BOUND: u64 = 320 << 20;

fn memory(target: &Target) -> Option<u64> {
    target.pid.and_then(private_memory)
}

fn within_bound(before: Option<u64>, after: Option<u64>, what: &str) -> Result<Note> {
    let (Some(before), Some(after)) = (before, after) else {
        return Ok("memory not measured (not a process of ours)".to_owned());
    };
    let grown = after.saturating_sub(before);
    ensure!(
        grown <= BOUND,
        "{what}: expected at most {} MiB more memory, got {} MiB",
        BOUND >> 20,
        grown >> 20
    );
    Ok(format!("{} MiB more memory at most", grown >> 20))
}

/// Requests 4 GiB of replies without reading any of them. The server may close the connection or
/// stop reading from it, but its memory must remain bounded and other clients must be served.
///
/// # Errors
/// Returns an error that states the expected and the actual outcome.
pub fn client_that_never_reads(target: &Target) -> Result<Note> {
    let mut owner = Client::connect(&target.address)?;
    owner.call([
        b"SET".to_vec(),
        b"torture:large".to_vec(),
        vec![b'x'; 1 << 20],
    ])?;
    let before = memory(target);
    let mut most = before;
    let mut socket = Socket::connect(&target.address)?;
    // Use a timeout that is longer than a server needs to accept a few bytes, but shorter than
    // [`PATIENCE`].
    socket.set_timeouts(Duration::from_secs(3))?;
    let mut request = Vec::new();
    resp::write_command(&mut request, &Command::of(["GET", "torture:large"]).0)?;
    let mut end = "it took every command";
    for round in 0..4096 {
        match socket.write_all(&request) {
            Ok(()) => {}
            Err(error) if is_closed(&error) => {
                end = "it closed the connection";
                break;
            }
            Err(error) if stalled(&error) => {
                end = "it stopped taking commands";
                break;
            }
            Err(error) => return Err(error.into()),
        }
        if round % 16 == 0 {
            others_are_served(&target.address)?;
            most = most.max(memory(target));
        }
    }
    most = most.max(memory(target));
    others_are_served(&target.address)?;
    let note = within_bound(before, most, "a client that never reads")?;
    drop(socket);
    owner.call(["DEL", "torture:large"])?;
    Ok(format!("{end}; {note}"))
}

fn stalled(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Opens connections that announce the longest bulk string and the longest command, but send little
/// of them. The server must not allocate and touch memory of the announced length.
///
/// # Errors
/// Returns an error that states the expected and the actual outcome.
pub fn announced_lengths(target: &Target) -> Result<Note> {
    let before = memory(target);
    let mut open = Vec::new();
    for _ in 0..20 {
        for announced in [
            &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nabc"[..],
            b"*1048576\r\n$4\r\nMGET\r\n$1\r\na\r\n",
        ] {
            let mut client = Client::connect(&target.address)?;
            client.send_raw(announced)?;
            open.push(client);
        }
        others_are_served(&target.address)?;
    }
    within_bound(before, memory(target), "announced lengths")
}
