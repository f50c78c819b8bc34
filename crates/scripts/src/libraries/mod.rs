//! Implements every function that a script can reach. Only the sandbox and the modules above it use
//! this module.
//!
//! Lua's own libraries are not loaded: their C functions do not check the integers and sizes that
//! scripts pass, and cannot be interrupted. This crate implements every function itself.
//! [`catalog::LIBRARIES`] lists all functions: a test visits everything that a script can reach,
//! and fails if it finds a function that is not in the table. `docs/scripts.md` shows the table.
//!
//! - `base`: the global functions.
//! - `bit`: the library `bit`.
//! - `c_struct`: the library `struct`.
//! - `catalog`: the table of all libraries.
//! - `cjson`: the library `cjson`.
//! - `cmsgpack`: the library `cmsgpack`.
//! - `coroutine`: the library `coroutine`.
//! - `function`: describes a function, with the limits on a call's time and memory.
//! - `guards`: prevents scripts from changing the libraries.
//! - `math`: the library `math`.
//! - `parser`: compiles programs in small pieces, so that the host can interrupt the parser.
//! - `proxies`: the empty tables that scripts see instead of the libraries.
//! - `redis`: the library `redis`.
//! - `string`: the library `string`.
//! - `table`: the library `table`.
//! - `workspace`: the state of the libraries in an interpreter.

mod base;
mod bit;
mod c_struct;
pub(crate) mod catalog;
pub(crate) mod cjson;
mod cmsgpack;
mod coroutine;
pub(crate) mod function;
pub(crate) mod guards;
mod math;
pub(crate) mod parser;
pub(crate) mod proxies;
pub(crate) mod redis;
mod string;
mod table;
pub(crate) mod workspace;
