"""Copies a diskcache folder into a store, and back.

    python copy_diskcache.py import /var/cache/app undercroft://cache --values pickle
    python copy_diskcache.py export undercroft://cache /var/cache/copy --values pickle

A value becomes a string in the form that `--values` names: `raw` accepts text, bytes and numbers
only, `json` and `pickle` encode every value. Reading pickled values runs code that the values
contain, as diskcache itself does. Entries keep their expiry. For each tag, the set `tag:NAME`
contains the names of the keys that have it, which replaces `Cache.evict`.

Keys must be text or bytes. `--skip-other-keys` leaves out all others, such as those of diskcache's
`memoize`, whose values the program computes again. Stop the programs that change the cache or the
store first, because the script reads one key after another.
"""

import argparse
import json
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diskcache
import redis
import undercroft

BATCH = 1000


def connect(url: str) -> Any:
    """Open a store, or connect to a server."""
    return undercroft.Redis.from_url(url)


def raw(value: Any) -> bytes | str | int | float:
    """Return a value that a store accepts."""
    if isinstance(value, bool) or not isinstance(value, bytes | str | int | float):
        kind = type(value).__name__
        raise SystemExit(f"found a value of type {kind}; use --values json or --values pickle")
    return value


ENCODE: dict[str, Callable[[Any], Any]] = {"raw": raw, "json": json.dumps, "pickle": pickle.dumps}
DECODE: dict[str, Callable[[bytes], Any]] = {
    "raw": bytes,
    "json": json.loads,
    "pickle": pickle.loads,
}


def opened(path: str) -> Any:
    """Open a Cache, or a FanoutCache if the folder contains shards."""
    shards = len(list(Path(path).glob("[0-9][0-9][0-9]/cache.db")))
    return diskcache.FanoutCache(path, shards=shards) if shards else diskcache.Cache(path)


def run_import(path: str, url: str, values: str, skip: bool) -> str:
    """Copy a folder into an empty store, and return a summary."""
    if not Path(path).is_dir():
        raise SystemExit(f"{path} is not a folder; name the folder of the cache")
    keys = skipped = 0
    with (
        opened(path) as cache,
        connect(url) as r,
        r.pipeline(transaction=False) as pipe,
    ):
        if present := r.dbsize():
            raise SystemExit(f"{url} already has {present} keys; name an empty store")
        for key in cache:
            if not isinstance(key, str | bytes):
                if not skip:
                    raise SystemExit(f"found the key {key!r}; use --skip-other-keys")
                skipped += 1
                continue
            value, expiry, tag = cache.get(key, expire_time=True, tag=True, default=cache)
            if value is cache:
                continue  # Expired, but not removed yet.
            pipe.set(key, ENCODE[values](value), pxat=expiry and int(expiry * 1000))
            if tag is not None:
                pipe.sadd(f"tag:{tag}", key)
            keys += 1
            if len(pipe) >= BATCH:
                pipe.execute()
        pipe.execute()
    return f"imported {keys} keys; entries with other keys left out: {skipped}"


def run_export(url: str, path: str, values: str) -> str:
    """Copy the strings of a store into a new folder, and return a summary."""
    if Path(path).exists():
        raise SystemExit(f"{path} exists; remove it or name another")
    with connect(url) as r, diskcache.Cache(path) as cache:
        found = set(r.scan_iter(count=BATCH))
        tags = {
            member: key.removeprefix(b"tag:").decode()
            for key in found
            if key.startswith(b"tag:") and r.type(key) == b"set"
            for member in r.smembers(key)
        }
        left_out = []
        for key in found:
            kind = r.type(key)
            if kind != b"string":
                if kind != b"none" and not (kind == b"set" and key.startswith(b"tag:")):
                    left_out.append((key, kind))
                continue
            expiry, value = r.pexpiretime(key), r.get(key)
            if value is None:
                continue  # Expired in the meantime.
            expire = expiry / 1000 - time.time() if expiry > 0 else None
            cache.set(key.decode(), DECODE[values](value), expire=expire, tag=tags.get(key))
        summary = f"exported {len(cache)} keys"
    if left_out:
        key, kind = left_out[0]
        summary += f"\nkeys left out: {len(left_out)}, such as {key!r} of type {kind.decode()}"
    return summary


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    read = commands.add_parser("import", help="fill an empty store")
    read.add_argument("path", help="the folder of a Cache or FanoutCache")
    read.add_argument("url", help="undercroft://NAME, or the URL of a server")
    read.add_argument("--skip-other-keys", action="store_true")
    write = commands.add_parser("export", help="create a folder")
    write.add_argument("url", help="undercroft://NAME, or the URL of a server")
    write.add_argument("path", help="the new folder of a Cache")
    for command in (read, write):
        command.add_argument("--values", choices=ENCODE, default="raw")
    given = parser.parse_args()
    try:
        if given.command == "import":
            print(run_import(given.path, given.url, given.values, given.skip_other_keys))
        else:
            print(run_export(given.url, given.path, given.values))
    except redis.RedisError as error:
        sys.exit(f"copy_diskcache.py: {error}")


if __name__ == "__main__":
    main()
