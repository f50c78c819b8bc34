//! Tests the journal: a store that is recovered from it equals the store that survived (J3), after
//! deaths, power cuts and errors of the disk.

mod backup;
mod damage;
mod deaths;
mod deferral;
mod equality;
mod errors;
mod history;
mod hostile;
mod lag;
mod moments;
mod opening;
mod point_in_time;
mod power;
mod recording_disk;
mod store;
mod watched;
