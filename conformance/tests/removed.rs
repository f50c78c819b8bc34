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
    // One that held nothing of it goes on, in the store that the name means now.
    let reply = other.call(["PUBLISH", "c", "text"]).expect("a reply");
    assert!(matches!(reply, Reply::Integer(0)), "{reply:?}");
    let reply = other.call(["SUBSCRIBE", "c"]).expect("a reply");
    assert!(matches!(reply, Reply::Array(_)), "{reply:?}");
    assert!(server.store().exists());
}
