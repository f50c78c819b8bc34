//! Runs the documentation's Rust samples, which `build.rs` collects. A test runs each sample twice.
//!
//! All samples share their stores and their server, because a reader tries the samples one after
//! another. The URLs in the samples are replaced by those of temporary stores, an Undercroft
//! server, and a cluster of real Redis servers. If `redis-server` is not installed, the cluster
//! samples are skipped.

#![cfg(test)]

#[path = "../../tests/caches/support/cluster.rs"]
#[allow(dead_code, reason = "the cache tests use the rest")]
mod cluster;
#[path = "../../tests/caches/support/redis.rs"]
#[allow(dead_code, reason = "the cache tests use the rest")]
mod redis;

type Outcome = Result<(), Box<dyn std::error::Error>>;
type Sample = fn() -> Outcome;

/// The stores and servers that replace the ones in the samples.
mod place {
    use std::sync::{Arc, Mutex};

    use tempfile::TempDir;
    use undercroft_engine::{Options, Store};
    use undercroft_served::Served;

    use crate::cluster::Cluster;

    pub(crate) struct Place {
        directory: TempDir,
        served: Served,
        pub(crate) cluster: Option<Cluster>,
    }

    static PLACE: Mutex<Option<Arc<Place>>> = Mutex::new(None);

    pub(crate) fn place() -> Arc<Place> {
        let mut place = PLACE.lock().expect("no test panics with it");
        let place = place.get_or_insert_with(|| {
            Arc::new(Place {
                directory: tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory"),
                served: Served::start(),
                cluster: Cluster::start(),
            })
        });
        place.clone()
    }

    /// Stops the servers when it is dropped. The static that owns the servers is never dropped.
    pub(crate) struct End;

    impl Drop for End {
        fn drop(&mut self) {
            let place = PLACE.lock().map(|mut place| place.take());
            drop(place);
        }
    }

    /// Returns the URL of a store.
    pub(crate) fn store(name: &str) -> String {
        format!("undercroft://{}/{name}", place().directory.path().display())
    }

    /// Returns the URL of the server.
    pub(crate) fn server() -> String {
        place().served.url()
    }

    /// Returns the URL of the cluster.
    pub(crate) fn cluster() -> String {
        let place = place();
        place.cluster.as_ref().expect("a cluster runs").url()
    }

    /// Opens a store with the engine's API and pushes a job to it.
    pub(crate) fn engine() -> Store {
        let path = place().directory.path().join("engine");
        let store = Store::open_or_create(&path, &Options::default()).expect("a store");
        let sample = undercroft::Store::open_path(&path).expect("the same store");
        sample.rpush("jobs", "job").expect("pushed");
        store
    }
}

include!(concat!(env!("OUT_DIR"), "/samples.rs"));

#[test]
fn every_sample_runs_twice() {
    let pages = [
        "README.md:",
        "docs/blocking.md:",
        "docs/caching.md:",
        "docs/messages.md:",
    ];
    for page in pages
        .iter()
        .chain(&["docs/rust.md:", "clients/rust/src/remote/cluster.rs:"])
    {
        let is_there = SAMPLES.iter().any(|(name, _)| name.starts_with(page));
        assert!(is_there, "no sample of {page} was found");
    }
    let _end = place::End;
    let has_cluster = place::place().cluster.is_some();
    for time in ["first", "second"] {
        for (name, sample) in SAMPLES {
            if name.contains("cluster") && !has_cluster {
                continue;
            }
            println!("{name}, {time} run");
            if let Err(error) = sample() {
                panic!("{name}, {time} run: {error}");
            }
        }
    }
}
