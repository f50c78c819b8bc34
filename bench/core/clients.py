"""Run the clients that the table `python` compares, each in its own process."""

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.turns import Loop, interleaved, loop

# Keep these values equal to those in loops/expected.py.
KEY, VALUE = b"key:000000000001", b"v" * 64
MANY_KEYS, MANY_ITEMS, LONG_VALUE = 30_000, 10_000, 10_000_000


@dataclasses.dataclass(frozen=True)
class Client:
    """A client of the table `python`: its environment, its loop, and what it supports."""

    id: str
    kind: str
    flavours: tuple[str, ...]
    # The name of a file in requirements/; None means the environment of this process.
    requirements: str | None = None
    pure: bool = False
    transports: tuple[str, ...] = ("unix", "tcp")
    pipelines: bool = True


BLOCKING = ("sync",)
LOOPS = ("asyncio", "uvloop")
ALL = (*BLOCKING, *LOOPS)
CLIENTS = (
    Client("raw", "raw", BLOCKING),
    Client("undercroft", "undercroft", ALL),
    Client("undercroft-pure", "undercroft", ALL, pure=True),
    Client("redis-5.2", "redis", ALL, "redis-5.2"),
    Client("redis-newest", "redis", ALL, "redis-newest"),
    Client("redis-newest-hiredis", "redis", ALL),
    Client("glide", "glide", LOOPS, "glide", transports=("tcp",)),
    Client("coredis", "coredis", LOOPS, "coredis"),
    Client("aredis", "aredis", LOOPS, "aredis"),
    Client("aioredis", "aioredis", LOOPS, "aioredis"),
    Client("asyncio-redis", "asyncio-redis", LOOPS, "asyncio-redis", pipelines=False),
)


@dataclasses.dataclass(frozen=True)
class Side:
    """One measured combination: a client, its event loop or ``sync``, and a kind of socket."""

    client: str
    flavour: str
    transport: str


class Clients:
    """The running clients, their server, and the reasons why other clients are excluded."""

    def __init__(self, bench: Bench, server: peers.Server) -> None:
        """Start with no running clients."""
        self.bench = bench
        self.server = server
        self.running: dict[str, Loop] = {}
        self.left_out: dict[str, str] = {}

    def label(self, side: Side) -> str:
        """Return the name of a side in the table: the client's version and its event loop."""
        name = self.running[side.client].about
        return name if side.flavour == "sync" else f"{name} on {side.flavour}"

    def sides(self, flavours: Iterable[str], transport: str, pipelines: bool = False) -> list[Side]:
        """Return all sides that support one of these event loops and this kind of socket."""
        return [
            Side(client.id, flavour, transport)
            for flavour in flavours
            for client in CLIENTS
            if client.id in self.running
            and flavour in client.flavours
            and transport in client.transports
            and (client.pipelines or not pipelines)
        ]

    def measure(
        self, sides: Iterable[Side], work: str, count: int, rounds: int
    ) -> dict[Side, list[float]]:
        """Return each side's nanoseconds per round; a side that fails once is excluded."""
        able = [side for side in sides if self._run(side, work, 1) is not None]
        found = interleaved(
            rounds, {side: lambda side=side: self._run(side, work, count) for side in able}
        )
        return {
            side: [value for value in values if value is not None]
            for side, values in found.items()
            if None not in values
        }

    def _run(self, side: Side, work: str, count: int) -> float | None:
        """Return the nanoseconds of one call, or None and record the reason if the client fails."""
        running = self.running[side.client]
        try:
            return running.run(f"{side.flavour} {side.transport} {work}", count)
        except (RuntimeError, BrokenPipeError) as error:
            what = f"{running.about}, {work} over {side.transport}, {side.flavour}"
            self.left_out[what] = self.bench.without_places(error)
            return None

    def remarks(self) -> str:
        """Return a note that lists the excluded clients and the reasons."""
        return " ".join(f"Left out: {name}: {why}." for name, why in self.left_out.items())


@contextlib.contextmanager
def clients(bench: Bench) -> Iterator[Clients]:
    """Run a filled redis-server and every client that can be installed until the block ends."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(peers.redis_server(bench.directory(), tcp=True))
        fill(server)
        found = Clients(bench, server)
        for client in CLIENTS:
            where = [client.kind, server.path, str(server.port)]
            pure = {"UNDERCROFT_PURE": "1"} if client.pure else None
            try:
                found.running[client.id] = stack.enter_context(
                    loop(python(client.requirements), *where, script="remote.py", environment=pure)
                )
            except subprocess.CalledProcessError:
                found.left_out[client.id] = "it could not be installed"
            except RuntimeError as error:
                found.left_out[client.id] = bench.without_places(error)
        yield found


def python(requirements: str | None) -> Path | str:
    """Return the Python interpreter of an environment with these requirements."""
    return sys.executable if requirements is None else peers.environment(requirements)


def fill(server: peers.Server) -> None:
    """Set one key in database 0, and many keys, a list and a long string in database 1."""
    with server.connect() as connection, connection.makefile("rb") as replies:

        def done(*commands: bytes) -> None:
            connection.sendall(b"".join(commands))
            for _ in commands:
                if not (reply := replies.readline()).startswith((b"+OK", b":")):
                    raise RuntimeError(f"{server.name}: expected +OK or an integer, got {reply!r}")

        done(peers.command(b"SET", KEY, VALUE), peers.command(b"SELECT", b"1"))
        items = [b"%011dz" % number for number in range(MANY_ITEMS)]
        done(peers.command(b"RPUSH", b"list", *items))
        done(peers.command(b"SET", b"long", b"v" * LONG_VALUE))
        keys = [b"key:%012d" % number for number in range(MANY_KEYS - 2)]
        for at in range(0, len(keys), 1000):
            done(*[peers.set_command(key, b"v") for key in keys[at : at + 1000]])
