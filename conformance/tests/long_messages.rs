//! Tests that messages too long for the store's ring reach subscribers on sockets, as they do with
//! a real Redis.

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// A length above a quarter of the default ring, and below Redis' limit on a subscriber's pending
/// output.
const LENGTH: usize = 9 << 20;

/// Returns the replies that a publisher and two subscribers receive.
fn told(address: &Address) -> Vec<String> {
    let mut clients = [(); 3].map(|()| Client::connect(address).expect("it listens"));
    let [publisher, direct, pattern] = &mut clients;
    direct.call(["SUBSCRIBE", "c"]).expect("a reply");
    pattern.call(["PSUBSCRIBE", "?"]).expect("a reply");
    let mut told = Vec::new();
    for length in [10, LENGTH, 20] {
        let body = "x".repeat(length);
        let replies = [
            publisher.call(["PUBLISH", "c", &body]),
            direct.receive(),
            pattern.receive(),
        ];
        for reply in replies {
            let reply = format!("{:?}", reply.expect("a reply"));
            told.push(format!(
                "{} letters, {}",
                reply.len(),
                &reply[..reply.len().min(80)]
            ));
        }
    }
    told
}

#[test]
fn long_messages_reach_subscribers_as_with_redis() {
    let redis = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let theirs = told(redis.address());
    if let Some(ours) = start_undercroft(Settings::default()).expect("undercroft starts") {
        assert_eq!(told(ours.address()), theirs);
    }
}
