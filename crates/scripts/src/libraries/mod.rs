//! Every function that a script can reach. The sandbox and what is above it may call them.
//!
//! No library of Lua's own is opened: its functions are C, take integers and sizes from a script unchecked, and cannot be
//! interrupted. All functions here are this crate's. A function that is not in [`catalog::LIBRARIES`] is in no library, and a
//! test walks everything that a script can reach and fails for one that is not in the table. `docs/scripts.md` shows the
//! table.
//!
//! - `base`: the global functions.
//! - `bit`: the library `bit`.
//! - `c_struct`: the library `struct`.
//! - `catalog`: the table of all libraries.
//! - `cjson`: the library `cjson`.
//! - `cmsgpack`: the library `cmsgpack`.
//! - `coroutine`: the library `coroutine`.
//! - `function`: a function, and the bounds of a call of it.
//! - `guards`: functions that keep scripts from changing the libraries.
//! - `math`: the library `math`.
//! - `parser`: the parser, which is asked whether it may go on.
//! - `proxies`: the empty tables that scripts are given in the place of the libraries.
//! - `redis`: the library `redis`.
//! - `string`: the library `string`.
//! - `table`: the library `table`.
//! - `workspace`: what the functions keep in an interpreter.

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
