//! Takes the sockets that systemd has opened for the server, and reports the server's state to systemd.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use undercroft_commands::config::{Config, Value};
use undercroft_server::{Handle, Inherited, log};

use crate::failure::Failure;

/// The service manager of a server, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    is_notified: bool,
}

impl Service {
    /// Returns the service manager that `supervised` and the environment name.
    pub(crate) fn of(config: &Config) -> Service {
        let is_there = std::env::var_os("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty());
        let supervised = config.value("supervised");
        if supervised == Value::Choice("systemd") && !is_there {
            log(format_args!(
                "supervised systemd: NOTIFY_SOCKET is not set, so systemd cannot be notified; use \
                 Type=notify in the unit"
            ));
        }
        Service {
            is_notified: is_there && supervised != Value::Choice("no"),
        }
    }

    /// Reports that the server serves.
    pub(crate) fn ready(self, status: &str) {
        // A line break would begin another message.
        let status = status.replace('\n', " ");
        self.notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
    }

    /// Reports that the server reads its files again. [`ready`](Self::ready) must follow.
    pub(crate) fn reloading(self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.notify(&[NotifyState::Reloading, now]),
            Err(error) => log(format_args!("notifying systemd: {error}")),
        }
    }

    /// Reports that the server stops.
    pub(crate) fn stopping(self) {
        self.notify(&[NotifyState::Stopping, NotifyState::Status("Stopping")]);
    }

    /// Reports twice in each interval of systemd's watchdog that the server works, until the returned
    /// value is dropped. A server whose threads are all occupied for a whole interval does not work.
    pub(crate) fn watch(self, server: Handle) -> Option<Sender<()>> {
        let interval = sd_notify::watchdog_enabled().filter(|_| self.is_notified)?;
        let (running, ended) = channel();
        // Detached: it ends with the channel.
        thread::spawn(move || self.keep_alive(&server, interval, &ended));
        Some(running)
    }

    fn keep_alive(self, server: &Handle, interval: Duration, ended: &Receiver<()>) {
        loop {
            if server.responds(interval) {
                self.notify(&[NotifyState::Watchdog]);
            }
            match ended.recv_timeout(interval / 2) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn notify(self, state: &[NotifyState<'_>]) {
        if self.is_notified
            && let Err(error) = sd_notify::notify(state)
        {
            log(format_args!("notifying systemd: {error}"));
        }
    }
}

/// Returns the listening sockets that systemd passes (`LISTEN_FDS`). The connections of a TCP socket
/// whose name (`FileDescriptorName=`) is `tls` or ends with `-tls` are encrypted.
///
/// # Errors
/// Returns an error if a descriptor is not a stream socket.
pub(crate) fn sockets() -> Result<Vec<Inherited>, Failure> {
    let mut passed = ListenFd::from_env();
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<&str> = names.split(':').collect();
    let mut sockets = Vec::with_capacity(passed.len());
    for index in 0..passed.len() {
        let name = names.get(index).copied().unwrap_or_default();
        let socket: Option<OwnedFd> = match passed.take_unix_listener(index) {
            Ok(socket) => socket.map(OwnedFd::from),
            Err(_) => passed
                .take_tcp_listener(index)
                .map_err(|_| {
                    Failure::usage(format_args!(
                        "socket {index} ('{name}') of the service manager: expected a stream socket of \
                         TCP or Unix; use ListenStream= in the unit"
                    ))
                })?
                .map(OwnedFd::from),
        };
        sockets.extend(socket.map(|socket| Inherited {
            socket,
            is_encrypted: name == "tls" || name.ends_with("-tls"),
        }));
    }
    Ok(sockets)
}
