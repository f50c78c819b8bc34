//! The methods of a class in C's calling convention; the module and the classes of clients and pipelines install them.
//!
//! - `fastcall`: methods at the speed of the interpreter's own: one C function for each, called with
//!   an array of arguments.
//! - `row`: one row of the table of methods: which words its parameters become, and its signature.
//! - `table`: methods that hand their arguments on, in one table.
//! - `typed`: methods that are a typed call of the engine, and else redis-py's.

pub(crate) mod fastcall;
pub(crate) mod row;
pub(crate) mod table;
pub(crate) mod typed;
