"""The clients of a server that the table `python` compares, each in a process of its own."""

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.turns import Loop, interleaved, loop

# As loops/expected.py has them.
KEY, VALUE = b"key:000000000001", b"v" * 64
MANY_KEYS, MANY_ITEMS, LONG_VALUE = 30_000, 10_000, 10_000_000


@dataclasses.dataclass(frozen=True)
class Client:
    """A client: where it is installed, what runs it, and what it can do."""

    id: str
    kind: str
    flavours: tuple[str, ...]
    # The requirements of its environment; None is the one that this runs in.
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
REMARKS = (
    "valkey-glide is measured over TCP only: it has no unix sockets; its own threads are on the "
    "client's core, too",
    "aredis passes `loop` arguments that Python 3.10 removed; they are dropped for it",
    "asyncio-redis has no pipelines",
    "of calls at once redis.asyncio and aredis make each on a connection of its own, all others "
    "share one: each client's own way, where redis.asyncio is allowed 2,000 connections",
)


@dataclasses.dataclass(frozen=True)
class Side:
    """One client with an event loop or none, over one kind of socket."""

    client: str
    flavour: str
    transport: str


class Clients:
    """The clients that could be started, beside a server."""

    def __init__(self, bench: Bench, server: peers.Server) -> None:
        """Begin with none."""
        self.bench = bench
        self.server = server
        self.running: dict[str, Loop] = {}
        self.left_out: dict[str, str] = {}

    def label(self, side: Side) -> str:
        """Return what a client is called in the table."""
        name = self.running[side.client].about
        return name if side.flavour == "sync" else f"{name} on {side.flavour}"

    def sides(self, flavours: Iterable[str], transport: str, pipelines: bool = False) -> list[Side]:
        """Return all that can be measured with these event loops over this kind of socket."""
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
        """Return the nanoseconds of each round; who cannot do it, or fails in one, is left out."""
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
        """Return the nanoseconds of one; None, and a remark, where it fails."""
        running = self.running[side.client]
        try:
            return running.run(f"{side.flavour} {side.transport} {work}", count)
        except (RuntimeError, BrokenPipeError) as error:
            what = f"{running.about}, {work} over {side.transport}, {side.flavour}"
            self.left_out[what] = self.bench.without_places(error)
            return None

    def remarks(self) -> str:
        """Return what there is to say of who is measured, and who is not."""
        left = [f"{name} is left out: {why}" for name, why in self.left_out.items()]
        return "; ".join([*REMARKS, *left]) + "."


@contextlib.contextmanager
def clients(bench: Bench) -> Iterator[Clients]:
    """Run a filled server, and all clients that can be installed, until the block ends."""
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
    """Return the Python of an environment with these requirements."""
    return sys.executable if requirements is None else peers.environment(requirements)


def fill(server: peers.Server) -> None:
    """Put a single key into database 0, and large things into database 1."""
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
