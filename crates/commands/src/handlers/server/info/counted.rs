//! Writes the INFO sections with statistics for each command and each error code.

use super::fields::{line, title};
use crate::config::percentile_text;
use crate::context::Context;

/// Writes the section with the number and duration of each command's calls.
pub(super) fn commands(context: &Context<'_>, out: &mut String) {
    title("Commandstats", out);
    for (name, totals) in context.host.statistics().commands() {
        let per_call = totals.mean() / 1000.0;
        let microseconds = (per_call * totals.calls as f64) as u64;
        let figures = format!(
            "calls={},usec={microseconds},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
            totals.calls, totals.rejected, totals.failed
        );
        line(&format!("cmdstat_{name}"), figures, out);
    }
}

/// Writes the section with the number of errors for each error code.
pub(super) fn errors(context: &Context<'_>, out: &mut String) {
    title("Errorstats", out);
    for (code, count) in context.host.statistics().errors() {
        line(
            &format!("errorstat_{code}"),
            format_args!("count={count}"),
            out,
        );
    }
}

/// Writes the section with the latency of each command at the configured percentiles.
pub(super) fn latencies(context: &Context<'_>, out: &mut String) {
    title("Latencystats", out);
    let config = context.host.config();
    if !config.boolean("latency-tracking") {
        return;
    }
    let wanted = config.value("latency-tracking-info-percentiles").text();
    let wanted: Vec<f64> = String::from_utf8_lossy(&wanted)
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    for (name, times) in context.host.statistics().latencies(&wanted) {
        let figures: Vec<String> = wanted
            .iter()
            .zip(times)
            .map(|(percentile, time)| {
                let microseconds = time as f64 / 1000.0;
                format!("p{}={microseconds:.3}", percentile_text(*percentile))
            })
            .collect();
        line(
            &format!("latency_percentiles_usec_{name}"),
            figures.join(","),
            out,
        );
    }
}
