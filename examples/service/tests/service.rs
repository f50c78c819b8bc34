//! Tests the service on a store that two processes share, and on an unreachable server.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use futures_util::StreamExt;
use tower::ServiceExt;
use undercroft_example_service::service;

async fn ask(service: &Router, method: Method, path: &str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::empty()).expect("a request");
    let response = service.clone().oneshot(request).await.expect("a response");
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20)
        .await
        .expect("a body");
    (status, String::from_utf8(body.to_vec()).expect("a text"))
}

#[tokio::test]
async fn profiles_are_computed_once_and_removed_everywhere() {
    let directory = undercroft_testkit::fresh::directory();
    let url = format!("undercroft://{}/store", directory.path().display());
    let one = service(undercroft::cache(&url).expect("a cache"));
    let cache = undercroft::cache(&url).expect("a cache");
    let other = service(cache.clone());

    let (status, first) = ask(&one, Method::GET, "/profiles/ada").await;
    assert_eq!(status, StatusCode::OK);
    assert!(first.contains(r#""letters":"ad""#), "{first}");
    let kept = cache.get(b"profile:ada").await.expect("get");
    assert_eq!(kept, Some(first.clone().into_bytes()));
    // Both services return a profile that another process computed.
    let changed = first.replace(&std::process::id().to_string(), "1");
    let set = undercroft::SetOptions::new();
    cache
        .set_options(b"profile:ada", changed.as_bytes(), set)
        .await
        .expect("set");
    assert_eq!(ask(&other, Method::GET, "/profiles/ada").await.1, changed);

    let request = Request::get("/changes")
        .body(Body::empty())
        .expect("a request");
    let changes = one.clone().oneshot(request).await.expect("a response");
    let mut changes = changes.into_body().into_data_stream();
    let (status, _) = ask(&other, Method::DELETE, "/profiles/ada").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let event = changes.next().await.expect("no end").expect("an event");
    assert_eq!(&event[..], b"event: forgotten\ndata: ada\n\n");
    assert_eq!(ask(&one, Method::GET, "/profiles/ada").await.1, first);
    let (status, _) = ask(&other, Method::DELETE, "/profiles/eve").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_service_is_unavailable_without_its_server() {
    let cache = undercroft::cache("unix:///nowhere/redis.sock").expect("a cache");
    let (status, text) = ask(&service(cache), Method::GET, "/profiles/ada").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("cannot connect"), "{text}");
}
