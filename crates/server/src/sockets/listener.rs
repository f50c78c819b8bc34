//! Creates listening sockets: TCP sockets, and a Unix socket that other users can never connect to.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::Group;
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, getsockname,
    listen, socket_with, sockopt,
};

use crate::error::Error;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    /// The address in the form that clients see: `ip:port`, or the path of the Unix socket.
    pub(crate) name: String,
    /// Whether the socket is a Unix socket.
    is_unix: bool,
    /// The file of the Unix socket, or `None` for a TCP socket, and for a socket that a service manager
    /// has opened.
    pub(crate) published: Option<Arc<Published>>,
    /// Whether the connections are encrypted.
    pub(crate) is_encrypted: bool,
}

/// The file of a Unix socket. It is removed when the value is dropped, unless the file was
/// replaced.
#[derive(Debug)]
pub(crate) struct Published {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for Published {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Published {
    pub(crate) fn remove(&self) {
        let same = fs::symlink_metadata(&self.path)
            .is_ok_and(|status| (status.dev(), status.ino()) == (self.device, self.inode));
        if same {
            // The destructor cannot report a failure.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The users that can connect to a Unix socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketAccess {
    mode: u32,
    /// The group of the socket's file, or `None` for the group of the server.
    group: Option<u32>,
}

impl SocketAccess {
    /// Returns the access with the values of `unixsocketperm` and `unixsocketgroup`. Without a mode, only
    /// the server's user and the group can connect.
    pub(crate) fn new(mode: u32, group: &str) -> Result<SocketAccess, Error> {
        let fail = |error: io::Error| Error::new(format!("unixsocketgroup {group}"), error);
        let found = match group.is_empty() {
            true => None,
            false => match Group::from_name(group).map_err(|error| fail(error.into()))? {
                Some(found) => Some(found.gid.as_raw()),
                None => {
                    let text = "there is no group of this name";
                    return Err(fail(io::Error::new(io::ErrorKind::NotFound, text)));
                }
            },
        };
        let default = if found.is_some() { 0o660 } else { 0o600 };
        Ok(SocketAccess {
            mode: if mode == 0 { default } else { mode },
            group: found,
        })
    }
}

/// A connection that was just accepted.
pub(crate) struct Accepted {
    pub(crate) socket: OwnedFd,
    /// The address of the peer in the form that CLIENT LIST shows: `ip:port`, or `path:0` for a
    /// Unix socket.
    pub(crate) address: String,
    pub(crate) local_address: String,
    pub(crate) unix: bool,
    /// Whether the peer must begin a TLS handshake.
    pub(crate) is_encrypted: bool,
    /// Whether the peer is a proxy, which must announce its client.
    pub(crate) is_proxied: bool,
    /// Whether the peer is on this machine.
    pub(crate) local: bool,
}

impl Listener {
    /// Listens on an address from `bind`. Returns `None` if the address has a leading `-` and does
    /// not exist on this machine. `*` stands for all IPv4 addresses, and `::*` for all IPv6
    /// addresses.
    pub(crate) fn tcp(
        address: &str,
        (port, is_encrypted): (u16, bool),
        backlog: i32,
    ) -> Result<Option<Listener>, Error> {
        let (optional, name) = match address.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, address),
        };
        let result = resolve(name, port).and_then(|address| listen_on(address, backlog));
        match result {
            Ok(listener) => Ok(Some(Listener {
                is_encrypted,
                ..listener
            })),
            Err(error) if optional && is_missing(&error) => Ok(None),
            Err(error) => Err(Error::new(format!("listening on {name}:{port}"), error)),
        }
    }

    /// Listens on a Unix socket that the given users can connect to. The socket is bound in a directory that no other
    /// user can enter, and then moved to its path, so that other users can never connect. The
    /// socket of a dead server is replaced. Any other file at the path is an error.
    pub(crate) fn unix(
        path: &Path,
        access: &SocketAccess,
        backlog: i32,
    ) -> Result<Listener, Error> {
        let fail = |error: io::Error| Error::new(format!("listening on {}", path.display()), error);
        let path = &std::path::absolute(path).map_err(fail)?;
        refuse_taken(path).map_err(fail)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)
            .map_err(|error| fail(error.into()))?;
        let published = publish(&socket, path, access, backlog).map_err(fail)?;
        Ok(Listener {
            socket,
            name: path.display().to_string(),
            is_unix: true,
            published: Some(Arc::new(published)),
            is_encrypted: false,
        })
    }

    /// Takes a listening socket that a service manager has opened. Its file stays when the server ends.
    pub(crate) fn inherited(socket: OwnedFd, is_encrypted: bool) -> Result<Listener, Error> {
        let fail = |error: io::Error| Error::new("using a socket of the service manager", error);
        let refuse = |text: &str| fail(io::Error::new(io::ErrorKind::InvalidInput, text));
        if !sockopt::socket_acceptconn(&socket).map_err(|error| fail(error.into()))? {
            return Err(refuse(
                "expected a socket that listens; set Accept=no in the unit",
            ));
        }
        rustix::io::ioctl_fionbio(&socket, true).map_err(|error| fail(error.into()))?;
        let address = getsockname(&socket).map_err(|error| fail(error.into()))?;
        let tcp = SocketAddr::try_from(address.clone()).ok();
        let name = match (tcp, SocketAddrUnix::try_from(address)) {
            (Some(address), _) => address.to_string(),
            (None, Ok(_)) if is_encrypted => {
                return Err(refuse("connections of a Unix socket cannot be encrypted"));
            }
            (None, Ok(address)) => {
                let path = address.path_bytes().unwrap_or_default();
                String::from_utf8_lossy(path).into_owned()
            }
            (None, Err(error)) => return Err(fail(error.into())),
        };
        Ok(Listener {
            socket,
            name,
            is_unix: tcp.is_none(),
            published: None,
            is_encrypted,
        })
    }

