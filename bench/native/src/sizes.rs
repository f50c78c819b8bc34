//! Measures memory per key, and the time to open a store.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use undercroft_engine::Store;

use crate::fresh_store;

#[derive(Args)]
pub(crate) struct Memory {
    /// The number of 16-byte keys with 64-byte values.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
}

#[derive(Args)]
pub(crate) struct Open {
    /// Opens this store once and prints the time. Without a path, creates stores of several sizes
    /// and opens them from new processes.
    #[arg(long)]
    store: Option<PathBuf>,
    /// The number of rounds for each size.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
}

impl Memory {
    pub(crate) fn run(&self) {
        let (_directory, store) = fresh_store(4 << 30);
        let empty = std::fs::metadata(store.path()).expect("a file").blocks() * 512;
        for index in 0..self.keys {
            let key = format!("key:{index:012}");
            store.set(0, key.as_bytes(), &[b'v'; 64]).expect("room");
        }
        let file = std::fs::metadata(store.path()).expect("a file").blocks() * 512;
        println!(
            "{{\"keys\": {}, \"used\": {}, \"granted\": {}, \"file\": {file}, \"empty\": {empty}}}",
            self.keys,
            store.used_memory(),
            store.statistics().reserved - store.statistics().free,
        );
    }
}

impl Open {
    pub(crate) fn run(&self) {
        if let Some(path) = &self.store {
            let start = Instant::now();
            let store = Store::open(path, true).expect("a store");
            let mut out = Vec::new();
            assert!(store.get(0, b"probe", &mut out).expect("readable"));
            store.set(0, b"probe", b"seen").expect("room");
            println!("{}", start.elapsed().as_secs_f64() * 1000.0);
            return;
        }
        let program = std::env::current_exe().expect("this program's path");
        let mut rows = Vec::new();
        for megabytes in [1_usize, 64, 1024] {
            let (_directory, store) = fresh_store(4 << 30);
            store.set(0, b"probe", b"here").expect("room");
            let value = vec![b'v'; 16 * 1024];
            for index in 0..megabytes * 64 {
                let key = format!("key:{index}");
                store.set(0, key.as_bytes(), &value).expect("room");
            }
            let mut times = Vec::new();
            for _ in 0..self.rounds {
                let output = std::process::Command::new(&program)
                    .args(["open", "--store"])
                    .arg(store.path())
                    .output()
                    .expect("a child process");
                let text = String::from_utf8(output.stdout).expect("a number");
                times.push(text.trim().parse::<f64>().expect("milliseconds"));
            }
            rows.push(format!("{{\"megabytes\": {megabytes}, \"ms\": {times:?}}}"));
        }
        println!("[{}]", rows.join(", "));
    }
}
