//! Methods of a class in C's calling convention, which the module installs in the classes of
//! clients and pipelines.
//!
//! - `fastcall`: methods as fast as the interpreter's own, with one C function for each method.
//! - `row`: one row of the method table, which specifies how arguments become words.
//! - `table`: the table of methods that pass their arguments to a command.
//! - `typed`: methods that try a typed engine call before redis-py's method.

pub(crate) mod fastcall;
pub(crate) mod row;
pub(crate) mod table;
pub(crate) mod typed;
