//! Tests the cache on a cluster of three servers.

use std::time::Duration;

use undercroft::{CacheOptions, Event, Pool, SetOptions, Subscription, cache_with};

use crate::contract::{check_commands, check_counters_and_expiry, check_pipelines};
use crate::support::cluster::{Cluster, SLOTS, pool, run};

/// Returns which third of the slots a key belongs to, as an index from 0 to 2.
fn third(pool: &Pool, key: &str) -> usize {
    let slot: i64 = run(pool, &["CLUSTER", "KEYSLOT", key])
        .to()
        .expect("a slot");
    slot as usize * 3 / SLOTS
}

/// Publishes a message on a node until the subscription receives it. A node drops messages for
/// another node while the link between the two is down, which happens on a busy machine.
async fn receive(news: &mut Subscription, pool: &Pool, text: &str) {
    loop {
        pool.publish("news", text).expect("published");
        let second = Duration::from_secs(1);
        while let Ok(event) = tokio::time::timeout(second, news.next()).await {
            match event.expect("no end").expect("no error") {
                Event::Message(message) if message.payload == text.as_bytes() => return,
                // A message that was published again arrives twice.
                Event::Message(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn calls_reach_all_nodes_and_survive_the_failure_of_one() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    let options = CacheOptions::new().deadline(Duration::from_secs(20));
    let cache = cache_with(&cluster.url(), options).expect("a cache");
    let keys: Vec<String> = (0..1000).map(|number| format!("key {number}")).collect();
    let words: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for key in &words {
        assert!(
            cache
                .set_options(key, key, SetOptions::new())
                .await
                .expect("set")
        );
    }
    let large = vec![b'x'; 1_000_000];
    let hour = SetOptions::new().ttl(Duration::from_secs(3600));
    assert!(
        cache
            .set_options(b"large", &large, hour)
            .await
            .expect("set")
    );
    assert!(cache.get(b"large").await.expect("get") == Some(large));
    assert!(
        !cache
            .set_options(b"large", b"x", hour.if_missing())
            .await
            .expect("NX")
    );
    let found = cache.mget(&words).await.expect("mget");
    let expected: Vec<_> = words.iter().map(|key| Some(key.to_vec())).collect();
    assert_eq!(found, expected, "in the order of the keys");
    assert_eq!(cache.del(&words[..500]).await.expect("del"), 500);
    assert_eq!(cache.get(words[0]).await.expect("get"), None);

    check_counters_and_expiry(&*cache).await;
    check_commands(&*cache).await;
    check_pipelines(&*cache).await;

    // A lease is stored in its key's slot, and dropping the lease releases it.
    let term = Duration::from_secs(60);
    for key in [&b"key 1"[..], b"{tag}:key", b"key 999"] {
        let lease = cache.take_lease(key, term).await.expect("a lease");
        let other = cache.take_lease(key, term).await.expect("an answer");
        assert!(lease.is_some() && other.is_none());
        drop(lease);
        let lease = loop {
            match cache.take_lease(key, term).await.expect("an answer") {
                Some(lease) => break lease,
                None => tokio::task::yield_now().await,
            }
        };
        let set = cache.set_leased(lease, b"leased", hour).await;
        assert!(set.expect("set"));
        assert_eq!(
            cache.get(key).await.expect("get").as_deref(),
            Some(&b"leased"[..])
        );
    }

    // A message arrives no matter which node it is published on.
    let mut news = cache.subscribe(&[b"news"]).await.expect("subscribed");
    let pools: Vec<Pool> = cluster.0.iter().map(pool).collect();
    for (at, pool) in pools.iter().enumerate() {
        receive(&mut news, pool, &at.to_string()).await;
    }

    // Kill the first node, to which the subscription is connected.
    cluster.0[0].kill();
    let mut failed = 0;
    for key in &keys[500..520] {
        match (third(&pools[1], key), cache.get(key.as_bytes()).await) {
            (0, Err(error)) => {
                let is_known = error.is_connection() || error.is_timeout();
                assert!(is_known || error.code() == Some("CLUSTERDOWN"), "{error:?}");
                failed += 1;
            }
            (0, Ok(found)) => panic!("a node that is dead answered {found:?}"),
            (_, found) => assert_eq!(found.expect("get"), Some(key.clone().into_bytes())),
        }
        if failed == 2 {
            break;
        }
    }
    assert_eq!(failed, 2, "keys of the node that is dead");
    // The subscription moves to another node, and reports that messages may be lost.
    while !matches!(news.next().await, Some(Ok(Event::Lost(None)))) {}
    receive(&mut news, &pools[2], "again").await;

    // The cache uses a node again after the node restarts.
    cluster.0[0].start_again();
    let key = keys.iter().find(|key| third(&pools[1], key) == 0);
    let key = key.expect("a key of a third").as_bytes();
    while cache
        .set_options(key, b"new", SetOptions::new())
        .await
        .is_err()
    {}
    assert_eq!(cache.get(key).await.expect("get"), Some(b"new".to_vec()));
    cache.close().await;
    assert!(matches!(
        cache.get(key).await,
        Err(undercroft::Error::Closed)
    ));
    assert!(cache.subscribe(&[b"news"]).await.is_err());
}

#[tokio::test]
async fn unreachable_cluster_fails_calls() {
    // No server listens on this port.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let options = CacheOptions::new().deadline(Duration::from_secs(5));
    let cache = cache_with(&format!("redis+cluster://{address}"), options).expect("a cache");
    let error = cache.get(b"key").await.expect_err("no server is running");
    assert!(error.is_connection() || error.is_timeout(), "{error:?}");
    let error = cache
        .subscribe(&[b"news"])
        .await
        .expect_err("no server is running");
    assert!(error.is_connection(), "{error:?}");
}
