//! Tests the journal: a store that is recovered from it equals the store that survived (J3).

mod deaths;
mod equality;
mod store;
