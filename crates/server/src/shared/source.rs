//! Follows a source with the server's configuration.

use std::sync::atomic::{AtomicBool, Ordering};

use undercroft_engine::Store;
use undercroft_links::follow::{
    Address, FollowOptions, FollowState, Follower, KeyFilter, SourceUrl, TlsFiles,
};
use undercroft_links::load::LoadOptions;

use crate::log::log;
use crate::shared::state::Shared;

/// Follows a source until the server stops, the store is no replica any more, or `must_stop` is set.
pub(super) fn follow(
    server: &Shared,
    (host, port): (String, u16),
    must_stop: &AtomicBool,
) -> Result<(), Box<dyn std::error::Error>> {
    let config = &server.process.config;
    let text = |name| String::from_utf8_lossy(&config.value(name).text()).into_owned();
    let url = SourceUrl {
        addresses: vec![Address::Tcp { host, port }],
        is_cluster: false,
        master: None,
        is_encrypted: false,
        tls: TlsFiles::default(),
        user: text("masteruser"),
        password: text("masterauth"),
    };
    let path = server.store().path().to_owned();
    // The served store's handle is impatient, and does not apply changes of a source.
    let store = Store::open(&path, true)?;
    store.leave_upkeep_to_a_timer();
    store.apply_source();
    let options = FollowOptions {
        url,
        load: LoadOptions::new(),
        filter: KeyFilter::default(),
        is_elected: true,
        listening_port: server.tcp_port,
        is_server: true,
    };
    log(format_args!("following {}", options.url));
    let state = FollowState::default();
    let stops = || server.stopping() || must_stop.load(Ordering::Acquire);
    Follower::new(&store, server.host(), options, &state, &stops).run()?;
    Ok(())
}
