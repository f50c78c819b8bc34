//! Sends malformed protocol input to a real Redis, which validates the tests, and to `undercroft
//! serve`.

use std::io::{Read, Write};
use std::net::TcpListener;

use anyhow::Result;
use undercroft_conformance::client::Address;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};
use undercroft_conformance::torture::{
    Load, Target, clients_beyond_the_limit, run_all, settings, subscriber_beyond_the_hard_limit,
    subscriber_beyond_the_soft_limit, unauthenticated_inputs,
};

fn target(server: &Server) -> Target {
    Target {
        address: server.address().clone(),
        pid: Some(server.pid()),
    }
}

/// Starts both kinds of server with these settings, or only Redis if undercroft is not built.
fn subjects(settings: &Settings) -> Vec<Server> {
    let redis = Server::start(Kind::Redis, settings.clone()).expect("redis-server starts");
    let ours = start_undercroft(settings.clone()).expect("undercroft starts");
    std::iter::once(redis).chain(ours).collect()
}

fn on_each(settings: &Settings, test: impl Fn(&Target) -> Result<String>) {
    for server in subjects(settings) {
        let note = test(&target(&server)).unwrap_or_else(|error| panic!("{server:?}: {error:#}"));
        println!("{note}");
    }
}

#[test]
fn malformed_input_affects_no_other_client() {
    let named = std::env::var("UNDERCROFT_SEED").ok();
    let seed = named.map_or_else(
        || fastrand::u64(..1 << 40),
        |s| s.parse().expect("UNDERCROFT_SEED is a number"),
    );
    println!("seed {seed} (replay with UNDERCROFT_SEED={seed})");
    let judge = Server::start(Kind::Redis, settings()).expect("redis-server starts");
    let load = Load {
        idle: 10_000,
        damaged: 2_000,
        seed,
    };
    for server in subjects(&settings()) {
        println!("{server:?}");
        let failed = run_all(&target(&server), judge.address(), &load).expect("the tests run");
        assert_eq!(
            failed, 0,
            "seed {seed}: see the lines that begin with FAILED"
        );
    }
}

#[test]
fn one_client_too_many_gets_an_error() {
    let settings = Settings {
        maxclients: 8,
        ..Settings::default()
    };
    on_each(&settings, |target| clients_beyond_the_limit(target, 8));
}

#[test]
fn limits_are_small_before_authentication() {
    let settings = Settings {
        password: Some("secret".to_owned()),
        ..Settings::default()
    };
    let judge = Server::start(Kind::Redis, settings.clone()).expect("redis-server starts");
    on_each(&settings, |target| {
        unauthenticated_inputs(target, judge.address())
    });
}

#[test]
fn a_subscriber_that_does_not_read_is_disconnected() {
    on_each(&Settings::default(), subscriber_beyond_the_hard_limit);
    on_each(&Settings::default(), subscriber_beyond_the_soft_limit);
}

/// Starts a server that answers any input with +PONG, up to three times per connection.
fn careless_server() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a spare port");
    let address = listener.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                for _ in 0..3 {
                    match client.read(&mut buffer) {
                        Ok(1..) if client.write_all(b"+PONG\r\n").is_ok() => {}
                        _ => break,
                    }
                }
            });
        }
    });
    Address::Tcp(address)
}

#[test]
fn a_careless_server_fails_every_test() {
    let judge = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let target = Target {
        address: careless_server(),
        pid: None,
    };
    let load = Load {
        idle: 100,
        damaged: 100,
        seed: 1,
    };
    let failed = run_all(&target, judge.address(), &load).expect("the tests run");
    assert_eq!(
        failed, 10,
        "a test passed a server that answers nothing right"
    );
    assert!(subscriber_beyond_the_hard_limit(&target).is_err());
    assert!(subscriber_beyond_the_soft_limit(&target).is_err());
}
