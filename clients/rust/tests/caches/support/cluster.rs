//! Runs a temporary Redis Cluster for a test.

use std::time::Duration;

use undercroft::{CacheOptions, Pool, Reply};

use super::redis::Redis;

pub(crate) const SLOTS: usize = 16384;

/// A cluster of three nodes without replicas, each of which serves a third of the slots.
pub(crate) struct Cluster(pub(crate) Vec<Redis>);

impl Cluster {
    /// Starts the nodes, and waits until each node knows all other nodes. Returns `None` if
    /// `redis-server` is not installed.
    pub(crate) fn start() -> Option<Cluster> {
        let mut nodes = Vec::new();
        for _ in 0..3 {
            // Choose the port of the cluster bus, because the default, 10,000 above the node's
            // port, may exceed 65,535.
            let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let bus = probe.local_addr().expect("an address").port().to_string();
            drop(probe);
            nodes.push(Redis::start(&[
                "--cluster-enabled",
                "yes",
                "--cluster-require-full-coverage",
                "no",
                "--cluster-node-timeout",
                "1000",
                "--cluster-port",
                &bus,
            ])?);
        }
        let cluster = Cluster(nodes);
        let pools: Vec<Pool> = cluster.0.iter().map(pool).collect();
        for (at, pool) in pools.iter().enumerate() {
            let (first, end) = (SLOTS * at / 3, SLOTS * (at + 1) / 3);
            run(
                pool,
                &[
                    "CLUSTER",
                    "ADDSLOTSRANGE",
                    &first.to_string(),
                    &(end - 1).to_string(),
                ],
            );
            let (port, bus) = cluster.0[at].cluster_ports();
            run(&pools[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        for pool in &pools {
            // Nodes learn of each other by gossip, so each node eventually knows the complete
            // cluster.
            while !is_whole(pool) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Some(cluster)
    }

    /// Returns the URL of the cluster, which lists all nodes.
    pub(crate) fn url(&self) -> String {
        let nodes = self.0.iter().map(|node| node.tcp().replace("redis://", ""));
        format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
    }
}

/// Returns a pool of connections to one node.
pub(crate) fn pool(node: &Redis) -> Pool {
    Pool::open(&node.tcp(), CacheOptions::new()).expect("a pool")
}

/// Runs a command on one node.
pub(crate) fn run(pool: &Pool, words: &[&str]) -> Reply {
    pool.command(words).expect("a reply")
}

fn is_whole(pool: &Pool) -> bool {
    let about: String = run(pool, &["CLUSTER", "INFO"]).to().expect("a text");
    about.contains("cluster_slots_ok:16384") && about.contains("cluster_known_nodes:3")
}
