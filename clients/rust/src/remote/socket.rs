//! Implements TCP, Unix and TLS sockets.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::address::{Place, Tls};
use crate::remote::both::is_quiet;
#[cfg(not(feature = "tls"))]
use crate::remote::both::no_encryption;

/// A socket that is connected to a server.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Socket {
    pub(crate) async fn connect(place: &Place) -> io::Result<Socket> {
        match place {
            Place::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path).await?)),
            Place::Tcp { host, port, tls } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                // Disable Nagle's algorithm, because commands are already batched here.
                stream.set_nodelay(true)?;
                match tls {
                    None => Ok(Socket::Tcp(stream)),
                    Some(tls) => Socket::encrypt(host, tls, stream).await,
                }
            }
        }
    }

    /// Returns whether neither data nor the end of the stream has arrived. Asks the kernel, because
    /// the runtime notices input only when it polls.
    pub(crate) fn is_quiet(&self) -> bool {
        let (socket, is_plain) = match self {
            Socket::Tcp(stream) => (stream.as_fd(), true),
            Socket::Unix(stream) => (stream.as_fd(), true),
            // On an encrypted socket, received bytes may belong to the TLS protocol.
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => (stream.get_ref().0.as_fd(), false),
        };
        is_quiet(socket, is_plain)
    }

    /// Returns whether the socket is unencrypted, so that all received bytes belong to replies.
    pub(crate) fn is_plain(&self) -> bool {
        match self {
            Socket::Tcp(_) | Socket::Unix(_) => true,
            #[cfg(feature = "tls")]
            Socket::Tls(_) => false,
        }
    }

    /// Receives the available bytes with a system call, bypassing the runtime. Returns `None` if
    /// nothing has arrived, or if the socket is encrypted.
    pub(crate) fn receive_now(&self, room: &mut [u8]) -> Option<io::Result<usize>> {
        let socket = match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Socket::Tls(_) => return None,
        };
        match recv(socket, room, RecvFlags::DONTWAIT) {
            Ok((count, _)) => Some(Ok(count)),
            Err(Errno::WOULDBLOCK | Errno::INTR) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    #[cfg(feature = "tls")]
    async fn encrypt(host: &str, tls: &Tls, stream: TcpStream) -> io::Result<Socket> {
        let authorities = tls.authorities.as_deref();
        let stream = super::tls::connect(host, authorities, stream).await?;
        Ok(Socket::Tls(Box::new(stream)))
    }

    #[cfg(not(feature = "tls"))]
    async fn encrypt(_: &str, _: &Tls, _: TcpStream) -> io::Result<Socket> {
        Err(no_encryption())
    }
}

/// Calls a method of the stream in a socket of any kind.
macro_rules! of_each {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
            #[cfg(feature = "tls")]
            Socket::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_each!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, room))
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        of_each!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
