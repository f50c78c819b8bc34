//! Tests the hardening of `undercroft serve`.
//!
//! - `audit`: the audit log.
//! - `support`: starts servers with a configuration file.

mod audit;
mod support;
