//! Reads the header by which a proxy announces the address of a client (PROXY protocol, versions 1 and
//! 2).
//!
//! Only the bytes of the header are taken from the socket, because the bytes after it may belong to a
//! TLS handshake.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use ppp::{HeaderResult, v1, v2};
use rustix::net::{RecvFlags, recv};

/// The length of the longest header of version 1.
const V1_MAX: usize = 107;
/// The first bytes of a header of version 2.
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The length of a header of version 2 without its addresses.
const V2_START: usize = 16;
/// The length of the longest header of version 2 that is accepted. Proxies add a few hundred bytes to
/// the addresses.
const V2_MAX: usize = 4096;

/// The header of a connection, as far as it has arrived.
#[derive(Debug, Default)]
pub(crate) struct Header {
    bytes: Vec<u8>,
    announced: Option<Announced>,
}

/// The content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// The address of the client.
    Client(SocketAddr),
    /// The proxy itself is the client, or it does not know the client's address.
    Proxy,
}

impl Header {
    /// Takes the bytes of the header that have arrived, until it is complete. Returns `None` at the end of
    /// the connection.
    ///
    /// # Errors
    /// `WouldBlock` if more must arrive, or `InvalidData` if the bytes are not a header.
    pub(crate) fn receive(&mut self, socket: &OwnedFd) -> io::Result<Option<()>> {
        let mut buffer = [0; 512];
        while self.announced.is_none() {
            let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
            let (count, _) = recv(socket, &mut buffer, flags)?;
            if count == 0 {
                return Ok(None);
            }
            let taken = self.take(&buffer[..count])?;
            // These bytes are there, so all of them are received.
            recv(socket, &mut buffer[..taken], RecvFlags::DONTWAIT)?;
        }
        Ok(Some(()))
    }

    /// Returns what a complete header announces.
    pub(crate) fn announced(&self) -> Option<Announced> {
        self.announced
    }

    /// Adds bytes up to the end of the header. Returns their number.
    fn take(&mut self, more: &[u8]) -> io::Result<usize> {
        for (taken, byte) in (1..).zip(more) {
            self.bytes.push(*byte);
            if self.is_whole()? {
                self.announced = Some(parse(&self.bytes)?);
                self.bytes = Vec::new();
                return Ok(taken);
            }
        }
        Ok(more.len())
    }

    fn is_whole(&self) -> io::Result<bool> {
        let (bytes, length) = (&self.bytes[..], self.bytes.len());
        let is_start_of = |whole: &[u8]| whole.starts_with(&bytes[..length.min(whole.len())]);
        if is_start_of(V2_SIGNATURE) {
            let Some(start) = bytes.first_chunk::<V2_START>() else {
                return Ok(false);
            };
            let whole = V2_START + usize::from(u16::from_be_bytes([start[14], start[15]]));
            return match whole > V2_MAX {
                true => Err(invalid("it is longer than 4096 bytes")),
                false => Ok(length == whole),
            };
        }
        match is_start_of(b"PROXY ") && length <= V1_MAX {
            true => Ok(bytes.ends_with(b"\r\n")),
            false => Err(invalid("the bytes are of another protocol")),
        }
    }
}

