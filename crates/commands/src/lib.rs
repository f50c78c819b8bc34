//! The Redis commands: arguments in, engine calls, reply out.
