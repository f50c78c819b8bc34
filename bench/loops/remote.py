"""One client of a server, in a process that runs timed loops on request.

The arguments are the client, a server's unix socket and its port (or ``embedded``, a store's path
and 0). In each line ``OPERATION COUNT`` of standard input, the operation has three words: ``sync``
or the event loop ``asyncio`` or ``uvloop``; ``unix`` or ``tcp``; and the work. The answer is the
number of nanoseconds per call, or ``error`` and the reason if the client does not support the work.
Every operation opens a new client, warms it up outside the measured time, and checks the replies.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import asynchronous
from expected import FAR, KEY, MANY, NEAR, VALUE, Place, groups, repeated

# The number of GETs in one pipeline.
PIPELINE = 100


class Raw:
    """A bare socket that knows the length of each reply: the lower bound for all clients."""

    def __init__(self, place: Place) -> None:
        """Connect to the server."""
        if place.path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(place.path)
        else:
            self.socket = socket.create_connection((place.host, place.port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def asked(self, request: bytes, reply: bytes) -> Callable[[], bytes]:
        """Return a call that sends a request and receives a reply of known length."""
        send, receive, length = self.socket.sendall, self.socket.recv, len(reply)

        def ask() -> bytes:
            send(request)
            data = receive(65536)
            while len(data) < length:
                data += receive(65536)
            return data

        if ask() != reply:
            raise AssertionError("a wrong reply")
        return ask

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def raw_operations(work: str, place: Place) -> Callable[[int], float]:
    """Return the timed loop of a bare socket."""
    request, reply = {
        "get": (b"*2\r\n$3\r\nGET\r\n$16\r\n%b\r\n" % KEY, b"$64\r\n%b\r\n" % VALUE),
        "keys": (b"*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n", b"*1\r\n$16\r\n%b\r\n" % KEY),
    }[work.removesuffix("-pipeline")]
    many = PIPELINE if work.endswith("-pipeline") else 1
    raw = Raw(place)
    ask = raw.asked(request * many, reply * many)

    def run(count: int) -> float:
        taken = repeated(ask, groups(count, many)) / many
        raw.close()
        return taken

    return run


def sync_operations(make: Callable[..., Any], work: str, place: Place) -> Callable[[int], float]:
    """Return the timed loop of a client with redis-py's methods."""
    client = make(**place.options(FAR if work in MANY else NEAR))

    def pipeline() -> list[Any]:
        pipe = client.pipeline(transaction=False)
        for _ in range(PIPELINE):
            pipe.get(KEY)
        found: list[Any] = pipe.execute()
        return found

    call, check = {
        "get": (lambda: client.get(KEY), lambda found: found == VALUE),
        "keys": (client.keys, lambda found: found == [KEY]),
        "get-pipeline": (pipeline, lambda found: found == [VALUE] * PIPELINE),
        "many-keys": (client.keys, lambda found: len(found) == MANY["many-keys"]),
        "many-items": (
            lambda: client.lrange("list", 0, -1),
            lambda found: len(found) == MANY["many-items"],
        ),
        "long-value": (
            lambda: client.get("long"),
            lambda found: len(found) == MANY["long-value"],
        ),
    }[work]
    many = PIPELINE if work == "get-pipeline" else 1
    if not check(call()):
        raise AssertionError(f"a wrong reply: {work}")
    if work == "get":
        get = client.get  # time the client's own method, without a wrapper

        def get_again(count: int) -> float:
            start = time.perf_counter_ns()
            for _ in range(count):
                get(KEY)
            taken = (time.perf_counter_ns() - start) / count
            client.close()
            return taken

        return get_again

    def run(count: int) -> float:
        taken = repeated(call, groups(count, many)) / many
        client.close()
        return taken

    return run


def undercroft_client() -> Callable[..., Any]:
    """Return the constructor of Undercroft's client."""
    import undercroft
    from undercroft.remote.connection import NATIVE

    codec = "native" if NATIVE else "pure Python"
    print(f"undercroft {metadata.version('undercroft')}, {codec}", flush=True)
    return undercroft.Redis


def redis_client() -> Callable[..., Any]:
    """Return the constructor of redis-py's client, in the version of this environment."""
    import redis
    import redis.utils

    parser = "with hiredis" if redis.utils.HIREDIS_AVAILABLE else "with its own parser"
    print(f"redis-py {redis.__version__} {parser}", flush=True)
    return redis.Redis


def store_client(path: str) -> Callable[..., Any]:
    """Return the constructor of a client of an embedded store."""
    import undercroft

    print(f"undercroft {metadata.version('undercroft')}, embedded", flush=True)
    store = undercroft.Redis(path)
    store.set(KEY, VALUE)
    return lambda **_: store


def operations(client: str, path: str) -> Callable[[str, str, Place], Callable[[int], float]]:
    """Return a function that returns a client's timed loop for a flavor, a work and a place."""
    if client == "raw":
        print("a raw socket", flush=True)
        return lambda _, work, place: raw_operations(work, place)
    blocking = {
        "embedded": lambda: store_client(path),
        "undercroft": undercroft_client,
        "redis": redis_client,
    }
    make = blocking[client]() if client in blocking else None
    adapter = asynchronous.ADAPTERS.get(client)
    if make is None:
        name = asynchronous.DISTRIBUTIONS[client]
        print(f"{name} {metadata.version(name)}", flush=True)

    def timed(flavour: str, work: str, place: Place) -> Callable[[int], float]:
        if flavour == "sync":
            if make is None:
                raise ValueError(f"{client} has no blocking client")
            return sync_operations(make, work, place)
        if adapter is None:
            raise ValueError(f"{client} has no client for {flavour}")
        with_uvloop = flavour == "uvloop"

        def run(count: int) -> float:
            with asyncio.Runner(loop_factory=uvloop_factory() if with_uvloop else None) as runner:
                return runner.run(asynchronous.timed(adapter, work, place, count))

        return run

    return timed


def uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory of uvloop's event loop."""
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def main() -> None:
    """Answer one line at a time until standard input ends."""
    client, path, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    places = {"unix": Place(path=path), "tcp": Place(port=port)}
    make = operations(client, path)
    print("ready", flush=True)
    for line in sys.stdin:
        flavour, transport, work, count = line.split()
        try:
            print(make(flavour, work, places[transport])(int(count)), flush=True)
        except Exception as error:
            print("error", type(error).__name__, " ".join(str(error).split()), flush=True)


if __name__ == "__main__":
    main()
