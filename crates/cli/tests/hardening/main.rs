//! Tests the hardening of `undercroft serve`.
//!
//! - `audit`: the audit log.
//! - `protected`: protected parameters and commands.
//! - `support`: starts servers with a configuration file.

mod audit;
mod protected;
mod support;
