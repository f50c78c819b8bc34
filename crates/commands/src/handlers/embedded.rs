//! The processes that map the store, as CLIENT LIST shows them beside connections.

use std::fs;

use crate::context::Context;
use crate::session::{ClientInfo, Session};

/// Numbers of processes stand behind this one, so that they are none of a connection's.
const IDS: u64 = 1 << 40;

/// A line for each process that has the store open but this one, whose connections are known by themselves. A process
/// has the store's path and its own number for an address, and its program's name. Where they cannot be asked for,
/// there is none.
pub(crate) fn clients(context: &Context<'_>) -> Vec<ClientInfo> {
    let now = context.host.now_microseconds() / 1000;
    let shown = |letter: char| {
        if letter.is_ascii_graphic() {
            letter
        } else {
            '?'
        }
    };
    let path: String = context
        .store
        .path()
        .to_string_lossy()
        .chars()
        .map(shown)
        .collect();
    let users = context.store.users().unwrap_or_default();
    let lines = users.iter().map(|user| {
        let joined = user.member.as_ref().map(|member| member.joined as i64);
        let mut session = Session::new(
            IDS + u64::from(user.pid),
            Some("default".into()),
            joined.unwrap_or(now),
        );
        session.last_command_at = now;
        session.address = format!("{path}:{}", user.pid);
        session.local_address = format!("{path}:0");
        if let Some(name) = user.here.then(|| program(user.pid)).flatten() {
            // A name that CLIENT LIST could not show is none.
            let _ = session.set_name(name.trim().as_bytes());
        }
        session.info(now)
    });
    lines.collect()
}

/// The program's name, as the system shows it.
fn program(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok()
}
