//! Tests the hardening of `undercroft serve`.
//!
//! - `audit`: the audit log.
//! - `doctor`: the subcommand `doctor`.
//! - `judged`: compares replies with those of a real Redis.
//! - `protected`: protected parameters and commands.
//! - `proxied`: clients that a proxy announces.
//! - `renamed`: commands with other names.
//! - `sandbox`: the files that a server can open.
//! - `service`: systemd's sockets and notifications.
//! - `socket`: who can connect to the Unix socket.
//! - `support`: starts servers with a configuration file.

mod audit;
mod doctor;
mod judged;
mod protected;
mod proxied;
mod renamed;
mod sandbox;
mod service;
mod socket;
mod support;
