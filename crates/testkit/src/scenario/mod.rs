//! Defines the changes during which crash tests kill a process: some tests at every step of the
//! undo log, others at every machine instruction. Used by tests and by `state`.
//!
//! - `changes`: functions for changes that scenarios of several families share.
//! - `definition`: the type of a scenario.
//! - `families`: all scenarios, grouped by the data that they change.
//! - `names`: chooses key names for each shard and bucket.
//! - `stores`: prepares stores for scenarios of several families.

mod changes;
mod definition;
mod families;
mod names;
mod stores;

pub use definition::{Scenario, Steps};
pub use families::all;
pub use names::{choose_names, key};
