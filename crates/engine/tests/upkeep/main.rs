//! Tests of expiry, eviction, and freeing in bounded steps.

mod arenas;
mod eviction;
mod full_store;
mod reclaim;
mod space;
mod steps;
mod sweep;
