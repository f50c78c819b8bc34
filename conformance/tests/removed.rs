//! Tests that a server continues to answer after its store's file is removed.

use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Settings, start_undercroft};

#[test]
fn subscribers_of_a_removed_store_are_disconnected() {
    let Some(server) = start_undercroft(Settings::default()).expect("undercroft starts") else {
        return;
    };
    // Open enough subscribers to use each of the server's threads.
    let mut subscribers: Vec<Client> = Vec::new();
    for command in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"].repeat(3) {
        let mut client = Client::connect(server.address()).expect("it listens");
        client.call([command, "c"]).expect("a reply");
        subscribers.push(client);
    }
    let mut other = Client::connect(server.address()).expect("it listens");
    std::fs::remove_file(server.store()).expect("it existed");
    for client in &mut subscribers {
        let told = client.receive();
        assert!(told.is_err(), "{told:?}");
    }
    // A connection without state in the old store continues in the new store at the same path.
    let reply = other.call(["PUBLISH", "c", "text"]).expect("a reply");
    assert!(matches!(reply, Reply::Integer(0)), "{reply:?}");
    let reply = other.call(["SUBSCRIBE", "c"]).expect("a reply");
    assert!(matches!(reply, Reply::Array(_)), "{reply:?}");
    assert!(server.store().exists());
}
