//! Records spans of calls, counters, and connection events. Without the `tracing` and `metrics`
//! features, this module does nothing.

#[cfg(feature = "async")]
use std::future::Future;
#[cfg(all(feature = "async", feature = "metrics"))]
use std::time::Instant;

#[cfg(all(feature = "async", feature = "tracing"))]
use tracing::Instrument;

use crate::error::Error;
#[cfg(feature = "async")]
use crate::error::Result;

/// Returns the future of a call on a cache unchanged, because the `metrics` and `tracing` features
/// are off. An async function would store that future twice, before its first poll and while it
/// waits, which costs memory for every caller.
#[cfg(all(feature = "async", not(any(feature = "metrics", feature = "tracing"))))]
#[inline]
pub(crate) fn call<T, F: Future<Output = Result<T>>>(
    _: &'static str,
    _: &'static str,
    call: F,
) -> F {
    call
}

/// Makes a call on a cache and records it with a span and counters.
#[cfg(all(feature = "async", any(feature = "metrics", feature = "tracing")))]
#[inline]
pub(crate) async fn call<T>(
    cache: &'static str,
    operation: &'static str,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    #[cfg(feature = "metrics")]
    let started = Instant::now();
    #[cfg(feature = "tracing")]
    let call = {
        let span = tracing::debug_span!("undercroft", cache, operation);
        async move {
            let outcome = call.await;
            if let Err(error) = &outcome {
                tracing::debug!(%error, "failed");
            }
            outcome
        }
        .instrument(span)
    };
    let outcome = call.await;
    #[cfg(feature = "metrics")]
    count(cache, operation, started, outcome.as_ref().err());
    #[cfg(not(feature = "metrics"))]
    let _ = (cache, operation);
    outcome
}

#[cfg(all(feature = "async", feature = "metrics"))]
fn count(cache: &'static str, operation: &'static str, started: Instant, error: Option<&Error>) {
    let labels = [("cache", cache), ("operation", operation)];
    metrics::counter!("undercroft_calls_total", &labels).increment(1);
    metrics::histogram!("undercroft_call_seconds", &labels).record(started.elapsed());
    if let Some(error) = error {
        let kind = error.kind();
        let labels = [("cache", cache), ("operation", operation), ("error", kind)];
        metrics::counter!("undercroft_errors_total", &labels).increment(1);
    }
}

/// Records that a store has other limits than its program requested.
pub(crate) fn warned(warning: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!("{warning}");
    let _ = warning;
}

/// Records that a shared connection or a subscription's connection was established.
pub(crate) fn connected(server: &str) {
    #[cfg(feature = "tracing")]
    tracing::debug!(server, "connected");
    #[cfg(feature = "metrics")]
    metrics::counter!("undercroft_connections_total", "server" => server.to_owned()).increment(1);
    let _ = server;
}

/// Records that a shared connection or a subscription's connection was lost or could not be
/// established.
pub(crate) fn disconnected(server: &str, error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(server, %error, "not connected");
    #[cfg(feature = "metrics")]
    {
        let labels = [
            ("server", server.to_owned()),
            ("error", error.kind().to_owned()),
        ];
        metrics::counter!("undercroft_connection_errors_total", &labels).increment(1);
    }
    let _ = (server, error);
}
