//! A web service whose processes share a cache of profiles, in shared memory on one machine, or on
//! a server for several machines. The URL alone decides where the cache is.
//!
//! ```text
//! cargo run -p undercroft-example-service -- undercroft://profiles 127.0.0.1:8080
//! curl http://127.0.0.1:8080/profiles/ada
//! curl -N http://127.0.0.1:8080/changes &
//! curl -X DELETE http://127.0.0.1:8080/profiles/ada
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use undercroft::{Cache, CacheExt, Error, Event, SetOptions};

/// How long a profile is cached.
const KEPT: Duration = Duration::from_secs(60);
/// The channel on which the names of changed profiles are published.
const CHANGES: &[u8] = b"profiles:changes";

/// A profile that is expensive to compute.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The name of the person.
    pub name: String,
    /// The letters of the name, sorted and without repetition.
    pub letters: String,
    /// The id of the process that computed the profile.
    pub by: u32,
}

/// Returns the service for a cache.
pub fn service(cache: Arc<dyn Cache>) -> Router {
    Router::new()
        .route("/profiles/{name}", get(profile).delete(forget))
        .route("/changes", get(changes))
        .with_state(cache)
}

/// Returns a profile that any process computed within the last minute, or computes it.
async fn profile(
    State(cache): State<Arc<dyn Cache>>,
    Path(name): Path<String>,
) -> Result<Json<Profile>, Failure> {
    let key = key(&name);
    if let Some(profile) = cache.get_as(&key).await? {
        return Ok(Json(profile));
    }
    let profile = find_out(name);
    let kept = SetOptions::new().ttl(KEPT);
    cache.set_as(&key, &profile, kept).await?;
    Ok(Json(profile))
}

/// Removes a profile, and notifies all listeners.
async fn forget(
    State(cache): State<Arc<dyn Cache>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Failure> {
    if cache.del(&[&key(&name)]).await? == 0 {
        return Ok(StatusCode::NOT_FOUND);
    }
    cache.publish(CHANGES, name.as_bytes()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Streams the names of the profiles that any process removes.
async fn changes(
    State(cache): State<Arc<dyn Cache>>,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Failure> {
    let changes = cache.subscribe(&[CHANGES]).await?;
    let events = changes.filter_map(async |event| match event {
        Ok(Event::Message(message)) => {
            let name = String::from_utf8_lossy(&message.payload).into_owned();
            Some(Ok(sse::Event::default().event("forgotten").data(name)))
        }
        // Messages were lost, so the listener must fetch everything again.
        Ok(Event::Lost(_)) => Some(Ok(sse::Event::default().event("lost").data(""))),
        // Skip events that later versions add, and the error for a lost connection, because the next
        // poll reconnects.
        Ok(_) | Err(_) => None,
    });
    Ok(Sse::new(events))
}

fn key(name: &str) -> Vec<u8> {
    format!("profile:{name}").into_bytes()
}

fn find_out(name: String) -> Profile {
    let mut letters: Vec<char> = name.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    Profile {
        name,
        letters: letters.into_iter().collect(),
        by: std::process::id(),
    }
}

/// A cache error that is returned as a response.
struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Failure(error) = self;
        let status = match error.is_connection() || error.is_timeout() {
            // Report these errors as temporary, because the request may succeed later.
            true => StatusCode::SERVICE_UNAVAILABLE,
            false => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, error.to_string()).into_response()
    }
}
