//! Tests server faults, and the errors that callers receive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::redis::Redis;
use crate::support::script::Script;
use nix::sys::signal::Signal;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use undercroft::{Cache, CacheOptions, Error, Event, PipelinedCache, PooledCache, SetOptions};
use undercroft_served::Served;

const SHORT: Duration = Duration::from_millis(100);

/// Retries a call until it succeeds, and returns the errors. Each error must be a connection error.
async fn recover(cache: &dyn Cache) -> Vec<Error> {
    let mut errors = Vec::new();
    loop {
        match cache.set_options(b"key", b"value", SetOptions::new()).await {
            Ok(_) => return errors,
            Err(error) => errors.push(error),
        }
        let last = errors.last().expect("an error");
        assert!(last.is_connection() || last.is_timeout(), "{last}");
        assert!(errors.len() < 10_000, "it does not recover: {last}");
    }
}

#[tokio::test]
async fn restarted_server_costs_at_most_one_error() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let cache = undercroft::cache(&redis.unix()).expect("a cache");
    for _ in 0..3 {
        recover(&*cache).await;
        redis.restart();
        // The lost connection is noticed either by this call or before it.
        let errors = recover(&*cache).await;
        assert!(errors.len() <= 1, "{errors:?}");
        assert!(
            errors
                .iter()
                .all(|error| matches!(error, Error::Lost { .. })),
            "{errors:?}"
        );
    }
}

#[tokio::test]
async fn pending_calls_get_one_error_each_when_the_server_is_killed() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let cache = Arc::new(PipelinedCache::open(&redis.tcp(), CacheOptions::new()).expect("a cache"));
    recover(&*cache).await;
    redis.signal(Signal::SIGSTOP);
    let calls: Vec<_> = (0..100)
        .map(|number: u32| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.get(&number.to_le_bytes()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    redis.kill();
    for call in calls {
        let error = call.await.expect("it ran").expect_err("no server replied");
        assert!(error.is_connection(), "{error}");
    }
    let error = cache.get(b"key").await.expect_err("no server is running");
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    assert!(!error.may_have_run());
    redis.start_again();
    recover(&*cache).await;
}

#[tokio::test]
async fn calls_on_a_paused_server_time_out_and_later_calls_succeed() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let options = CacheOptions::new().deadline(SHORT);
    let cache = PipelinedCache::open(&redis.unix(), options).expect("a cache");
    recover(&cache).await;
    redis.signal(Signal::SIGSTOP);
    for _ in 0..3 {
        let error = cache.get(b"key").await.expect_err("no server replies");
        assert!(matches!(error, Error::TimedOut(SHORT)), "{error}");
        assert!(error.may_have_run());
    }
    redis.signal(Signal::SIGCONT);
    recover(&cache).await;
    // The connection discarded late replies, so this reply belongs to this call.
    let length = loop {
        match cache.command(&["STRLEN", "key"]).await {
            Err(error) if error.is_timeout() => {}
            length => break length.expect("a reply"),
        }
    };
    assert_eq!(length.to::<i64>().expect("an integer"), 5);
}

#[tokio::test]
async fn silent_connection_is_replaced() {
    let served = Script::start(|number, mut peer| async move {
        while peer.command().await.is_some() {
            if number > 0 {
                peer.send(b"$3\r\nnew\r\n").await;
            }
        }
    });
    let options = CacheOptions::new().deadline(SHORT).silence(SHORT * 2);
    let cache = PipelinedCache::open(&served.url(), options).expect("a cache");
    let value = loop {
        if let Ok(value) = cache.get(b"key").await {
            break value;
        }
    };
    assert_eq!(value.as_deref(), Some(&b"new"[..]));
}

#[tokio::test]
async fn timed_out_call_keeps_the_connection() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let served = Script::start(move |_, mut peer| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { while peer.command().await.is_some() {} }
    });
    // A time limit that is never reached during the test, even on the slowest machine.
    let options = CacheOptions::new().deadline(SHORT);
    let options = options.silence(Duration::from_secs(86_400));
    let cache = PipelinedCache::open(&served.url(), options).expect("a cache");
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match cache.get(b"key").await.expect_err("no reply is ever sent") {
            Error::TimedOut(SHORT) => seen.push(connections.load(Ordering::SeqCst)),
            // On a busy machine, connecting may take longer than the deadline.
            Error::Connect { .. } if seen.is_empty() => {}
            error => panic!("{error}"),
        }
    }
    assert!(seen.iter().all(|number| *number == seen[0]), "{seen:?}");
}

