"""One side of the table ``durable``: a process that writes to one engine on request.

Arguments: the engine (undercroft, lmdb or sqlite), its mode, a path for the store, and a folder on
a disk. It answers each line ``OPERATION COUNT`` of standard input: ``set`` with the nanoseconds per
durable or non-durable write of 64 bytes.
"""

import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

KEYS = [b"key:%012d" % index for index in range(10_000)]
Set = Callable[[bytes, bytes], object]


def undercroft(mode: str, path: Path, folder: Path) -> Set:
    """Return the SET of a store in shared memory with a journal in the folder."""
    import undercroft

    store = undercroft.Redis(
        f"undercroft://{path}", durability=mode, journal=str(folder / "journal")
    )
    return store.set


def lmdb(mode: str, _path: Path, folder: Path) -> Set:
    """Return a function that puts one key in an LMDB transaction of its own."""
    import lmdb

    environment = lmdb.open(str(folder), map_size=1 << 30, sync=mode == "sync")

    def put(key: bytes, value: bytes) -> None:
        with environment.begin(write=True) as transaction:
            transaction.put(key, value)

    return put


def sqlite(mode: str, _path: Path, folder: Path) -> Set:
    """Return a function that replaces one row in a SQLite transaction of its own, in WAL mode."""
    base = sqlite3.connect(folder / "base", isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute(f"PRAGMA synchronous={mode}")
    base.execute("CREATE TABLE store (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
    insertion = "INSERT OR REPLACE INTO store VALUES (?, ?)"

    def put(key: bytes, value: bytes) -> None:
        base.execute(insertion, (key, value))

    return put


def main() -> None:
    """Answer the requests of standard input until it ends."""
    engine, mode, path, folder = sys.argv[1:]
    make = {"undercroft": undercroft, "lmdb": lmdb, "sqlite": sqlite}[engine]
    put = make(mode, Path(path), Path(folder))
    values = [bytes([number % 256]) * 64 for number in range(256)]
    put(KEYS[0], values[0])
    print("ready", flush=True)
    for turn, line in enumerate(sys.stdin):
        count = int(line.split()[1])
        chosen = [(KEYS[at % len(KEYS)], values[(at + turn) % 256]) for at in range(count)]
        start = time.perf_counter_ns()
        for key, value in chosen:
            put(key, value)
        print((time.perf_counter_ns() - start) / count, flush=True)


if __name__ == "__main__":
    main()
