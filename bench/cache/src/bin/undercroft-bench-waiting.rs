//! Prints, as a JSON object, the memory in bytes that each client uses while callers wait on one
//! connection: the growth of the heap from before the connection was opened until all callers are
//! waiting, and the size of one caller's task.
//!
//! This is a separate program, because counting allocations would slow down the other measurements.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use peak_alloc::PeakAlloc;
use tokio::task::JoinSet;
use undercroft_bench_cache::clients::{self, Client};
use undercroft_bench_cache::{Failure, Server, with_client};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    server: Server,
    /// The path of the store, which is created if missing.
    #[arg(long)]
    store: PathBuf,
    /// The path of the file that contains the value.
    #[arg(long)]
    value: PathBuf,
    /// The number of waiting callers.
    #[arg(long, default_value_t = 1000)]
    callers: usize,
    /// The clients to measure.
    #[arg(long, required = true)]
    client: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let value = std::fs::read(&arguments.value)?;
    clients::fill(&arguments.server, &arguments.store, &value).await?;
    let control = redis::Client::open(arguments.server.url())?;
    let mut control = control.get_multiplexed_async_connection().await?;
    let mut found = BTreeMap::new();
    for name in &arguments.client {
        let before = HEAP.current_usage();
        let held = with_client!(name.as_str(), &arguments.server, &arguments.store, client => {
            held(&client, arguments.callers, before, &mut control).await
        })?;
        found.insert(name, held);
    }
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

/// Returns by how many bytes the client's heap use exceeds `before` while the server withholds its
/// replies.
async fn held<C: Client>(
    client: &Arc<C>,
    callers: usize,
    before: usize,
    control: &mut redis::aio::MultiplexedConnection,
) -> Result<usize, Failure> {
    client.get().await?;
    let words = ["PAUSE", "300", "ALL"];
    redis::cmd("CLIENT")
        .arg(&words)
        .query_async::<()>(control)
        .await?;
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let client = client.clone();
        tasks.spawn(async move { client.get().await });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let held = HEAP.current_usage() - before;
    while let Some(ended) = tasks.join_next().await {
        // Ignore failed calls: on a slow machine, some calls time out, but only after the bytes
        // have been counted.
        drop(ended?);
    }
    Ok(held)
}
