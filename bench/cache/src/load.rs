//! Callers that send the next request as soon as the previous reply arrives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::Failure;
use crate::clients::Client;

/// The percentiles that a round reports.
pub const PERCENTILES: [f64; 8] = [50.0, 75.0, 87.5, 93.75, 96.88, 98.44, 99.22, 99.9];

/// The result of one round.
#[derive(Serialize)]
pub struct Round {
    /// The number of replies per second.
    pub rate: f64,
    /// The latency at each percentile, in microseconds.
    pub microseconds: [f64; 8],
    /// The number of requests that failed, for example because of a timeout.
    pub failed: u64,
}

/// Runs this number of callers, each as a task, and returns their rate and latencies.
pub async fn round<C: Client>(
    client: &Arc<C>,
    callers: usize,
    length: usize,
    time: Duration,
) -> Result<Round, Failure> {
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for _ in 0..callers {
        let client = client.clone();
        tasks.spawn(async move {
            let (mut times, mut failed) = (Vec::with_capacity(1024), 0_u64);
            let mut before = Instant::now();
            while before.duration_since(start) < time {
                match client.get().await {
                    Ok(got) => assert_eq!(got, length, "the value's length"),
                    Err(_) => failed += 1,
                }
                let after = Instant::now();
                times.push(after.duration_since(before).as_nanos() as u64);
                before = after;
            }
            (times, failed)
        });
    }
    let mut histogram = Histogram::<u64>::new(3)?;
    let mut failures = 0;
    let mut all = Vec::with_capacity(callers);
    while let Some(ended) = tasks.join_next().await {
        all.push(ended?);
    }
    let seconds = start.elapsed().as_secs_f64();
    for (times, failed) in all {
        failures += failed;
        for time in times {
            histogram.record(time)?;
        }
    }
    let at = |percentile| histogram.value_at_percentile(percentile) as f64 / 1e3;
    Ok(Round {
        rate: (histogram.len() - failures) as f64 / seconds,
        microseconds: PERCENTILES.map(at),
        failed: failures,
    })
}
