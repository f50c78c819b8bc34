//! Tests `undercroft serve` with TLS: redis-cli and OpenSSL as clients, certificates that clients present,
//! certificates that are replaced, and peers that do not encrypt, stop midway or lie.
//!
//! - `certificates`: certificates, and the files and settings that are refused.
//! - `handshakes`: handshakes that are damaged, unfinished or many.
//! - `records`: values of every size, and damaged connections.
//! - `settings`: protocols, cipher suites, and settings that change at runtime.
//! - `support`: a private authority, and a server with a port for TLS.

mod certificates;
mod handshakes;
mod records;
mod settings;
mod support;
