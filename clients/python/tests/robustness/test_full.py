"""Tests removals from a full store: channels, objects, leases, scripts and functions.

A separate test, crates/commands/tests/full, covers all commands of the command table. Each case
here creates something, yields, and then removes it from the store, which is full at that point.
Each case runs once in the same process and once in a forked child.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import undercroft
from redis.exceptions import ConnectionError, OutOfMemoryError

ROOM = 6 << 20
WAYS = ["maxmemory", "capacity", "file system"]
# The options for creating the store. If the file system is filled, no limit applies.
LIMITS = {
    "maxmemory": {"maxmemory": ROOM // 4 * 3},
    "capacity": {"capacity": ROOM, "maxmemory": 0},
    "file system": {"maxmemory": 0},
}
LONG = b"long" * 20_000
Case = Callable[[undercroft.Redis], Iterator[None]]


def fill(r: undercroft.Redis) -> None:
    """Fill the store's memory up to the last block."""
    for length in (60_000, 16_000, 4000, 1000, 200, 30, 1):
        refused, number = 0, 0
        while refused < 8:
            number += 1
            try:
                r.set(f"fill:{length}:{number}", b"v" * length)
            except OutOfMemoryError:
                refused += 1


def channel_get(r: undercroft.Redis) -> Iterator[None]:
    jobs = undercroft.Channel("jobs", r, maxsize=0)
    jobs.put_many(list(range(100)))
    jobs.put(LONG)
    yield
    assert [jobs.get() for _ in range(100)] == list(range(100))
    assert bytes(jobs.get()) == LONG


def channel_get_many(r: undercroft.Redis) -> Iterator[None]:
    jobs = undercroft.Channel("jobs", r, maxsize=0)
    jobs.put_many(list(range(2000)))
    yield
    assert jobs.get_many(1500) == list(range(1500))


def channel_get_ack(r: undercroft.Redis) -> Iterator[None]:
    jobs = undercroft.Channel("jobs", r, maxsize=0)
    jobs.put_many([1, 2, LONG])
    yield
    with jobs.get(ack=True) as delivery:
        assert delivery.value == 1
    jobs.get(ack=True).release()
    assert jobs.get(ack=True).ack()
    with jobs.get(ack=True) as delivery:
        assert bytes(delivery.value) == LONG
    assert jobs.qsize() == 0


def channel_close(r: undercroft.Redis) -> Iterator[None]:
    jobs = undercroft.Channel("jobs", r, maxsize=0)
    jobs.put_many(list(range(100)))
    yield
    jobs.close()
    assert jobs.closed
    values = []
    for delivery in jobs.deliveries():
        values.append(delivery.value)
    assert values == list(range(100))


def channel_closed(r: undercroft.Redis) -> Iterator[None]:
    jobs = undercroft.Channel("jobs", r, maxsize=0)
    jobs.put(1)
    jobs.close()
    yield
    for value in (b"v" * 30_000, LONG):
        with pytest.raises(undercroft.ChannelClosed):
            jobs.put(value)
        with pytest.raises(undercroft.ChannelClosed):
            jobs.put_many([value, value])
    asyncio.run(channel_closed_to_tasks(r))
    assert jobs.get() == 1


async def channel_closed_to_tasks(r: undercroft.Redis) -> None:
    async with undercroft.asyncio.Redis(r.path) as other:
        jobs = undercroft.asyncio.Channel("jobs", other, maxsize=0)
        for value in (b"v" * 30_000, LONG):
            with pytest.raises(undercroft.ChannelClosed):
                await jobs.put(value)


def watches(r: undercroft.Redis) -> Iterator[None]:
    r.mset({f"key:{number}": "value" for number in range(100)})
    yield
    with r.pipeline() as pipe:
        pipe.watch("key:1")
        assert pipe.get("key:1") == b"value"
        pipe.unwatch()


def waits(r: undercroft.Redis) -> Iterator[None]:
    yield
    assert r.blpop("absent", 0.01) is None
    assert r.bzpopmin("absent", 0.01) is None


def channel_delete(r: undercroft.Redis) -> Iterator[None]:
    jobs = undercroft.Channel("jobs", r, maxsize=0)
    jobs.put_many([LONG, *range(3000)])
    jobs.get(ack=True)
    # The keys are the list, the held message, its holder, and the long value.
    assert len(r.keys("*{jobs}*")) == 4
    yield
    jobs.delete()
    assert r.keys("*{jobs}*") == []


def objects_delete(r: undercroft.Redis) -> Iterator[None]:
    objects = undercroft.Objects(r)
    ids = [objects.put(LONG) for _ in range(5)] + [objects.put(b"short") for _ in range(100)]
    yield
    assert bytes(objects.take(ids[0])) == LONG
    assert objects.delete(*ids[1:]) == len(ids) - 1
    assert not any(id in objects for id in ids)


def objects_taken(r: undercroft.Redis) -> Iterator[None]:
    objects = undercroft.Objects(r)
    ids = [objects.put(LONG) for _ in range(5)]
    views = [objects.get(id) for id in ids]
    yield
    assert all(bytes(value) == LONG for value in objects.take_many(ids))
    assert all(bytes(view) == LONG for view in views)


