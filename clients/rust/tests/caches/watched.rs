//! Tests spans, events and counters.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span;
use undercroft::{Cache, CacheOptions, PipelinedCache, SetOptions, StoreCache};
use undercroft_served::Served;

/// The counters, identified by their names and labels.
#[derive(Clone, Default)]
struct Counters(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Counters {
    fn count(&self, name: &str) -> u64 {
        let counters = self.0.lock().expect("no thread panicked");
        counters
            .get(name)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key.labels().map(|label| label.value());
        let name = [key.name()].into_iter().chain(labels).collect::<Vec<_>>();
        let mut counters = self.0.lock().expect("no thread panicked");
        Counter::from_arc(counters.entry(name.join(" ")).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let name = format!("{} is there", key.name());
        let mut counters = self.0.lock().expect("no thread panicked");
        counters.insert(name, Arc::new(AtomicU64::new(1)));
        Histogram::noop()
    }
}

/// The texts of all recorded spans and events.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

struct Texts(String);

impl Visit for Texts {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Told {
    fn tell(&self, name: &str, record: impl FnOnce(&mut Texts)) {
        let mut texts = Texts(name.to_owned());
        record(&mut texts);
        self.0.lock().expect("no thread panicked").push(texts.0);
    }
}

impl tracing::Subscriber for Told {
    fn enabled(&self, about: &tracing::Metadata<'_>) -> bool {
        about.target().starts_with("undercroft")
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let name = attributes.metadata().name();
        self.tell(name, |texts| attributes.record(texts));
        span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        self.tell("event", |texts| event.record(texts));
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn calls_and_connections_are_counted_and_traced() {
    let (counters, told) = (Counters::default(), Told::default());
    let _counting = metrics::set_default_local_recorder(&counters);
    // If only one dispatcher exists, a callsite is enabled or disabled according to the thread that
    // reaches it first, which may run another test (tokio-rs/tracing#3611). A second dispatcher
    // prevents this.
    let _second = tracing::Dispatch::new(told.clone());
    let _telling = tracing::subscriber::set_default(told.clone());

    let directory = undercroft_testkit::fresh::directory();
    let cache = StoreCache::open_path(directory.path().join("store")).expect("a store");
    cache
        .set_options(b"key", b"value", SetOptions::new())
        .await
        .expect("set");
    for _ in 0..3 {
        cache.get(b"key").await.expect("get");
    }
    cache.store().rpush("list", ["a"]).expect("pushed");
    cache.get(b"list").await.expect_err("a list");
    assert_eq!(counters.count("undercroft_calls_total StoreCache get"), 4);
    assert_eq!(counters.count("undercroft_calls_total StoreCache set"), 1);
    assert_eq!(
        counters.count("undercroft_errors_total StoreCache get reply"),
        1
    );
    assert_eq!(counters.count("undercroft_call_seconds is there"), 1);

    let served = Served::start();
    let cache = PipelinedCache::open(&served.url(), CacheOptions::new()).expect("a cache");
    cache.get(b"key").await.expect("get");
    let path = served.url().replace("unix://", "");
    assert_eq!(
        counters.count(&format!("undercroft_connections_total {path}")),
        1
    );
    drop(served);
    // The cache notices the end of the connection either before or after its attempt to reconnect.
    while counters.count(&format!(
        "undercroft_connection_errors_total {path} connect"
    )) == 0
    {
        let _ = cache.get(b"key").await;
    }
    let told = told.0.lock().expect("no thread panicked");
    let has = |text: &str| assert!(told.iter().any(|told| told.contains(text)), "{told:#?}");
    has("undercroft cache=\"StoreCache\" operation=\"get\"");
    has("failed error=WRONGTYPE");
    has("message=connected server=");
    has("message=not connected server=");
}