fn invalid(reason: &str) -> io::Error {
    let text = format!("expected the header of the PROXY protocol from this address: {reason}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn parse(bytes: &[u8]) -> io::Result<Announced> {
    Ok(match HeaderResult::parse(bytes) {
        HeaderResult::V1(Ok(header)) => match header.addresses {
            v1::Addresses::Tcp4(of) => client(of.source_address.into(), of.source_port),
            v1::Addresses::Tcp6(of) => client(of.source_address.into(), of.source_port),
            v1::Addresses::Unknown => Announced::Proxy,
        },
        HeaderResult::V2(Ok(header)) => match (header.command, header.addresses) {
            (v2::Command::Proxy, v2::Addresses::IPv4(of)) => {
                client(of.source_address.into(), of.source_port)
            }
            (v2::Command::Proxy, v2::Addresses::IPv6(of)) => {
                client(of.source_address.into(), of.source_port)
            }
            _ => Announced::Proxy,
        },
        HeaderResult::V1(Err(error)) => return Err(invalid(&error.to_string())),
        HeaderResult::V2(Err(error)) => return Err(invalid(&error.to_string())),
    })
}

fn client(ip: IpAddr, port: u16) -> Announced {
    Announced::Client(SocketAddr::new(ip, port))
}

/// The addresses and networks of the proxies whose connections begin with a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proxies(Vec<(IpAddr, u8)>);

impl Proxies {
    /// Parses addresses and networks such as `10.0.0.0/8`, separated by spaces.
    ///
    /// # Errors
    /// Returns an error that names the faulty word.
    pub(crate) fn parse(text: &str) -> Result<Proxies, String> {
        let network = |word: &str| {
            let (ip, length) = match word.split_once('/') {
                Some((ip, length)) => (ip, Some(length)),
                None => (word, None),
            };
            let ip: IpAddr = ip.parse().ok()?;
            let most = if ip.is_ipv4() { 32 } else { 128 };
            let length = length.map_or(Some(most), |length| length.parse().ok())?;
            (length <= most).then_some((ip, length))
        };
        let networks = text.split_whitespace().map(|word| {
            network(word).ok_or_else(|| {
                format!(
                    "proxy-protocol-sources '{word}': expected an address or a network such as 10.0.0.0/8"
                )
            })
        });
        networks.collect::<Result<_, _>>().map(Proxies)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an address, in the form of CLIENT LIST, is that of a proxy.
    pub(crate) fn contain(&self, address: &str) -> bool {
        let Ok(address) = address.parse::<SocketAddr>() else {
            return false;
        };
        let ip = address.ip().to_canonical();
        self.0.iter().any(|(network, length)| match (network, ip) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let hidden = 32 - u32::from(*length);
                (network.to_bits() ^ ip.to_bits())
                    .checked_shr(hidden)
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let hidden = 128 - u32::from(*length);
                (network.to_bits() ^ ip.to_bits())
                    .checked_shr(hidden)
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds bytes in parts of random lengths. Returns the number of bytes that belong to the header,
    /// and what it announces.
    fn feed(bytes: &[u8], random: &mut fastrand::Rng) -> Option<(usize, Announced)> {
        let (mut header, mut used) = (Header::default(), 0);
        while used < bytes.len() {
            let more = random.usize(1..=bytes.len() - used);
            used += header.take(&bytes[used..used + more]).ok()?;
            assert!(header.bytes.len() <= V2_MAX);
            if let Some(announced) = header.announced() {
                return Some((used, announced));
            }
        }
        None
    }

    #[test]
    fn parts_and_damage_change_no_result() {
        let seed = undercroft_testkit::fresh::seed();
        let mut random = fastrand::Rng::with_seed(seed);
        let address = |text: &str| Announced::Client(text.parse().expect("an address"));
        let v2 = |start: &[u8], rest: &[u8]| [V2_SIGNATURE, start, rest].concat();
        let headers = [
            (
                b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 6379\r\n".to_vec(),
                address("192.0.2.7:4711"),
            ),
            (
                b"PROXY TCP6 2001:db8::7 ::1 4711 6379\r\n".to_vec(),
                address("[2001:db8::7]:4711"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), Announced::Proxy),
            (
                v2(
                    b"\x21\x11\0\x0c",
                    b"\xc0\0\x02\x07\x0a\0\0\x01\x12\x67\x18\xeb",
                ),
                address("192.0.2.7:4711"),
            ),
            // A field that follows the addresses is ignored.
            (
                v2(
                    b"\x21\x11\0\x11",
                    b"\xc0\0\x02\x07\x0a\0\0\x01\x12\x67\x18\xeb\x04\0\x02ab",
                ),
                address("192.0.2.7:4711"),
            ),
            (v2(b"\x20\0\0\0", b""), Announced::Proxy),
        ];
        for (header, announced) in &headers {
            for _ in 0..100 {
                let bytes = [&header[..], b"*1\r\n$4\r\nPING\r\n"].concat();
                let found = feed(&bytes, &mut random);
                assert_eq!(found, Some((header.len(), *announced)), "{header:?}");
            }
        }
        for _ in 0..20_000 {
            let mut bytes = headers[random.usize(..headers.len())].0.clone();
            for _ in 0..random.usize(..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            bytes.extend((0..random.usize(..200)).map(|_| random.u8(..)));
            let whole = feed(&bytes, &mut random);
            assert_eq!(feed(&bytes, &mut random), whole, "{bytes:?}");
        }
        let endless = [&b"PROXY "[..], &[b'x'; 1000]].concat();
        assert_eq!(feed(&endless, &mut random), None);
    }

    #[test]
    fn networks_contain_their_addresses() {
        let proxies =
            Proxies::parse("10.1.0.0/16 192.0.2.7  2001:db8::/32 0.0.0.0/32").expect("sound");
        for (address, is_in) in [
            ("10.1.255.3:5", true),
            ("[::ffff:10.1.0.3]:5", true),
            ("10.2.0.3:5", false),
            ("192.0.2.7:1", true),
            ("192.0.2.8:1", false),
            ("[2001:db8:1::2]:1", true),
            ("[2001:db9::2]:1", false),
            ("/run/socket:0", false),
        ] {
            assert_eq!(proxies.contain(address), is_in, "{address}");
        }
        let all = Proxies::parse("0.0.0.0/0 ::/0").expect("sound");
        assert!(all.contain("9.9.9.9:1") && all.contain("[2::]:1"));
        for faulty in ["10.0.0.0/33", "x", "10.0.0.1/", "::/129"] {
            assert!(Proxies::parse(faulty).is_err(), "{faulty}");
        }
    }
}
