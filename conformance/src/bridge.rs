//! Starts a bridge, a program that runs the commands of its connections with a client library.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::client::{Address, Client};

/// The time limit for a bridge to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running bridge, which ends when it is dropped.
#[derive(Debug)]
pub struct Bridge {
    child: Child,
    address: Address,
    // The directory of the store and the socket, which is removed last.
    _directory: TempDir,
}

impl Bridge {
    /// Starts a bridge on a new store and waits until it accepts connections.
    ///
    /// # Errors
    /// Returns an error if the bridge cannot be started, or ends.
    pub fn start(command: &[String]) -> Result<Bridge> {
        let (program, arguments) = command.split_first().context("expected a bridge")?;
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let (store, socket) = (
            directory.path().join("store"),
            directory.path().join("socket"),
        );
        let child = Command::new(program)
            .args(arguments)
            .args([&store, &socket])
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        let mut bridge = Bridge {
            child,
            address: Address::Unix(socket),
            _directory: directory,
        };
        let deadline = Instant::now() + STARTS_WITHIN;
        while Client::connect(&bridge.address).is_err() {
            if let Some(status) = bridge.child.try_wait()? {
                bail!("the bridge {program} ended: {status}");
            }
            if Instant::now() >= deadline {
                bail!("expected {program} to listen within {STARTS_WITHIN:?}");
            }
            std::thread::yield_now();
        }
        Ok(bridge)
    }

    /// Returns the address on which the bridge listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
