//! Messages of PUBLISH and SPUBLISH reach the subscribers of replicas, whichever process publishes them.

use undercroft_conformance::client::Client;
use undercroft_conformance::replication::text;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::Kind;

use crate::data::Pair;
use crate::required::embedded;

/// Receives the next message, as its words.
fn next(subscriber: &mut Client) -> String {
    text(&subscriber.receive().expect("a message"))
        .trim()
        .to_owned()
}

#[test]
fn subscribers_of_a_replica_receive_the_messages_of_all_processes() {
    for kind in [Kind::Redis, Kind::Undercroft] {
        let Some(mut pair) = Pair::start(seed(), kind, &[]) else {
            return;
        };
        pair.follow();
        pair.compare();
        let store = pair.ours.store();
        let mut ours = Client::connect(pair.ours.address()).expect("it accepts");
        let mut there = Client::connect(pair.replica.address()).expect("it accepts");
        let connect = || Client::connect(pair.replica.address()).expect("it accepts");
        let (mut named, mut all, mut shard) = (connect(), connect(), connect());
        named.call(["SUBSCRIBE", "news"]).expect("a reply");
        all.call(["PSUBSCRIBE", "*"]).expect("a reply");
        shard.call(["SSUBSCRIBE", "orders"]).expect("a reply");
        let mut call = |words: &[&str]| ours.call(words.iter().copied()).expect("a reply");
        // Replicas make notifications of their own.
        call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
        let Reply::Error(error) = call(&["PSUBSCRIBE", "\0replicas"]) else {
            panic!("no client may receive messages uncounted");
        };
        assert!(error.ends_with(b"is reserved; use another one"));
        // The replica is no receiver here, as in Redis.
        assert_eq!(call(&["PUBLISH", "news", "zero"]), Reply::Integer(0));
        assert_eq!(call(&["SPUBLISH", "orders", "zero"]), Reply::Integer(0));
        assert_eq!(call(&["PUBSUB", "NUMPAT"]), Reply::Integer(0));
        let channels = call(&["PUBSUB", "CHANNELS"]);
        assert_eq!(channels, Reply::Array(Vec::new()));
        assert!(text(&call(&["INFO", "stats"])).contains("pubsub_patterns:0\r\n"));
        assert_eq!(next(&mut named), "message news zero");
        assert_eq!(next(&mut all), "pmessage * news zero");
        assert_eq!(next(&mut shard), "smessage orders zero");
        for number in 0..200 {
            let body = format!("m{number}");
            // A subscriber sees the changes that were made before the message.
            call(&["SET", "seen", &body]);
            call(&["PUBLISH", "news", &body]);
            assert_eq!(next(&mut named), format!("message news {body}"));
            assert_eq!(text(&there.call(["GET", "seen"]).expect("a reply")), body);
            assert_eq!(next(&mut all), format!("pmessage * news {body}"));
        }
        call(&["MULTI"]);
        call(&["SET", "seen", "whole"]);
        call(&["PUBLISH", "news", "whole"]);
        call(&["EXEC"]);
        assert_eq!(next(&mut named), "message news whole");
        call(&[
            "EVAL",
            "return redis.call('PUBLISH', 'news', 'script')",
            "0",
        ]);
        assert_eq!(next(&mut named), "message news script");
        // A program that maps the store.
        assert_eq!(embedded(&store, &["PUBLISH", "news", "mapped"]).trim(), "0");
        assert_eq!(next(&mut named), "message news mapped");
        embedded(&store, &["SPUBLISH", "orders", "mapped"]);
        assert_eq!(next(&mut shard), "smessage orders mapped");
        for body in ["whole", "script", "mapped"] {
            assert_eq!(next(&mut all), format!("pmessage * news {body}"));
        }
        // A message that is too long for the ring.
        let long = "l".repeat(1 << 20);
        call(&["PUBLISH", "news", &long]);
        assert_eq!(next(&mut named), format!("message news {long}"));
    }
}
