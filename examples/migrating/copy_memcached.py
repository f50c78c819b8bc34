"""Copies the items of a Memcached server into a store, and back.

    python copy_memcached.py import 127.0.0.1:11211 undercroft://cache
    python copy_memcached.py import cache1:11211 cache2:11211 undercroft://cache
    python copy_memcached.py export undercroft://cache 127.0.0.1:11211

An item becomes a string that expires at the same time. The server must be Memcached 1.4.31 or newer
and have an LRU crawler, which lists the keys (`lru_crawler metadump all`). Clients encode values
that are not bytes and mark them with flags, which a store does not have. The import therefore stops
at an item with flags, unless `--ignore-flags` is given: the program must then decode the values.

The copy shows no single moment: an item that changes in the meantime is copied in its old or its
new state. The script needs no client library for Memcached.
"""

import argparse
import socket
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

import redis
import undercroft

BATCH = 100
LONGEST_KEY = 250


class Server:
    """A connection that speaks Memcached's text protocol."""

    def __init__(self, address: str) -> None:
        """Connect to `HOST:PORT` or to the path of a unix socket."""
        try:
            if "/" in address:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(address)
            else:
                host, _, port = address.rpartition(":")
                self.socket = socket.create_connection((host, int(port)))
        except (OSError, ValueError) as error:
            raise SystemExit(f"cannot connect to {address}, expected HOST:PORT: {error}") from None
        self.replies: BinaryIO = self.socket.makefile("rb")

    def line(self) -> bytes:
        """Return the next line of a reply."""
        line = self.replies.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("Memcached closed the connection; look into its log")
        return line.rstrip()

    def keys(self) -> Iterator[tuple[bytes, int]]:
        """Yield each key and its expiry in Unix seconds, or -1."""
        self.socket.sendall(b"lru_crawler metadump all\r\n")
        while (line := self.line()) != b"END":
            if not line.startswith(b"key="):
                raise ConnectionError(f"Memcached cannot list its keys: {line.decode()}")
            fields = dict(field.split(b"=", 1) for field in line.split())
            yield unquote_to_bytes(fields[b"key"]), int(fields[b"exp"])

    def get(self, keys: list[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield the key, the flags and the value of each item that still exists."""
        self.socket.sendall(b"get " + b" ".join(keys) + b"\r\n")
        while (line := self.line()) != b"END":
            _, key, flags, length = line.split()
            value = self.replies.read(int(length))
            self.line()
            yield key, int(flags), value

    def set(self, key: bytes, value: bytes, expiry: int) -> bytes:
        """Store an item that expires at a time in Unix seconds, or never; return the reply."""
        head = b"set %b 0 %d %d\r\n" % (key, expiry, len(value))
        self.socket.sendall(head + value + b"\r\n")
        return self.line()


def connect(url: str) -> Any:
    """Open a store, or connect to a server."""
    return undercroft.Redis.from_url(url)


def run_import(addresses: list[str], url: str, ignore_flags: bool) -> str:
    """Copy the items of servers into an empty store, and return a summary."""
    count = gone = 0
    with connect(url) as r, r.pipeline(transaction=False) as pipe:
        if present := r.dbsize():
            raise SystemExit(f"{url} already has {present} keys; name an empty store")
        for server in map(Server, addresses):
            expiries = dict(server.keys())
            found = iter(expiries)
            while batch := list(islice(found, BATCH)):
                items = list(server.get(batch))
                gone += len(batch) - len(items)
                for key, flags, value in items:
                    if flags and not ignore_flags:
                        raise SystemExit(f"{key!r} has the flags {flags}; use --ignore-flags")
                    expiry = expiries[key]
                    pipe.set(key, value, exat=expiry if expiry > 0 else None)
                pipe.execute()
                count += len(items)
    return f"imported {count} items; {gone} expired or were removed in the meantime"


def refusal(key: bytes, kind: bytes) -> str | None:
    """Return why Memcached cannot have a key, if it cannot."""
    if kind != b"string":
        return f"is a {kind.decode()}"
    if len(key) > LONGEST_KEY:
        return f"is longer than {LONGEST_KEY} bytes"
    if any(byte <= 32 or byte == 127 for byte in key):
        return "contains white space or control characters"
    return None


def run_export(url: str, address: str) -> str:
    """Copy the strings of a store to a server, and return a summary."""
    server, count = Server(address), 0
    left_out = []
    with connect(url) as r:
        for key in set(r.scan_iter(count=1000)):
            kind, expiry = r.type(key), r.pexpiretime(key)
            if (why := refusal(key, kind)) is None:
                if (value := r.get(key)) is None:
                    continue  # Expired in the meantime.
                # Rounded up to a second. Memcached treats 0 as no expiry.
                reply = server.set(key, value, -(-expiry // 1000) if expiry > 0 else 0)
                if reply == b"STORED":
                    count += 1
                    continue
                why = f"was refused: {reply.decode()}"
            if kind != b"none":
                left_out.append((key, why))
    summary = f"exported {count} keys"
    if left_out:
        key, why = left_out[0]
        summary += f"\nkeys left out: {len(left_out)}, such as {key[:80]!r}, which {why}"
    return summary


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    read = commands.add_parser("import", help="fill an empty store")
    read.add_argument("server", nargs="+", help="HOST:PORT, or the path of a unix socket")
    read.add_argument("url", help="undercroft://NAME, or the URL of a Redis server")
    read.add_argument("--ignore-flags", action="store_true")
    write = commands.add_parser("export", help="fill a Memcached server")
    write.add_argument("url", help="undercroft://NAME, or the URL of a Redis server")
    write.add_argument("server", help="HOST:PORT, or the path of a unix socket")
    given = parser.parse_args()
    try:
        if given.command == "import":
            print(run_import(given.server, given.url, given.ignore_flags))
        else:
            print(run_export(given.url, given.server))
    except (OSError, redis.RedisError) as error:
        sys.exit(f"copy_memcached.py: {error}")


if __name__ == "__main__":
    main()
