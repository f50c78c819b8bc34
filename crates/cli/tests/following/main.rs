//! Tests `undercroft follow` with real servers: what it reports, how it ends, and that the store has
//! the data of its source after failovers, kills and a lack of memory.

mod cluster;
mod cluster_nodes;
mod deaths;
mod failover;
mod filter;
mod forward;
mod lag;
mod promotion;
mod resync;
mod served;
mod sources;
mod storm;
mod support;
mod tls;
