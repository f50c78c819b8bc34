//! Tests of images of the store at one moment, made while other threads change everything (C1 to
//! C5).
//!
//! - `death`: deaths at every step of a copy, or of a change while a copy is made.
//! - `model`: random changes between any two pages of a copy, compared with the content at its
//!   moment.
//! - `shortage`: a stock that runs out, a store without room, and two copiers.
//! - `objects`: blocks of all sizes in a store, and operations on them.

mod death;
mod model;
mod objects;
mod shortage;
