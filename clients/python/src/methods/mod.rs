//! Methods that use C's calling convention. The module installs them in the client and pipeline
//! classes.
//!
//! - `fastcall`: methods as fast as the interpreter's own, with one C function for each method.
//! - `row`: one row of the method table, which specifies how arguments become words.
//! - `table`: the table of methods that pass their arguments to a command.
//! - `typed`: methods that try a typed engine call before redis-py's method.

pub(crate) mod fastcall;
pub(crate) mod row;
pub(crate) mod table;
pub(crate) mod typed;
