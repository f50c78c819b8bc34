"""Rows of sorted sets, hashes and sets through the server, compared with redis-server."""

import dataclasses
from collections.abc import Callable, Iterator

from core import peers
from core.bench import Bench
from core.peers import Server, command
from core.report import Figure, Row

from rows.languages.native import PAGE, PAGE_DESCRIPTOR
from rows.servers import served

MEMBERS = 1_000_000
FIELDS = (b"name", b"mail", b"city", b"born", b"points")
PIPELINE = 16
# redis-benchmark replaces this word with a number of 12 digits below MEMBERS.
CHANCE = "__rand_int__"


@dataclasses.dataclass
class Kind:
    """A type of values: its commands, its requests, and its memory target relative to Redis."""

    name: str
    what: str
    each: str
    fill: Callable[[], Iterator[bytes]]
    memory: float
    # The command of each named request, and the number of requests per round.
    work: dict[str, tuple[str, int]]


def _sorted_set() -> Iterator[bytes]:
    for at in range(0, MEMBERS, 100):
        pairs = (part for n in range(at, at + 100) for part in (b"%d" % n, b"m:%012d" % n))
        yield command(b"ZADD", b"zset", *pairs)


def _hash() -> Iterator[bytes]:
    for at in range(0, MEMBERS, 100):
        pairs = (part for n in range(at, at + 100) for part in (b"f:%012d" % n, b"v:%012d" % n))
        yield command(b"HSET", b"hash", *pairs)


def _set() -> Iterator[bytes]:
    for at in range(0, MEMBERS, 100):
        yield command(b"SADD", b"set", *(b"m:%012d" % n for n in range(at, at + 100)))


def _small_hashes() -> Iterator[bytes]:
    for number in range(MEMBERS):
        values = (
            b"name %d" % number,
            b"%d@example.org" % number,
            b"Heidelberg",
            b"1987",
            b"%d" % (number % 1000),
        )
        pairs = (part for pair in zip(FIELDS, values, strict=True) for part in pair)
        yield command(b"HSET", b"user:%d" % number, *pairs)


MIDDLE = f"{MEMBERS // 2} {MEMBERS // 2 + 99}"
KINDS = [
    Kind(
        "zset",
        f"a sorted set of {MEMBERS:,} members",
        "member",
        _sorted_set,
        0.7,
        {
            "ZRANGE of 100": (f"ZRANGE zset {MIDDLE}", 20_000),
            "ZRANK": (f"ZRANK zset m:{CHANCE}", 150_000),
            "ZRANGEBYSCORE of 100": (f"ZRANGEBYSCORE zset {MIDDLE}", 20_000),
            "ZADD of an existing member": (f"ZADD zset {CHANCE} m:{CHANCE}", 100_000),
        },
    ),
    Kind(
        "hash",
        f"a hash of {MEMBERS:,} fields",
        "field",
        _hash,
        0.75,
        {
            "HGET": (f"HGET hash f:{CHANCE}", 200_000),
            "HSET of an existing field": (f"HSET hash f:{CHANCE} v:{CHANCE}", 200_000),
        },
    ),
    Kind(
        "set",
        f"a set of {MEMBERS:,} members",
        "member",
        _set,
        0.75,
        {
            "SISMEMBER": (f"SISMEMBER set m:{CHANCE}", 200_000),
            "SADD of an existing member": (f"SADD set m:{CHANCE}", 200_000),
        },
    ),
    Kind("small-hashes", f"{MEMBERS:,} hashes of five fields", "hash", _small_hashes, 0.8, {}),
]


def rows(bench: Bench) -> list[Row]:
    """Measure the CPU time per request and the memory of each type."""
    missing = peers.has("redis-server", "redis-benchmark", "taskset")
    found = []
    for kind in KINDS:
        memory = Row(
            id=f"memory-{kind.name}",
            work=f"memory per {kind.each} of {kind.what}",
            at_most=kind.memory,
        )
        work = {
            words: Row(
                id=f"server-{kind.name}-{words.split()[0].lower()}",
                work=f"server {name}, {kind.what}, -P {PIPELINE}: CPU time per request",
                at_most=0.7,
            )
            for name, (words, _) in kind.work.items()
        }
        found += [*work.values(), memory]
        if missing:
            for row in (*work.values(), memory):
                row.note = missing
            continue
        with served.both(bench) as servers:
            _fill(kind, servers, memory)
            for words, count in kind.work.values():
                requests = bench.pick(count // 5, count)
                options = ["-c", "50", "-P", str(PIPELINE), "-r", str(MEMBERS), *words.split()]
                loads = served.take_turns(servers, bench.pick(2, 4), requests, options)
                served.fill_in(None, work[words], loads)
    return found


def taken(server: Server) -> float:
    """Return the bytes of memory that a server's data takes in total."""
    memory = server.info("memory")
    if "store_free" not in memory:
        return float(memory["used_memory"])
    granted = int(memory["used_memory_rss"]) - int(memory["store_free"])
    return granted * (1 + PAGE_DESCRIPTOR / PAGE)


def _fill(kind: Kind, servers: list[Server], row: Row) -> None:
    figures = []
    for server in servers:
        before = taken(server)
        server.run(kind.fill())
        each = (taken(server) - before) / MEMBERS
        figures.append(Figure("redis-server used_memory", each, each, each, "bytes"))
    row.ours, row.peer = figures
    row.ratio = row.ours.median / row.peer.median
