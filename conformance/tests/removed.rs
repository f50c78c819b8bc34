//! What a server still does once the file of its store is removed.

use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Settings, start_undercroft};

#[test]
fn subscribers_of_a_store_that_is_gone_are_closed() {
    let Some(server) = start_undercroft(Settings::default()).expect("undercroft starts") else {
        return;
    };
    // Some on each of its threads.
    let mut subscribers: Vec<Client> = Vec::new();
    for command in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"].repeat(3) {
        let mut client = Client::connect(server.address()).expect("it listens");
        client.call([command, "c"]).expect("a reply");
        subscribers.push(client);
    }
    let mut other = Client::connect(server.address()).expect("it listens");
    std::fs::remove_file(server.store()).expect("it was there");
    for client in &mut subscribers {
        let told = client.receive();
        assert!(told.is_err(), "{told:?}");
    }
    let reply = other.call(["SUBSCRIBE", "c"]).expect("a reply");
    let Reply::Error(error) = reply else {
        panic!("an error is expected, and this came: {reply:?}");
    };
    let error = String::from_utf8_lossy(&error);
    assert!(error.contains("was removed or replaced"), "{error}");
}
