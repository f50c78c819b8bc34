//! Tests real expiry: keys that expire while a client watches them.

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::client::{Address, Client, PATIENCE};
use crate::resp::Reply;

/// All ways to give a key a short time to live.
const WAYS: [&[&str]; 6] = [
    &["SET", "short", "v", "PX", "150"],
    &["PSETEX", "short", "150", "v"],
    &["PEXPIRE", "short", "150"],
    &["GETEX", "short", "PX", "150"],
    &["SET", "short", "v", "EX", "1"],
    &["EXPIRE", "short", "1"],
];

/// Expires a key once for each way of setting its time to live. The key must exist for as long as
/// PTTL says so, then be missing for every command, and never reappear. Each way waits for up to
/// one second, measured by the server's own clock (PTTL).
///
/// # Errors
/// Returns an error that states the expected and the actual reply, or that the connection broke.
pub fn keys_expire(address: &Address) -> Result<()> {
    let mut client = Client::connect(address)?;
    for way in WAYS {
        client.call(["FLUSHALL"])?;
        client.call(["SET", "short", "v"])?;
        client.call(["SET", "long", "v", "EX", "100000"])?;
        client.call(way)?;
        let begun = Instant::now();
        loop {
            let Reply::Integer(left) = client.call(["PTTL", "short"])? else {
                anyhow::bail!("{way:?}: expected an integer from PTTL");
            };
            ensure!(
                left <= 1000,
                "{way:?}: expected at most 1000 ms to live, got {left}"
            );
            ensure!(left != -1, "{way:?}: the key has no expiry");
            if left < 0 {
                break;
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "{way:?}: the key is still there after a minute"
            );
        }
        let gone: [(&[&str], Reply); 12] = [
            (&["GET", "short"], Reply::NullBulk),
            (&["EXISTS", "short", "long"], Reply::Integer(1)),
            (&["TTL", "short"], Reply::Integer(-2)),
            (&["TYPE", "short"], Reply::Simple(b"none".to_vec())),
            (
                &["KEYS", "*"],
                Reply::Array(vec![Reply::Bulk(b"long".to_vec())]),
            ),
            (&["DBSIZE"], Reply::Integer(1)),
            (&["RANDOMKEY"], Reply::Bulk(b"long".to_vec())),
            (&["PERSIST", "short"], Reply::Integer(0)),
            (&["EXPIRE", "short", "100"], Reply::Integer(0)),
            (&["APPEND", "short", "w"], Reply::Integer(1)),
            (&["TTL", "short"], Reply::Integer(-1)),
            (&["DEL", "short"], Reply::Integer(1)),
        ];
        for (command, expected) in gone {
            let reply = client.call(command)?;
            ensure!(
                reply == expected,
                "{way:?}, then {command:?}: expected {expected}, got {reply}"
            );
        }
    }
    Ok(())
}
