//! Measures the caches of the `undercroft` crate and other Redis clients. Each subcommand prints
//! one JSON object with the rounds of each client; `bench/run.py` creates the table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use undercroft_bench_cache::load::Round;
use undercroft_bench_cache::messages::{self, Course};
use undercroft_bench_cache::{Failure, Server, clients, load, with_client};

/// Measures caches.
///
/// Example: undercroft-bench-cache get --unix /run/redis.sock --store /dev/shm/store --value value
/// --callers 64
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measures callers that request one value.
    Get(Get),
    /// Measures messages to one subscriber.
    Messages(Messages),
}

#[derive(clap::Args)]
struct Get {
    #[command(flatten)]
    server: Server,
    /// The path of the store, which is created if missing.
    #[arg(long)]
    store: PathBuf,
    /// The path of the file that contains the value.
    #[arg(long)]
    value: PathBuf,
    /// The number of concurrent callers.
    #[arg(long)]
    callers: usize,
    /// The number of counted rounds per client; a warm-up round precedes them.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The length of a round, in milliseconds.
    #[arg(long, default_value_t = 300)]
    milliseconds: u64,
    /// The clients to measure (default: all).
    #[arg(long)]
    client: Vec<String>,
}

#[derive(clap::Args)]
struct Messages {
    #[command(flatten)]
    server: Server,
    /// The number of messages in a round.
    #[arg(long, default_value_t = 100_000)]
    messages: u64,
    /// The number of messages per write.
    #[arg(long, default_value_t = 100)]
    together: u64,
    /// The pause between writes, in microseconds.
    #[arg(long, default_value_t = 0)]
    pause: u64,
    /// The number of counted rounds per client; a warm-up round precedes them.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let found = match Arguments::parse().what {
        What::Get(work) => serde_json::to_string(&work.run().await?)?,
        What::Messages(work) => serde_json::to_string(&work.run().await?)?,
    };
    println!("{found}");
    Ok(())
}

impl Get {
    async fn run(&self) -> Result<BTreeMap<&str, Vec<Round>>, Failure> {
        let value = std::fs::read(&self.value)?;
        clients::fill(&self.server, &self.store, &value).await?;
        let mut names: Vec<&str> = match &self.client[..] {
            [] => clients::NAMES.to_vec(),
            named => named.iter().map(String::as_str).collect(),
        };
        if self.server.port.is_none() {
            // redis-async does not support unix sockets.
            names.retain(|name| !name.starts_with("redis-async"));
        }
        let mut found: BTreeMap<&str, Vec<Round>> = BTreeMap::new();
        for turn in 0..self.rounds {
            // Change the order of the clients from round to round.
            names.rotate_left(1);
            if turn % 2 == 1 {
                names.reverse();
            }
            for &name in &names {
                let round = with_client!(name, &self.server, &self.store, client => {
                    // Warm up first: this opens the connections and allocates long-lived memory.
                    let warm = Duration::from_millis(self.milliseconds / 10 + 1);
                    load::round(&client, self.callers, value.len(), warm).await?;
                    let time = Duration::from_millis(self.milliseconds);
                    load::round(&client, self.callers, value.len(), time).await
                })?;
                found.entry(name).or_default().push(round);
            }
        }
        Ok(found)
    }
}

impl Messages {
    async fn run(&self) -> Result<BTreeMap<&str, Vec<messages::Round>>, Failure> {
        let course = Course {
            messages: self.messages,
            together: self.together,
            pause: Duration::from_micros(self.pause),
        };
        let mut names = messages::NAMES.to_vec();
        let mut found: BTreeMap<&str, Vec<messages::Round>> = BTreeMap::new();
        for turn in 0..=self.rounds {
            names.rotate_left(1);
            for &name in &names {
                let round = messages::round(name, &self.server, course).await?;
                if turn > 0 {
                    found.entry(name).or_default().push(round);
                }
            }
        }
        Ok(found)
    }
}
