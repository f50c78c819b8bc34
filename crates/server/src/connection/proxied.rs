//! Gives a connection through a proxy the address of its client.

use undercroft_commands::session::Session;

use crate::connection::state::{Connection, Next};
use crate::shared::state::Shared;
use crate::sockets::proxy::Announced;

/// The reply to a client on another machine in protected mode.
pub(crate) const PROTECTED: &[u8] =
    b"-DENIED Undercroft is in protected mode because no password is \
                                      set: only connections from this machine are accepted. Set a \
                                      password (--requirepass), or accept all connections with \
                                      'protected-mode no'.\r\n";
/// Why the connection was refused, for the audit log.
pub(crate) const IS_PROTECTED: &str = "protected mode: no password is set";

impl Connection {
    /// Takes the address that a proxy has announced. If the client may not connect, returns the next
    /// step.
    #[cold]
    pub(super) fn learn_peer(&mut self, announced: Announced, shared: &Shared) -> Option<Next> {
        if let Announced::Client(address) = announced {
            let address = address.to_string();
            self.session.peer.address.clone_from(&address);
            self.card.set_address(address);
        }
        let is_refused = !is_local(&self.session) && shared.is_protected();
        is_refused.then(|| {
            let address = &self.session.peer.address;
            shared.audit_connection(address, self.session.id, IS_PROTECTED);
            // An encrypted reason would need a handshake, which costs more than a connection. The
            // connection ends, also if the client is gone.
            if !self.socket.is_encrypted() {
                let _ = self.socket.send(PROTECTED);
            }
            Next::Close
        })
    }
}

fn is_local(session: &Session) -> bool {
    let address = session.peer.address.parse::<std::net::SocketAddr>();
    address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}
