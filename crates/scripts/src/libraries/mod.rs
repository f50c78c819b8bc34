//! Every function that a script can reach. The sandbox and the modules above it may use this
//! module.
//!
//! None of Lua's own libraries is opened: their C functions do not check integers and sizes from
//! scripts, and cannot be interrupted. This crate implements all functions. [`catalog::LIBRARIES`]
//! is the only source of functions: a test walks everything that a script can reach, and fails if a
//! function is not in that table. `docs/scripts.md` shows the table.
//!
//! - `base`: the global functions.
//! - `bit`: the library `bit`.
//! - `c_struct`: the library `struct`.
//! - `catalog`: the table of all libraries.
//! - `cjson`: the library `cjson`.
//! - `cmsgpack`: the library `cmsgpack`.
//! - `coroutine`: the library `coroutine`.
//! - `function`: a function, with the bounds of a call.
//! - `guards`: functions that keep scripts from changing the libraries.
//! - `math`: the library `math`.
//! - `parser`: compiles programs in small pieces, so that the host can interrupt the parser.
//! - `proxies`: the empty tables that scripts see instead of the libraries.
//! - `redis`: the library `redis`.
//! - `string`: the library `string`.
//! - `table`: the library `table`.
//! - `workspace`: the state that the functions keep in an interpreter.

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
