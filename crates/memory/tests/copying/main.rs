//! An image of the store at one moment, made while others change everything (C1 to C5).
//!
//! - `death`: whoever dies at any step of a copy, or of a change while one is made.
//! - `model`: random changes between any two pages of a copy, against what was there at its moment.
//! - `shortage`: a stock that runs out, a store without room, and two copiers.
//! - `objects`: blocks of all sizes in a store, and what is done to them.

mod death;
mod model;
mod objects;
mod shortage;
