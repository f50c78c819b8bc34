"""Rows of messages between processes, compared with Python's queues and Redis lists."""

import subprocess
import sys
from pathlib import Path

from core import peers
from core.bench import Bench
from core.report import Figure, Row
from core.turns import interleaved

LOOP = Path(__file__).parents[2] / "loops/channels.py"
# The number of messages per round for each method (quick, full), and the target speedups over the
# peers.
COUNTS = {
    "undercroft": (100_000, 400_000),
    "multiprocessing": (20_000, 80_000),
    "redis": (4_000, 16_000),
}
NEEDED = {"multiprocessing": 5, "redis": 20}


def rows(bench: Bench) -> list[Row]:
    """Measure one producer with one consumer, and four producers with four consumers."""
    if missing := peers.has("redis-server"):
        return [Row(id="channels", work="channels", note=missing)]
    with peers.redis_server(bench.directory()) as redis:
        places = {
            "undercroft": str(bench.directory() / "channels"),
            "redis": f"unix://{redis.path}",
        }
        return [row for number in (1, 4) for row in _of(bench, places, number)]


def _of(bench: Bench, places: dict[str, str], number: int) -> list[Row]:
    def side(way: str) -> float:
        count = bench.pick(*COUNTS[way])
        numbers = map(str, (number, number, count))
        command = [sys.executable, LOOP, way, places.get(way, "-"), *numbers]
        return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    sides = {way: lambda way=way: side(way) for way in COUNTS}
    rounds = interleaved(bench.pick(3, 7), sides)
    figures = {way: Figure.of(way, found, "messages/s") for way, found in rounds.items()}
    ours = figures["undercroft"]
    return [
        Row(
            id=f"channels-{number}-{way}",
            work=f"channels, 64-byte messages, {number} to {number} processes, compared with {way}",
            ours=ours,
            peer=figures[way],
            ratio=ours.median / figures[way].median,
            at_least=needed,
        )
        for way, needed in NEEDED.items()
    ]
