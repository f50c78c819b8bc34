//! Fuzzes the encrypted side of a server's connections. A real client shakes hands and sends requests,
//! and the input describes how a network cuts, damages, drops, repeats and inserts bytes on the way.
//! The server's connection must never return bytes that the client has not sent, and must end at the
//! first damage.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use undercroft_server::{Received, Transport};

/// Pieces of inputs: the steps of the network.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"\x00\x00\xff",
    b"\x00\x05\x00",
    b"\x01\x00\x10",
    b"\x02\x05\x01",
    b"\x03\x00\x16",
    b"\x04\x00\x20",
    b"\x05\x00\x05",
    b"\x06\x00\x00",
];
/// The bytes that the client encrypts in each step.
const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
/// The maximum number of steps of an input.
const STEPS_MAX: usize = 200;

/// The configurations of the server and of the client, with a certificate that the client trusts.
static CONFIGURATIONS: LazyLock<(Arc<ServerConfig>, Arc<ClientConfig>)> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (
        Arc::new(server.expect("a key of the certificate")),
        Arc::new(client),
    )
});

/// One step of the network: what happens to the bytes that the client sends next.
#[derive(Clone, Copy, Debug)]
struct Step {
    action: u8,
    /// The position in the bytes.
    position: usize,
    byte: u8,
}

impl Step {
    /// Changes bytes on their way. Returns whether the server receives other bytes than the client
    /// has sent.
    fn damage(self, bytes: &mut Vec<u8>) -> bool {
        if bytes.is_empty() {
            return false;
        }
        let at = self.position % bytes.len();
        let count = usize::from(self.byte).min(bytes.len() - at);
        match self.action {
            1 => bytes[at] ^= self.byte,
            2 => drop(bytes.drain(at..at + count)),
            3 => bytes.insert(at, self.byte),
            4 => {
                let again = bytes[at..at + count].to_vec();
                bytes.splice(at..at, again);
            }
            5 => bytes.truncate(at),
            _ => return false,
        }
        // Some of these changes have no effect. An assumed damage only makes the test less strict.
        true
    }
}

/// Receives what a client sends over a network that the input describes.
pub(crate) fn receive(input: &[u8]) {
    let (server, client) = &*CONFIGURATIONS;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name).expect("a session");
    let (mut network, socket) = UnixStream::pair().expect("sockets");
    network.set_nonblocking(true).expect("a socket");
    socket.set_nonblocking(true).expect("a socket");
    let mut transport =
        Transport::new(OwnedFd::from(socket), Some(Arc::clone(server)), false).expect("a session");
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut is_damaged = false;
    for step in input.chunks(3).take(STEPS_MAX) {
        let step = Step {
            action: step[0] % 8,
            position: step.get(1).map_or(0, |low| usize::from(*low) * 7),
            byte: step.get(2).copied().unwrap_or(0),
        };
        if !client.is_handshaking() && client.writer().write_all(REQUEST).is_ok() {
            sent.extend_from_slice(REQUEST);
        }
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("memory");
        }
        is_damaged |= step.damage(&mut bytes);
        // The server may receive the bytes in any pieces.
        let piece = match step.action {
            6 => 1 + usize::from(step.byte) % 64,
            _ => bytes.len().max(1),
        };
        for piece in bytes.chunks(piece) {
            network.write_all(piece).expect("room in the socket");
            if !take(&mut transport, &mut received) {
                assert!(is_damaged, "a sound connection ended");
                assert!(sent.starts_with(&received), "other bytes than those sent");
                return;
            }
        }
        assert!(sent.starts_with(&received), "other bytes than those sent");
        if step.action == 7 {
            transport.send(REQUEST).ok();
        }
        answer(&mut client, &mut network, is_damaged);
    }
    assert!(
        is_damaged || sent == received,
        "the server has received {} of {} bytes",
        received.len(),
        sent.len()
    );
}

/// Lets the server receive all that has arrived. Returns false if the connection has ended.
fn take(transport: &mut Transport, received: &mut Vec<u8>) -> bool {
    loop {
        match transport.receive(received) {
            Ok(Received::Bytes(_)) => {}
            Ok(Received::End) => return false,
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Lets the client receive what the server has sent. A client may end the connection only if its own
/// bytes were damaged.
fn answer(client: &mut ClientConnection, network: &mut UnixStream, is_damaged: bool) {
    while client.read_tls(network).is_ok_and(|count| count > 0) {
        let state = client.process_new_packets();
        assert!(state.is_ok() || is_damaged, "{state:?}");
        let Ok(state) = state else { return };
        let mut reply = vec![0; state.plaintext_bytes_to_read()];
        client
            .reader()
            .read_exact(&mut reply)
            .expect("decrypted bytes");
        let expected = REQUEST.iter().cycle();
        assert!(
            reply
                .iter()
                .zip(expected)
                .all(|(found, expected)| found == expected)
        );
    }
}