#[tokio::test]
async fn servers_with_a_password_accept_it_from_the_url() {
    let ours = Served::start_with(&[("requirepass", "se cret")]);
    let redis = Redis::start(&["--requirepass", "se cret"]);
    for url in [Some(ours.url()), redis.as_ref().map(Redis::unix)]
        .into_iter()
        .flatten()
    {
        let cache = undercroft::cache(&url).expect("a cache");
        let error = cache.get(b"key").await.expect_err("no password");
        assert_eq!(error.code(), Some("NOAUTH"), "{error}");
        let url = |user: &str| url.replace("unix://", &format!("unix://{user}@"));
        let cache = undercroft::cache(&url(":wrong")).expect("a cache");
        let error = cache.get(b"key").await.expect_err("a wrong password");
        assert_eq!(error.code(), Some("WRONGPASS"), "{error}");
        assert!(!format!("{error} {error:?}").contains("wrong"), "{error:?}");
        for protocol in ["2", "3"] {
            let url = format!("{}?protocol={protocol}", url("default:se%20cret"));
            let cache = undercroft::cache(&url).expect("a cache");
            assert_eq!(cache.get(b"key").await.expect("a reply"), None);
        }
        // The server does not have a database with this number.
        let url = format!("{}?db=99", url(":se%20cret"));
        let error = undercroft::cache(&url).expect("a cache").get(b"key").await;
        assert!(matches!(error, Err(Error::Refused { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn garbage_closes_the_connection_but_not_the_cache() {
    let served = Script::start(|number, mut peer| async move {
        while peer.command().await.is_some() {
            match number {
                0 => peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n").await,
                _ => peer.send(b"+OK\r\n").await,
            }
        }
    });
    let cache = undercroft::cache(&served.url()).expect("a cache");
    let errors = recover(&*cache).await;
    assert!(matches!(errors[..], [Error::Protocol { .. }]), "{errors:?}");
}

#[tokio::test]
async fn truncated_reply_is_a_lost_connection() {
    let served = Script::start(|number, mut peer| async move {
        while peer.command().await.is_some() {
            if number < 3 {
                return peer.send(b"$1000000\r\nhalf").await;
            }
            peer.send(b"+OK\r\n").await;
        }
    });
    let cache = undercroft::cache(&served.url()).expect("a cache");
    let errors = recover(&*cache).await;
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors
            .iter()
            .all(|error| matches!(error, Error::Lost { .. })),
        "{errors:?}"
    );
}

#[tokio::test]
async fn unsolicited_reply_closes_the_connection() {
    let served = Script::start(|number, mut peer| async move {
        while peer.command().await.is_some() {
            match number {
                0 => peer.send(b"+OK\r\n+OK\r\n").await,
                _ => peer.send(b"$3\r\nnew\r\n").await,
            }
        }
    });
    let cache = undercroft::cache(&served.url()).expect("a cache");
    assert!(
        cache
            .set_options(b"key", b"value", SetOptions::new())
            .await
            .expect("its own reply")
    );
    // The second reply matches no request.
    let found = match cache.get(b"key").await {
        Err(error) if error.is_connection() => cache.get(b"key").await,
        found => found,
    };
    assert_eq!(found.expect("a reply"), Some(b"new".to_vec()));
}

#[tokio::test]
async fn late_reply_is_discarded() {
    let go_on = Arc::new(Notify::new());
    let waits = go_on.clone();
    let served = Script::start(move |_, mut peer| {
        let waits = waits.clone();
        async move {
            let mut is_first = true;
            while let Some(words) = peer.command().await {
                if std::mem::take(&mut is_first) {
                    waits.notified().await;
                }
                let key = &words[1];
                let reply = [b"$1\r\n", &key[..], b"\r\n"].concat();
                peer.send(&reply).await;
            }
        }
    });
    let options = CacheOptions::new().deadline(SHORT);
    let cache = PipelinedCache::open(&served.url(), options).expect("a cache");
    let error = cache.get(b"a").await.expect_err("its reply is late");
    assert!(error.is_timeout(), "{error}");
    go_on.notify_one();
    let mut replies = 0;
    while replies < 3 {
        for key in [b"b", b"c", b"d"] {
            match cache.get(key).await {
                Err(error) if error.is_timeout() => {}
                found => {
                    assert_eq!(found.expect("a reply"), Some(key.to_vec()));
                    replies += 1;
                }
            }
        }
    }
}

/// Starts a server that replies only after `count` commands have arrived. The receiver reports
/// whether further commands arrive nevertheless.
fn answers_of(count: usize, reply: Vec<u8>) -> (Script, UnboundedReceiver<bool>) {
    let (tell, told) = unbounded_channel();
    let served = Script::start(move |_, mut peer| {
        let (tell, reply) = (tell.clone(), reply.clone());
        async move {
            // The client estimates the size of replies from the first reply.
            if peer.command().await.is_some() {
                peer.send(&reply).await;
            }
            let mut held = 0;
            while peer.command().await.is_some() {
                held += 1;
                if held == count {
                    let _ = tell.send(peer.has_more().await);
                    peer.send(&reply.repeat(held)).await;
                    held = 0;
                }
            }
        }
    });
    (served, told)
}

/// Makes three times as many calls as may be in flight at once.
async fn check_under_way(count: usize, reply: Vec<u8>, options: CacheOptions) {
    let (served, mut told) = answers_of(count, reply);
    let options = options.deadline(Duration::from_secs(600));
    let cache = PipelinedCache::open(&served.url(), options).expect("a cache");
    cache.get(b"key").await.expect("a reply");
    let calls = (0..3 * count).map(|_| cache.get(b"key"));
    for found in futures_util::future::join_all(calls).await {
        found.expect("a reply");
    }
    for _ in 0..3 {
        let more = told.recv().await.expect("it was asked");
        assert!(!more, "more than {count} commands are under way");
    }
}

#[tokio::test]
async fn the_queue_limits_the_bytes_in_flight() {
    // Each call costs 256 bytes of the budget.
    check_under_way(4, b"$1\r\nx\r\n".to_vec(), CacheOptions::new().queue(1024)).await;
}

#[tokio::test]
async fn few_commands_are_in_flight_if_replies_are_long() {
    let mut reply = b"$1000000\r\n".to_vec();
    reply.resize(reply.len() + 1_000_000, b'x');
    reply.extend(b"\r\n");
    check_under_way(16, reply, CacheOptions::new()).await;
}

#[tokio::test]
async fn closing_waits_for_pending_calls() {
    let served = Script::start(|_, mut peer| async move {
        let mut commands = 0;
        while peer.command().await.is_some() {
            commands += 1;
            if commands == 3 {
                peer.send(b"+OK\r\n+OK\r\n+OK\r\n").await;
            }
        }
    });
    let cache = undercroft::cache(&served.url()).expect("a cache");
    let set = || cache.set_options(b"key", b"value", SetOptions::new());
    let (one, two, three, ()) = tokio::join!(set(), set(), set(), cache.close());
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert!(matches!(set().await, Err(Error::Closed)));
}

#[tokio::test]
async fn calls_fail_after_their_runtime_has_ended() {
    let ours = Served::start();
    let url = ours.url();
    let cache = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let cache = undercroft::cache(&url).expect("a cache");
            cache.get(b"key").await.expect("a reply");
            cache
        })
    });
    let cache = cache.join().expect("a cache");
    assert!(matches!(cache.get(b"key").await, Err(Error::Closed)));
    cache.close().await;
}

#[tokio::test]
async fn subscriber_learns_that_the_connection_was_lost() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let cache = undercroft::cache(&redis.unix()).expect("a cache");
    let mut news = cache.subscribe(&[b"news"]).await.expect("subscribed");
    redis.restart();
    loop {
        match news.next().await.expect("it continues") {
            Ok(Event::Lost(None)) => break,
            Err(error) if error.is_connection() => {}
            other => panic!("{other:?}"),
        }
    }
    recover(&*cache).await;
    assert_eq!(
        cache.publish(b"news", b"again").await.expect("published"),
        1
    );
    let event = news.next().await.expect("it continues").expect("a message");
    let Event::Message(message) = event else {
        panic!("{event:?}")
    };
    assert_eq!(message.payload, b"again");
}

