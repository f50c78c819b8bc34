//! Compares a server with a real Redis 7.0, which is the judge.
//!
//! Three ways, each over a socket and each able to run against any address:
//!
//! * [`cases`]: small written cases, one file per family, language-neutral;
//! * [`differential`]: the same random commands to both, replies and data equal;
//! * [`torture`]: bad protocol input, many connections, clients that do not read.
//!
//! The wire format is read and written by [`resp`], which shares no code with
//! the product. [`canary`] is a server that is wrong on purpose: it proves that
//! the judge can find fault.

pub mod audit;
pub mod canary;
pub mod cases;
pub mod client;
pub mod command;
pub mod compare;
pub mod differential;
pub mod expiry;
pub mod generate;
pub mod notation;
pub mod resp;
pub mod servers;
pub mod shrink;
pub mod torture;
