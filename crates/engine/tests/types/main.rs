//! Tests of the values of every type.

mod bits;
mod contract;
mod hashes;
mod in_place;
mod lists;
mod objects;
mod sets;
mod sorted;
mod stream_nodes;
mod stream_parts;
mod taking;
