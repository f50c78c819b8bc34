//! Tests the undercroft command from the user's point of view: output, errors and exit status.

mod blocking;
mod copies;
mod disk;
mod durability;
mod file_systems;
mod fixture;
mod group_commit;
mod interrupted;
mod journals;
mod output;
mod scripts;
mod serve;
mod serve_durably;
mod stopped;
mod stores;
mod support;
mod volume;
