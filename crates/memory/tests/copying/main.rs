//! Tests images of the store at one moment, which are made while other threads change everything
//! (C1 to C5).
//!
//! - `death`: deaths at every step of a copy, or of a change during a copy.
//! - `model`: random changes between any two pages of a copy, compared with the content at the
//!   copy's moment.
//! - `shortage`: a stock that runs out, a store without free memory, and two copiers.
//! - `objects`: blocks of all sizes in a store, and operations on them.

mod death;
mod model;
mod objects;
mod shortage;
