"""Copies an LMDB environment into a store, and back.

    python copy_lmdb.py import /var/lib/app/data.lmdb undercroft://cache
    python copy_lmdb.py export undercroft://cache /var/lib/app/copy.lmdb

The import copies one snapshot of LMDB, which other processes can change in the meantime. A record
becomes a string. In a database with sorted duplicates (dupsort), a key becomes a sorted set whose
scores are 0, which keeps the order of the values. Keys of a named database get the prefix `NAME:`.
With `--index KEY`, the sorted set KEY contains the names of all imported keys in LMDB's order.

The export creates an environment. Strings go to the main database, and keys that begin with `NAME:`
to the named database if `--database NAME` or, for sorted sets, `--dupsort NAME` is given. Stop the
programs that change the store first, because the export reads one key after another.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import lmdb
import redis
import undercroft

BATCH = 1000
DATABASES = 126
"""The largest number of named databases that the script opens."""


def connect(url: str) -> Any:
    """Open a store, or connect to a server."""
    return undercroft.Redis.from_url(url)


def databases(env: Any, txn: Any) -> Iterator[tuple[bytes, Any]]:
    """Yield the prefix of each database's keys, and its handle; the main database is last."""
    for name, _ in txn.cursor():
        try:
            yield name + b":", env.open_db(name, txn=txn, create=False)
        except lmdb.IncompatibleError:
            continue  # The key of an ordinary record.
    yield b"", env.open_db(None, txn=txn)


def run_import(path: str, url: str, index: str | None) -> str:
    """Copy an environment into an empty store, and return a summary."""
    keys = records = 0
    with (
        lmdb.open(path, readonly=True, max_dbs=DATABASES, subdir=Path(path).is_dir()) as env,
        env.begin() as txn,
        connect(url) as r,
        r.pipeline(transaction=False) as pipe,
    ):
        if present := r.dbsize():
            raise SystemExit(f"{url} already has {present} keys; name an empty store")
        found = list(databases(env, txn))
        names = {prefix[:-1] for prefix, _ in found}
        for prefix, database in found:
            has_sets = database.flags(txn)["dupsort"]
            last = None
            for key, value in txn.cursor(database):
                if not prefix and key in names:
                    continue  # The record that describes a named database.
                if has_sets:
                    pipe.zadd(prefix + key, {value: 0})
                else:
                    pipe.set(prefix + key, value)
                if index and key != last:
                    pipe.zadd(index, {prefix + key: 0})
                records += 1
                keys += key != last
                last = key
                if len(pipe) >= BATCH:
                    pipe.execute()
        pipe.execute()
        stored = r.dbsize() - bool(index and keys)
    if stored != keys:
        raise SystemExit(
            f"{url} has {stored} of {keys} keys: two databases contain the same key with its "
            "prefix, or keys were evicted; rename a database or raise maxmemory"
        )
    return f"imported {keys} keys with {records} values"


def run_export(url: str, path: str, plain: list[str], dupsort: list[str], map_size: int) -> str:
    """Copy a store into a new environment, and return a summary."""
    if Path(path).exists():
        raise SystemExit(f"{path} exists; remove it or name another")
    keys = expiring = 0
    left_out = []
    with (
        lmdb.open(path, map_size=map_size, max_dbs=DATABASES) as env,
        connect(url) as r,
    ):
        targets: list[tuple[bytes, Any]] = [
            (f"{name}:".encode(), env.open_db(name.encode())) for name in plain
        ]
        targets += [
            (f"{name}:".encode(), env.open_db(name.encode(), dupsort=True)) for name in dupsort
        ]
        targets.append((b"", env.open_db(None)))
        found = iter(set(r.scan_iter(count=BATCH)))
        # One transaction: an export that fails leaves an empty environment.
        with env.begin(write=True) as txn:
            while batch := list(islice(found, BATCH)):
                with r.pipeline(transaction=False) as pipe:
                    for key in batch:
                        pipe.type(key)
                        pipe.pttl(key)
                    replies = pipe.execute()
                for key, kind, ttl in zip(batch, replies[::2], replies[1::2], strict=True):
                    prefix, database = next(to for to in targets if key.startswith(to[0]))
                    has_sets = prefix != b"" and database.flags(txn)["dupsort"]
                    if kind != (b"zset" if has_sets else b"string"):
                        if kind != b"none":
                            left_out.append((key, kind))
                        continue
                    values = r.zrange(key, 0, -1) if has_sets else r.mget(key)
                    if not values or values[0] is None:
                        continue  # Expired in the meantime.
                    for value in values:
                        txn.put(key[len(prefix) :], value, db=database)
                    keys += 1
                    expiring += ttl >= 0
    summary = f"exported {keys} keys; {expiring} of them expire in the store, but not in LMDB"
    if left_out:
        key, kind = left_out[0]
        summary += f"\nkeys left out: {len(left_out)}, such as {key!r} of type {kind.decode()}"
    return summary


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    read = commands.add_parser("import", help="fill an empty store")
    read.add_argument("path", help="the environment's folder or file")
    read.add_argument("url", help="undercroft://NAME, or the URL of a server")
    read.add_argument("--index", metavar="KEY", help="a sorted set for the names of the keys")
    write = commands.add_parser("export", help="create an environment")
    write.add_argument("url", help="undercroft://NAME, or the URL of a server")
    write.add_argument("path", help="the new environment's folder")
    write.add_argument("--database", metavar="NAME", action="append", default=[])
    write.add_argument("--dupsort", metavar="NAME", action="append", default=[])
    write.add_argument("--map-size", metavar="BYTES", type=int, default=1 << 36)
    given = parser.parse_args()
    try:
        if given.command == "import":
            print(run_import(given.path, given.url, given.index))
        else:
            arguments = given.url, given.path, given.database, given.dupsort, given.map_size
            print(run_export(*arguments))
    except (lmdb.Error, redis.RedisError) as error:
        sys.exit(f"copy_lmdb.py: {error}")


if __name__ == "__main__":
    main()
