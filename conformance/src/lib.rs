//! Compares a server with a real Redis 7.0, which is the judge.
//!
//! The comparison has three parts, which use a socket and accept any address:
//!
//! * [`cases`]: small written cases, one file for each family, independent of any language;
//! * [`differential`]: the same random commands for both servers, whose replies and data must be
//!   equal;
//! * [`torture`]: malformed protocol input, many connections, clients that do not read.
//!
//! [`resp`] reads and writes the wire format and shares no code with the product. [`canary`] is a
//! deliberately faulty server that proves that the judge detects faults.
//!
//! - `audit`: compares the complete data of two servers.
//! - `bin/conform`: compares a server with the judge in long runs.
//! - `bridge`: starts a program that runs commands with a client library.
//! - `canary`: a deliberately faulty server, to prove that the judge detects faults.
//! - `cases`: reads and runs written cases, which are commands and their expected replies.
//! - `client`: a blocking client on a raw socket that returns every reply unchanged.
//! - `command`: a command as a list of byte strings, and its notation as a redis-cli line.
//! - `compare`: decides whether two replies to one command count as equal.
//! - `differential`: the differential tester, which sends one stream of commands to two servers.
//! - `expiry`: tests real expiry, with keys that expire while a client watches them.
//! - `generate`: generates random commands.
//! - `limits`: the cases that a client library cannot run, with the reasons.
//! - `notation`: the notation of expected replies in case files, a human-readable form of RESP.
//! - `replication`: sources, replicas and Sentinels in tests.
//! - `resp`: reads RESP2 and RESP3 replies from any buffered source.
//! - `seed`: the seed of a random test.
//! - `servers`: starts and stops servers: a real Redis, and `undercroft serve`.
//! - `shrink`: finds a short list of commands that still shows a difference.
//! - `torture`: malformed protocol input, many connections, and clients that do not read.

pub mod audit;
pub mod bridge;
pub mod canary;
pub mod cases;
pub mod client;
pub mod command;
pub mod compare;
pub mod differential;
pub mod expiry;
pub mod generate;
pub mod limits;
pub mod notation;
pub mod replication;
pub mod resp;
pub mod seed;
pub mod servers;
pub mod shrink;
pub mod torture;
