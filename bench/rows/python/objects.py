"""Rows of arrays and mixed values passed between processes, compared with other methods."""

import contextlib
import dataclasses
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from core import peers
from core.bench import Bench
from core.report import Figure, Grid, Row
from core.turns import Loop, interleaved, loop

# The lengths of float64 arrays, each with the number of repetitions per round (quick, full).
SIZES = {1: (300, 1_000), 1_024: (300, 1_000), 65_536: (40, 100), 3_145_728: (3, 8)}
LARGEST = 25_165_824

STATISTICS = ("min", "median", "max", "95th percentile", "standard deviation")
# The memory limit of plasma's store in bytes.
PLASMA_MEMORY = 2 << 30


@dataclasses.dataclass
class Times:
    """The microseconds of all repetitions of one method of passing objects."""

    put: list[float]
    take: list[float]
    whole: list[float]

    @classmethod
    def of(cls, rounds: list[list[list[int]]]) -> "Times":
        """Return the times of all rounds, which the loops report in nanoseconds."""
        every = list(itertools.chain.from_iterable(rounds))
        return cls(*([each[part] / 1e3 for each in every] for part in range(3)))

    def figures(self) -> list[float | None]:
        """Return minimum, median, maximum, 95th percentile and standard deviation of the total."""
        whole = sorted(self.whole)
        return [
            whole[0],
            statistics.median(whole),
            whole[-1],
            whole[min(len(whole) - 1, len(whole) * 95 // 100)],
            statistics.pstdev(whole),
        ]


def rows(bench: Bench) -> list[Row | Grid]:
    """Measure put and take of arrays and mixed dictionaries, singly and in groups of ten."""
    if missing := peers.has("redis-server", "taskset"):
        return [Row(id="objects", work="objects", note=missing)]
    found: list[Row | Grid] = []
    with _sides(bench) as sides:
        for size, counts in SIZES.items():
            for batch in (1, 10):
                times = _measure(
                    bench, sides, f"array-{size}-{batch}", max(1, bench.pick(*counts) // batch)
                )
                found.append(_grid(f"{size:,} float64, batch of {batch}", times))
                found += _small(size, batch, times) if size < 65_536 else []
                found += [_middle(batch, times)] if size == 65_536 else []
                found += _large(bench, sides, times) if size == 3_145_728 and batch == 1 else []
        times = _measure(bench, sides, f"array-{LARGEST}-1", 1)
        found.append(_grid(f"{LARGEST:,} float64, batch of 1", times))
        for number in (1, 2):
            for batch in (1, 10):
                times = _measure(
                    bench, sides, f"mixed-{number}-{batch}", bench.pick(20, 100) // batch or 2
                )
                found.append(_grid(f"mixed dictionary {number}, batch of {batch}", times))
    return found


@contextlib.contextmanager
def _sides(bench: Bench) -> Iterator[dict[str, Loop]]:
    """Start the servers, and a loop for every method of passing objects."""
    python = peers.environment("objects")
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(peers.redis_server(bench.directory(), tcp=True))
        plasma = stack.enter_context(plasma_store(bench, python))
        unix, tcp = f"unix://{redis.path}", f"redis://127.0.0.1:{redis.port}"
        places: dict[str, tuple[str, Path | str, str]] = {}
        for name in ("undercroft", "undercroft-copies", "undercroft-pickles"):
            places[name] = name, sys.executable, str(bench.directory() / "store")
        places["plasma"] = "plasma", python, str(plasma)
        places["redis-raw-unix"] = "redis-raw", python, unix
        for name in ("redis", "redis-pipe", "redis-pipe2"):
            places[f"{name}-unix"] = name, python, unix
            places[f"{name}-tcp"] = name, python, tcp
        places["shared-memory"] = "shared-memory", python, "-"
        for name in ("lmdb-raw", "lmdb"):
            places[name] = name, python, str(bench.directory())
        yield {
            name: stack.enter_context(loop(program, way, place, script="objects.py"))
            for name, (way, program, place) in places.items()
        }


@contextlib.contextmanager
def plasma_store(bench: Bench, python: Path) -> Iterator[Path]:
    """Run plasma's store until the block ends."""
    path = bench.directory() / "plasma.sock"
    command = [str(python.parent / "plasma_store"), "-m", str(PLASMA_MEMORY), "-s", str(path)]
    process = subprocess.Popen(
        ["taskset", "--cpu-list", str(peers.SERVER_CORE), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while not path.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"plasma_store did not create {path.name}")
            time.sleep(0.02)
        yield path
    finally:
        process.terminate()
        process.wait(timeout=30)


def _measure(bench: Bench, sides: dict[str, Loop], operation: str, count: int) -> dict[str, Times]:
    """Run all methods that support an operation alternately and return their times."""
    able = {
        name: side
        for name, side in sides.items()
        # The methods with these names support only arrays.
        if operation.startswith("array") or not name.startswith(("redis-raw", "lmdb-raw", "shared"))
    }
    rounds = interleaved(
        bench.pick(2, 5),
        {
            name: lambda side=side: json.loads(side.ask(operation, count))
            for name, side in able.items()
        },
    )
    return {name: Times.of(found) for name, found in rounds.items()}


def _grid(title: str, times: dict[str, Times]) -> Grid:
    return Grid(
        f"Objects: {title}",
        "way, put and take",
        [f"{name}, us" for name in STATISTICS],
        [(name, each.figures()) for name, each in times.items()],
    )


def _best(times: dict[str, Times], names: tuple[str, ...]) -> tuple[str, Figure]:
    """Return the method with the smallest median, and its figure."""
    found = [Figure.of(name, times[name].whole, "us") for name in names if name in times]
    least = min(found, key=lambda figure: figure.median)
    return least.name, least


def _ratio(
    id: str, work: str, times: dict[str, Times], names: tuple[str, ...], least: float
) -> Row:
    """Return a row of Undercroft's speedup over the fastest of these methods."""
    ours = Figure.of("undercroft", times["undercroft"].whole, "us")
    _, peer = _best(times, names)
    return Row(
        id=f"objects-{id}", work=f"objects, put and take of {work}", ours=ours, peer=peer,
        ratio=peer.median / ours.median, at_least=least,
    )  # fmt: skip


def _sockets(times: dict[str, Times]) -> tuple[str, ...]:
    return tuple(name for name in times if name.startswith(("plasma", "redis")))


def _small(size: int, batch: int, times: dict[str, Times]) -> list[Row]:
    work = f"{size:,} float64, {batch} at a time"
    return [
        _ratio(
            f"{size}-{batch}", f"{work}, compared with sockets", times, _sockets(times), 20
        ),
        _ratio(
            f"{size}-{batch}-memory", f"{work}, compared with shared memory", times,
            ("shared-memory", "lmdb-raw", "lmdb"), 1,
        ),
    ]  # fmt: skip


def _middle(batch: int, times: dict[str, Times]) -> Row:
    work = f"65,536 float64, {batch} at a time, compared with sockets"
    return _ratio(f"65536-{batch}", work, times, _sockets(times), 5)


def _large(bench: Bench, sides: dict[str, Loop], times: dict[str, Times]) -> list[Row]:
    """Return the rows for an array of 24 MiB."""
    size, count = 3_145_728, bench.pick(3, 8)
    ours = sides["undercroft"]
    more = interleaved(
        bench.pick(3, 7),
        {
            "copy": lambda: json.loads(ours.ask(f"copy-{size}-1", count)),
            "array": lambda: json.loads(ours.ask(f"array-{size}-1", count)),
            "create": lambda: json.loads(ours.ask(f"create-{size}-1", count)),
        },
    )
    parts = {name: Times.of(found) for name, found in more.items()}
    put, copy = (
        Figure.of("put", parts["array"].put, "us"),
        Figure.of("memcpy", parts["copy"].put, "us"),
    )
    take = Figure.of("take", parts["array"].take, "us")
    create = Figure.of("create, seal, take", parts["create"].whole, "us")
    return [
        Row(
            id="objects-large-put", work="objects, put of 24 MiB, compared with a warm copy",
            ours=put, peer=copy, ratio=put.median / copy.median, at_most=1.3,
        ),
        Row(
            id="objects-large-take", work="objects, take of 24 MiB, in microseconds", ours=take,
            ratio=take.median, at_most=20,
        ),
        Row(
            id="objects-large-create",
            work="objects, create, seal, take of 24 MiB, in microseconds",
            ours=create, ratio=create.median, at_most=50,
        ),
        _ratio("large", "24 MiB, compared with views and raw bytes", times,
            ("plasma", "lmdb-raw"), 2),
        _ratio("large-redis", "24 MiB, compared with Redis on a unix socket", times,
            tuple(name for name in _sockets(times) if name.endswith("unix")), 20),
    ]  # fmt: skip
