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
//!
//! - `audit`: compares the whole data set of two servers.
//! - `bin/conform`: the long runs of the judge.
//! - `canary`: a server that is wrong on purpose, to prove that the judge finds fault.
//! - `cases`: written cases: commands and their expected replies, in text files.
//! - `client`: a blocking client on a raw socket: commands out, replies in, nothing hidden.
//! - `command`: a command as a list of byte strings, and its spelling on a redis-cli line.
//! - `compare`: when two replies to one command count as equal.
//! - `differential`: the differential tester: one stream of commands to two servers.
//! - `expiry`: real expiry: keys that come to their end while somebody looks.
//! - `generate`: random commands: one file per family, one function per command.
//! - `notation`: expected replies of the case files: RESP written for people.
//! - `resp`: RESP2 and RESP3 replies, read from any buffered source.
//! - `servers`: starts and stops servers: a real Redis, and ours.
//! - `shrink`: finds a short list of commands that still shows a difference.
//! - `torture`: bad protocol input, many connections, and clients that do not read.

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
