//! The changes in whose midst a process is killed: one list for death at every
//! undo-log step and for death at every machine instruction. Tests call it, and `state`.
//!
//! - `changes`: changes that scenarios of several families make.
//! - `definition`: a scenario.
//! - `families`: all scenarios, by what they change.
//! - `names`: names for keys, by where they lie.
//! - `stores`: stores that scenarios of several families begin with.

mod changes;
mod definition;
mod families;
mod names;
mod stores;

pub use definition::{Scenario, Steps};
pub use families::all;
pub use names::{choose_names, key};
