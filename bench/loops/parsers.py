"""Time parsers without a connection, on replies in memory that arrive in pieces as from a socket.

The answer to each line ``PARSER REPLY COUNT`` of standard input is the number of nanoseconds per
reply.
"""

import sys
from collections.abc import Callable
from typing import Any

from expected import MANY, repeated

# The maximum number of bytes that clients request from a socket in one call.
PIECE = 65536


def bulk(text: bytes) -> bytes:
    """Return text as a bulk string in Redis' wire format."""
    return b"$%d\r\n%b\r\n" % (len(text), text)


def replies() -> dict[str, tuple[bytes, Any]]:
    """Return the replies by name, each in the wire format and as a parsed value."""
    keys = [b"key:%012d" % number for number in range(MANY["many-keys"])]
    items = [b"%011dz" % number for number in range(MANY["many-items"])]
    arrays = {"many-keys": keys, "many-items": items}
    found: dict[str, tuple[bytes, Any]] = {
        name: (b"*%d\r\n" % len(texts) + b"".join(bulk(text) for text in texts), texts)
        for name, texts in arrays.items()
    }
    long = b"v" * MANY["long-value"]
    found["long-value"] = bulk(long), long
    return found


def pieces(reply: bytes) -> list[bytes]:
    """Split a reply into pieces, like those that a socket returns."""
    return [reply[at : at + PIECE] for at in range(0, len(reply), PIECE)]


def fed(reader: Any, missing: object) -> Callable[[list[bytes]], Any]:
    """Return a parse function for a reader with ``feed``, such as Undercroft's and hiredis."""
    feed, gets = reader.feed, reader.gets

    def parse(reply: list[bytes]) -> Any:
        found = missing
        for piece in reply:
            feed(piece)
            found = gets()
        return found

    return parse


def native() -> Callable[[list[bytes]], Any]:
    """Return a parse function that uses Undercroft's parser in Rust."""
    from redis.exceptions import ResponseError
    from undercroft._native import Wire
    from undercroft.remote.resp import MISSING

    return fed(Wire(ResponseError), MISSING)


def pure() -> Callable[[list[bytes]], Any]:
    """Return a parse function that uses Undercroft's parser in Python."""
    from redis.exceptions import ResponseError
    from undercroft.remote.resp import MISSING, Reader

    return fed(Reader(None, "strict", ResponseError), MISSING)


def hiredis_reader() -> Callable[[list[bytes]], Any]:
    """Return a parse function that uses hiredis, redis-py's parser in C."""
    import hiredis

    return fed(hiredis.Reader(notEnoughData=hiredis), hiredis)


class Socket:
    """A fake socket from which redis-py's own parser reads the pieces of a reply."""

    def __init__(self) -> None:
        """Start with no pieces to return."""
        self.rest: list[bytes] = []

    def recv(self, _: int) -> bytes:
        """Return the next piece of the reply."""
        return self.rest.pop()

    def settimeout(self, _: object) -> None:
        """Do nothing: this socket never waits."""


def redis_py() -> Callable[[list[bytes]], Any]:
    """Return a parse function that uses redis-py's own parser in Python."""
    from redis._parsers import Encoder, _RESP2Parser

    class Connection:
        _sock = Socket()
        encoder = Encoder("utf-8", "strict", decode_responses=False)
        socket_timeout = None

    parser = _RESP2Parser(PIECE)
    parser.on_connect(Connection())
    sock, read = Connection._sock, parser.read_response

    def parse(reply: list[bytes]) -> Any:
        sock.rest = reply[::-1]
        return read(disable_decoding=True)

    return parse


PARSERS = {"native": native, "pure": pure, "hiredis": hiredis_reader, "redis-py": redis_py}


def main() -> None:
    """Answer one line at a time until standard input ends."""
    parsers = {name: PARSERS[name]() for name in sys.argv[1:]}
    cut = {}
    for name, (reply, value) in replies().items():
        cut[name] = pieces(reply)
        for parser, parse in parsers.items():
            if parse(cut[name]) != value:
                raise AssertionError(f"{parser} gives something else for {name}")
    print("ready", flush=True)
    for line in sys.stdin:
        parser, name, count = line.split()
        parse, reply = parsers[parser], cut[name]
        print(repeated(lambda parse=parse, reply=reply: parse(reply), int(count)), flush=True)


if __name__ == "__main__":
    main()
