//! The changes during which a process is killed, shared by the tests of death at every undo log
//! step and of death at every machine instruction. Used by tests and by `state`.
//!
//! - `changes`: changes that scenarios of several families share.
//! - `definition`: the type of a scenario.
//! - `families`: all scenarios, grouped by the data that they change.
//! - `names`: key names for each shard and bucket.
//! - `stores`: initial stores that scenarios of several families share.

mod changes;
mod definition;
mod families;
mod names;
mod stores;

pub use definition::{Scenario, Steps};
pub use families::all;
pub use names::{choose_names, key};
