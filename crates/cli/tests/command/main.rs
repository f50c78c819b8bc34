//! The undercroft command as people and scripts meet it: output, errors, exit status.

mod blocking;
mod copies;
mod disk;
mod interrupted;
mod output;
mod scripts;
mod serve;
mod stopped;
mod stores;
mod support;