def lock_release(r: undercroft.Redis) -> Iterator[None]:
    lock = r.lock("lock", timeout=600)
    assert lock.acquire()
    yield
    lock.release()
    assert not lock.locked()


def cached_forget(r: undercroft.Redis) -> Iterator[None]:
    @r.cache(ttl=600, key="page:{0}", serializer="json")
    def page(number: int) -> str:
        return f"page {number}" * 100

    assert page(1) == "page 1" * 100
    yield
    assert page(1) == "page 1" * 100
    page.forget(1)
    assert r.get("page:1") is None


def function_delete(r: undercroft.Redis) -> Iterator[None]:
    for name in ("one", "two"):
        r.function_load(f"#!lua name={name}\nredis.register_function('{name}', function() end)")
    yield
    r.function_delete("one")
    assert len(r.function_list()) == 1


def function_flush(r: undercroft.Redis) -> Iterator[None]:
    for number in range(50):
        code = f"#!lua name=l{number}\nredis.register_function('f{number}', function() end)"
        r.function_load(code)
    yield
    r.function_flush()
    assert r.function_list() == []


def script_flush(r: undercroft.Redis) -> Iterator[None]:
    shas = [r.script_load(f"return {number}") for number in range(50)]
    yield
    r.script_flush()
    assert r.script_exists(*shas) == [False] * 50


def script_deletes(r: undercroft.Redis) -> Iterator[None]:
    r.mset({f"key:{number}": "value" for number in range(100)})
    deletes = r.register_script("return redis.call('DEL', unpack(KEYS))")
    keys = [f"key:{number}" for number in range(50)]
    assert deletes(keys=keys) == 50
    yield
    assert deletes(keys=[f"key:{number}" for number in range(100)]) == 50


def transaction_deletes(r: undercroft.Redis) -> Iterator[None]:
    r.mset({f"key:{number}": "value" for number in range(100)})
    yield
    if r.info("memory")["used_memory"] > r.info("memory")["maxmemory"] > 0:
        # As in Redis, queueing any command needs memory.
        with pytest.raises(OutOfMemoryError):
            r.pipeline(transaction=True).delete("key:0").execute()
        assert r.delete("key:0") == 1
        return
    with r.pipeline(transaction=True) as pipe:
        for number in range(100):
            pipe.delete(f"key:{number}")
        assert pipe.execute() == [1] * 100


def key_delete(r: undercroft.Redis) -> Iterator[None]:
    r.mset({f"key:{number}": "value" for number in range(100)})
    yield
    assert r.delete("key:1") == 1
    assert r.getdel("key:2") == b"value"
    assert r.unlink(*(f"key:{number}" for number in range(100))) == 98


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        channel_get,
        channel_get_many,
        channel_get_ack,
        channel_close,
        channel_closed,
        watches,
        waits,
        channel_delete,
        objects_delete,
        objects_taken,
        lock_release,
        cached_forget,
        function_delete,
        function_flush,
        script_flush,
        script_deletes,
        transaction_deletes,
        key_delete,
    )
}


def remove(case: Iterator[None], in_child: bool) -> None:
    """Run the second half of a case, in this process or in a forked child."""
    if not in_child:
        assert next(case, "the end") == "the end"
        return
    child = os.fork()
    if child == 0:
        try:
            remove(case, in_child=False)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "the child has failed"


def run(name: str, directory: str, way: str) -> None:
    """Run a case on full stores in a directory."""
    for in_child in (False, True):
        path = f"{directory}/store"
        with undercroft.Redis(path, **LIMITS[way]) as r:
            case = CASES[name](r)
            next(case)
            fill(r)
            remove(case, in_child)
        check = [sys.executable, "-m", "undercroft", "check", "--store", path]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        Path(path).unlink()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_everything_can_be_removed_from_a_full_store(name: str, way: str) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        if way != "file system":
            run(name, directory, way)
            return
        # Use a private file system in a mount namespace, which disappears with the program.
        alone = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
        mounted = f'mount -t tmpfs -o size={ROOM + (4 << 20)} none "{directory}" && exec "$@"'
        tried = subprocess.run([*alone, mounted, "sh", "true"], check=False, capture_output=True)
        if tried.returncode:
            pytest.skip("mount namespaces are not allowed")
        program = [sys.executable, __file__, name, directory]
        done = subprocess.run(
            [*alone, mounted, "sh", *program], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("way", WAYS[:2])
def test_a_full_store_that_was_removed_is_reported_as_removed(path: str, way: str) -> None:
    with undercroft.Redis(path, on_removed="error", **LIMITS[way]) as r:
        fill(r)
        Path(path).unlink()
        told, until = "nothing", time.monotonic() + 30
        while time.monotonic() < until:
            try:
                r.set("key", LONG)
            except OutOfMemoryError:
                # The client checks once a second whether the file exists.
                continue
            except ConnectionError as error:
                told = str(error)
                break
        assert "was removed" in told


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], "file system")
