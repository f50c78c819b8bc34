//! Compares a server with a real Redis 7.0, which is the judge.
//!
//! There are three ways, all over a socket and against any address:
//!
//! * [`cases`]: small written cases, one file per family, independent of any language;
//! * [`differential`]: the same random commands to both servers, with equal replies and data;
//! * [`torture`]: malformed protocol input, many connections, clients that do not read.
//!
//! [`resp`] reads and writes the wire format and shares no code with the product. [`canary`] is a
//! deliberately faulty server that proves that the judge detects faults.
//!
//! - `audit`: compares the whole data set of two servers.
//! - `bin/conform`: long runs that compare a server with the judge.
//! - `canary`: a deliberately faulty server, to prove that the judge detects faults.
//! - `cases`: written cases: commands and their expected replies, in text files.
//! - `client`: a blocking client on a raw socket that returns every reply unchanged.
//! - `command`: a command as a list of byte strings, and its spelling as a redis-cli line.
//! - `compare`: decides whether two replies to one command count as equal.
//! - `differential`: the differential tester: sends one stream of commands to two servers.
//! - `expiry`: real expiry: keys that expire while a client watches them.
//! - `generate`: random commands: one file per family, one function per command.
//! - `notation`: expected replies of the case files: human-readable RESP.
//! - `resp`: RESP2 and RESP3 replies, read from any buffered source.
//! - `servers`: starts and stops servers: a real Redis, and `undercroft serve`.
//! - `shrink`: finds a short list of commands that still shows a difference.
//! - `torture`: malformed protocol input, many connections, and clients that do not read.

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
