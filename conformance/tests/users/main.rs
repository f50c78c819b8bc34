//! Compares users and their rights (ACL) with a real Redis 7.0.
//!
//! - `bypass`: tries to reach keys and channels by detours.
//! - `cases`: the cases of Redis' own tests that random comparison does not cover.
//! - `files`: users that files and the configuration define.
//! - `logins`: failed logins are delayed and logged.
//! - `random`: generates random rules and commands.
//! - `rights`: compares the rights of random users to run random commands.
//! - `several`: servers of one store agree about its users.
//! - `support`: starts servers, and normalizes descriptions of users.

mod bypass;
mod cases;
mod files;
mod logins;
mod random;
mod rights;
mod several;
mod support;
