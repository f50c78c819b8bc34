"""Run the commands of connections with a client each, so that the conformance cases test it.

conform through conformance/clients/python.txt .venv/bin/python clients/python/tests/bridge.py
"""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any, BinaryIO

import redis
import undercroft
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ExecAbortError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

# The codes of errors for which redis-py has classes. It removes them from the texts.
CODES: dict[type[Exception], bytes] = {
    ResponseError: b"ERR ",
    AuthenticationError: b"WRONGPASS ",
    BusyLoadingError: b"LOADING ",
    ExecAbortError: b"EXECABORT ",
    NoPermissionError: b"NOPERM ",
    NoScriptError: b"NOSCRIPT ",
    OutOfMemoryError: b"OOM ",
    ReadOnlyError: b"READONLY ",
}


def read_command(stream: BinaryIO) -> list[bytes] | None:
    """Read a command. Return None at the end of the connection."""
    first = stream.readline()
    if not first:
        return None
    words = []
    for _ in range(int(first[1:])):
        length = int(stream.readline()[1:])
        words.append(stream.read(length))
        stream.read(2)
    return words


def encoded(value: Any) -> bytes:
    """Return a value in RESP2."""
    match value:
        case None:
            return b"$-1\r\n"
        case bool() | int():
            return b":%d\r\n" % value
        case float():
            return encoded(repr(value).encode())
        case str():
            return encoded(value.encode())
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(value), value)
        case Exception():
            text = str(value).encode("utf-8", "surrogateescape")
            code = CODES.get(type(value), b"")
            return b"-%b%b\r\n" % (b"" if text.split(b" ")[0].isupper() else code, text)
        case dict():
            return encoded([part for pair in value.items() for part in pair])
        case list() | tuple() | set():
            return b"*%d\r\n%b" % (len(value), b"".join(map(encoded, value)))
    raise TypeError(f"expected a reply, got {value!r}")


def serve(path: str, connection: socket.socket) -> None:
    """Run the commands of one connection."""
    client = undercroft.Redis.from_url(f"undercroft://{path}", single_connection_client=True)
    client.response_callbacks.clear()
    with connection, connection.makefile("rb") as stream:
        while words := read_command(stream):
            try:
                reply = client.execute_command(*words)
            except redis.RedisError as error:
                reply = error
            connection.sendall(encoded(reply))
    client.close()


def main() -> None:
    """Accept connections for ever."""
    path, name = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        listening.listen(100)
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=serve, args=(path, connection), daemon=True).start()


if __name__ == "__main__":
    main()
