//! The Redis commands: arguments in, engine calls, reply out.

pub mod arguments;
pub mod dump;
pub mod glob;
pub mod lcs;
mod lzf;
pub mod number;
pub mod print;
pub mod reply;