    /// Returns the TCP port, or 0 for a Unix socket.
    pub(crate) fn port(&self) -> u16 {
        getsockname(&self.socket)
            .ok()
            .and_then(|address| SocketAddr::try_from(address).ok())
            .map_or(0, |address| address.port())
    }

    /// Accepts the next connection. Returns `None` if no client is waiting.
    pub(crate) fn accept(&self) -> io::Result<Option<Accepted>> {
        let (socket, peer) = match acceptfrom_with(&self.socket, FLAGS) {
            Ok(accepted) => accepted,
            // ECONNABORTED means that the client has disconnected. The next call accepts the next
            // client.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if self.is_unix {
            return Ok(Some(Accepted {
                socket,
                address: format!("{}:0", self.name),
                local_address: format!("{}:0", self.name),
                unix: true,
                is_encrypted: false,
                is_proxied: false,
                local: true,
            }));
        }
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let here = getsockname(&socket)
            .ok()
            .and_then(|address| SocketAddr::try_from(address).ok());
        let text = |address: Option<SocketAddr>| address.map_or("?:0".into(), |a| a.to_string());
        Ok(Some(Accepted {
            address: text(peer),
            local_address: text(here),
            unix: false,
            is_encrypted: self.is_encrypted,
            is_proxied: false,
            local: peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()),
            socket,
        }))
    }
}

fn resolve(name: &str, port: u16) -> io::Result<SocketAddr> {
    let ip = match name {
        "*" => IpAddr::from([0; 4]),
        "::*" => IpAddr::from([0; 16]),
        name => match name.parse() {
            Ok(ip) => ip,
            Err(_) => {
                let mut found = (name, port).to_socket_addrs()?;
                return found.next().ok_or_else(|| io::ErrorKind::NotFound.into());
            }
        },
    };
    Ok(SocketAddr::new(ip, port))
}

fn listen_on(address: SocketAddr, backlog: i32) -> io::Result<Listener> {
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let socket = socket_with(family, SocketType::STREAM, FLAGS, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, backlog)?;
    let bound = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok(Listener {
        socket,
        name: bound.to_string(),
        is_unix: false,
        published: None,
        is_encrypted: false,
    })
}

/// Returns whether the error means that the machine does not have the address or its address
/// family.
fn is_missing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [
        Errno::ADDRNOTAVAIL,
        Errno::AFNOSUPPORT,
        Errno::PROTONOSUPPORT,
        Errno::PFNOSUPPORT,
    ]
    .iter()
    .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Fails if a file exists at the path, unless it is the socket of a dead server.
fn refuse_taken(path: &Path) -> io::Result<()> {
    let status = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    if !status.file_type().is_socket() {
        let text = "expected a free path, found a file that is not a socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        _ => {
            let text = "another server is already listening there";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

/// Binds a socket in a private directory next to its path, and moves the socket to the path.
fn publish(
    socket: &OwnedFd,
    path: &Path,
    access: &SocketAccess,
    backlog: i32,
) -> io::Result<Published> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let private = parent.join(format!(".undercroft-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&private)?;
    let bound = bind_in(socket, (&private, path), access, backlog);
    // The directory is empty, unless moving the socket failed.
    let _ = fs::remove_file(private.join("s"));
    let removed = fs::remove_dir(&private);
    let published = bound?;
    removed?;
    Ok(published)
}

fn bind_in(
    socket: &OwnedFd,
    (private, path): (&Path, &Path),
    access: &SocketAccess,
    backlog: i32,
) -> io::Result<Published> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(private, flags, Mode::empty())?;
    // Bind the socket through the directory's descriptor, because the address of a Unix socket is
    // limited to 107 bytes.
    let address = format!("/proc/self/fd/{}/s", directory.as_raw_fd());
    bind(socket, &SocketAddrUnix::new(address)?)?;
    let file = private.join("s");
    if let Some(group) = access.group {
        std::os::unix::fs::chown(&file, None, Some(group)).map_err(|error| {
            let text = format!(
                "giving the socket to the group of unixsocketgroup: {error}; the server's user must be a \
                 member of it"
            );
            io::Error::new(error.kind(), text)
        })?;
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(access.mode))?;
    let status = fs::symlink_metadata(&file)?;
    listen(socket, backlog)?;
    fs::rename(&file, path)?;
    Ok(Published {
        path: path.to_owned(),
        device: status.dev(),
        inode: status.ino(),
    })
}

/// Sets the options of an accepted connection. Skips options that the system refuses.
pub(crate) fn tune(socket: &OwnedFd, unix: bool, keepalive_seconds: i64) {
    if unix {
        return;
    }
    let _ = sockopt::set_tcp_nodelay(socket, true);
    if let Ok(seconds @ 1..) = u64::try_from(keepalive_seconds) {
        let _ = sockopt::set_socket_keepalive(socket, true);
        let _ = sockopt::set_tcp_keepidle(socket, Duration::from_secs(seconds));
        let interval = Duration::from_secs((seconds / 3).max(1));
        let _ = sockopt::set_tcp_keepintvl(socket, interval);
        let _ = sockopt::set_tcp_keepcnt(socket, 3);
    }
}
