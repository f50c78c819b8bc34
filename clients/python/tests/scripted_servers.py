"""Servers whose answers a test scripts, and clients that send only the test's commands."""

import inspect
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import redis
import undercroft
from redis.backoff import NoBackoff
from redis.retry import Retry


@contextmanager
def scripted(
    *answers: Callable[[socket.socket], None], listener: socket.socket | None = None
) -> Iterator[Any]:
    """Serve one connection after another, each with one function, and yield the address."""
    if listener is None:
        listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            try:
                connection, _ = listener.accept()
            except OSError:  # no other client connects
                return
            with connection:
                answer(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def plain(address: tuple[str, int] | str, retries: int = 0, **options: Any) -> Any:
    """Return a client that sends a server only the test's commands."""
    known = inspect.signature(redis.Redis.__init__).parameters
    named = "driver_info" in known
    silent = {"driver_info": None} if named else {"lib_name": None, "lib_version": None}
    if isinstance(address, str):
        place: dict[str, Any] = {"unix_socket_path": address}
    else:
        place = dict(zip(("host", "port"), address, strict=True))
    retry = Retry(NoBackoff(), retries)
    return undercroft.Redis(protocol=2, retry=retry, **place, **silent, **options)


def whole(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"$5\r\nwhole\r\n")


class Told(Exception):  # noqa: N818
    """The exception that interrupts a call."""


def tell(*_: object) -> None:
    raise Told


def late(connection: socket.socket) -> None:
    connection.recv(100)  # the next command, unless the client has disconnected
    with suppress(OSError):
        connection.sendall(b"$4\r\nlate\r\n$4\r\nlate\r\n")