#[tokio::test]
async fn commands_that_change_a_shared_connection_are_refused() {
    let ours = Served::start();
    let cache = PipelinedCache::open(&ours.url(), CacheOptions::new()).expect("a cache");
    for words in [
        &["SUBSCRIBE", "news"][..],
        &["multi"],
        &["client", "reply", "off"],
        &["CLIENT", "tracking", "on"],
        &["SELECT", "1"],
    ] {
        let error = cache.command(words).await.expect_err("refused");
        assert!(error.to_string().contains("shared connection"), "{error}");
    }
    cache.command(&["CLIENT", "ID"]).await.expect("a reply");
    let error = cache.command(()).await.expect_err("no command");
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
}

#[tokio::test]
async fn pool_replaces_connections_that_the_server_closed() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let cache = PooledCache::open(&redis.unix(), CacheOptions::new()).expect("a cache");
    let calls = (0..100).map(|_| cache.get(b"key"));
    for found in futures_util::future::join_all(calls).await {
        assert_eq!(found.expect("a reply"), None);
    }
    redis.kill();
    let error = cache.get(b"key").await.expect_err("no server is running");
    assert!(error.is_connection(), "{error}");
    redis.start_again();
    let errors = recover(&cache).await;
    assert!(errors.len() <= 1, "{errors:?}");
}

#[tokio::test]
async fn pool_serves_callers_in_order_of_arrival() {
    const CALLERS: usize = 10_000;
    let ours = Served::start();
    let options = CacheOptions::new().connections(2);
    let cache = PooledCache::open(&ours.url(), options.deadline(Duration::from_secs(600)));
    let cache = Arc::new(cache.expect("a cache"));
    let calls: Vec<_> = (0..CALLERS)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.command(&["INCR", "turn"]).await?.to::<i64>() })
        })
        .collect();
    let mut turns = Vec::new();
    for call in calls {
        turns.push(call.await.expect("it ran").expect("a reply"));
    }
    // With two connections, only the caller on the other connection can overtake a caller.
    let early = turns
        .iter()
        .zip(1..)
        .filter(|(turn, came)| (*turn - came).abs() > 50);
    assert_eq!(early.count(), 0);
}
