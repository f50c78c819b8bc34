//! Implements every function that a script can reach. Only the sandbox and the modules above it use
//! this module.
//!
//! Lua's own libraries are not loaded, because their C functions do not check the integers and
//! sizes that scripts pass, and cannot be interrupted. This crate implements every function itself.
//! [`catalog::LIBRARIES`] lists all functions. A test visits everything that a script can reach,
//! and fails if it finds a function that is not in the table. `docs/scripts.md` shows the table.
//!
//! - `base`: implements the global functions.
//! - `bit`: implements the `bit` library.
//! - `c_struct`: implements the `struct` library.
//! - `catalog`: lists all libraries and their functions.
//! - `cjson`: implements the `cjson` library.
//! - `cmsgpack`: implements the `cmsgpack` library.
//! - `coroutine`: implements the `coroutine` library.
//! - `function`: describes a function, with the limits on a call's time and memory.
//! - `guards`: prevents scripts from changing the libraries.
//! - `math`: implements the `math` library.
//! - `parser`: compiles programs in small pieces, so that the host can interrupt the parser.
//! - `proxies`: maintains the empty tables that scripts see in place of the libraries.
//! - `redis`: implements the `redis` library.
//! - `string`: implements the `string` library.
//! - `table`: implements the `table` library.
//! - `workspace`: stores the state of an interpreter's libraries.

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
