"""Tests that object calls behave the same on a store, on `undercroft serve` and on Redis."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import undercroft
import undercroft.asyncio
from test_objects import VALUES, Thing, same
from undercroft import Objects, PickleRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Run

LONG = 300_000


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[str, str]]:
    """Yield the URLs of a store and of the server that serves it."""
    command = shutil.which("undercroft")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        store, socket = f"{directory}/store", f"{directory}/socket"
        server = subprocess.Popen(
            [
                *([command] if command else [sys.executable, "-m", "undercroft"]),
                *("serve", "--port", "0", "--unixsocket", socket, "--store", store),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            while not Path(socket).exists():
                assert server.poll() is None
            yield f"undercroft://{store}", f"unix://{socket}"
        finally:
            server.terminate()
            server.communicate()


@pytest.fixture(params=["store", "served", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "redis":
        return f"unix://{request.getfixturevalue('server_socket')}"
    store, server = request.getfixturevalue("served")
    return store if request.param == "store" else server


@pytest.fixture
def objects(url: str) -> Iterator[Objects]:
    with Objects(url) as opened:
        opened._client.flushall() if opened._is_embedded is False else opened._client.flushdb()
        yield opened


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable polling, so that only messages wake waiters."""
    monkeypatch.setattr("undercroft.objects.waits.LOOK_EMBEDDED", 3600.0)
    monkeypatch.setattr("undercroft.objects.remote.LOOK_REMOTE", 3600.0)


def keys(objects: Objects) -> int:
    return int(objects._client.dbsize())


def test_stored_values_are_read_back_remotely(objects: Objects) -> None:
    ids = objects.put_many(VALUES)
    assert all(map(same, objects.get_many(ids), VALUES))
    assert all(map(same, objects.get_many(ids, writable=True), VALUES))
    assert all(map(same, map(objects.take, ids[:5]), VALUES))
    assert all(map(same, objects.take_many(iter(ids[5:])), VALUES[5:]))
    assert keys(objects) == 0
    found = objects.get(objects.put(np.arange(5)))
    assert not found.flags.writeable
    assert objects.get(objects.put(np.arange(5)), writable=True).flags.writeable


def test_embedded_and_remote_clients_read_each_other_s_objects(served: tuple[str, str]) -> None:
    with Objects(served[0]) as embedded, Objects(served[1]) as remote:
        for put, read in ((embedded, remote), (remote, embedded)):
            for value in VALUES:
                assert same(read.take(put.put(value)), value)
            draft = put.create((100, 300))
            draft.array[:] = 7
            assert same(read.get(draft.seal()), np.full((100, 300), 7.0))


@pytest.mark.parametrize("count", [10, 2500])
def test_many_objects_are_put_and_taken_at_once(objects: Objects, count: int) -> None:
    values = [b"%d" % number * (number % 50) for number in range(count)]
    ids = objects.put_many(values)
    assert len(set(ids)) == count
    assert objects.get_many(ids) == values
    with pytest.raises(KeyError):
        objects.get_many([*ids, b"none"])
    assert objects.take_many(ids) == values
    assert keys(objects) == 0
    assert objects.get_many([]) == objects.take_many([]) == objects.put_many([]) == []
    assert objects.delete(*ids) == 0
    with pytest.raises(TypeError, match="got object"):
        objects.put_many([*values, object()])
    assert keys(objects) == 0


def test_refused_objects_stay_in_the_store(objects: Objects, url: str) -> None:
    with Objects(url, pickle=True) as both:
        pickled, plain = both.put(Thing(np.arange(9.0))), both.put(b"plain")
        objects._client.set("object:foreign", "something else")
        # The fourth byte of this string, where an object stores its kind, is the letter for an
        # array.
        objects._client.set("object:fruit", "banana bread")
        objects._client.rpush("object:list", "item")
        before = keys(objects)
        for _ in range(2):
            for refused in (pickled, b"foreign", b"fruit", b"list", b"", b"garbage"):
                with pytest.raises((ValueError, KeyError, Exception)) as raised:
                    objects.take(refused)
                assert (raised.type is PickleRefused) == (refused == pickled)
                assert (raised.type is KeyError) == (refused in (b"", b"garbage"))
        assert keys(objects) == before
        if not objects._is_embedded:
            # When objects are taken together and one is rejected, all of them remain.
            with pytest.raises(PickleRefused):
                objects.take_many([plain, pickled])
            with pytest.raises(KeyError):
                objects.take_many([plain, plain])
            assert keys(objects) == before
        assert same(both.take(pickled).array, np.arange(9.0))
    with pytest.raises(TypeError, match="of type bytes, got str"):
        objects.take("text")  # type: ignore[arg-type]


def test_only_one_of_several_takers_gets_an_object(url: str) -> None:
    with Objects(url) as objects:
        ids = objects.put_many([b"%d" % number for number in range(200)])
        taken: list[bytes] = []

        def take() -> None:
            with Objects(url) as own:
                for id in ids:
                    try:
                        taken.append(bytes(own.take(id)))
                    except KeyError:
                        continue

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken) == sorted(b"%d" % number for number in range(200))


def test_drafts_are_filled_sealed_and_dropped(objects: Objects) -> None:
    for shape in ((), 7, (3, 5), (0, 4), (100, 300)):
        draft = objects.create(shape, "float32")
        draft.array[...] = 5
        assert not objects.contains(draft.id)
        assert draft.seal() == draft.id
        found = objects.take(draft.id)
        assert found.dtype == "f4"
        assert found.shape == draft.array.shape if found.size == 0 else (found == 5).all()
    draft = objects.create_bytes(LONG, ttl=100)
    buffer = draft.buffer
    buffer[:] = bytes([7]) * LONG
    with pytest.raises(BufferError, match="delete them before sealing"):
        draft.seal()
    del buffer
    assert objects.get(draft.seal()) == bytes([7]) * LONG
    assert 90 < objects._client.ttl(b"object:" + draft.id) <= 100
    with pytest.raises(ValueError, match="already sealed"):
        draft.seal()
    with pytest.raises(BufferError, match="the object is sealed"):
        draft.buffer  # noqa: B018


def test_a_full_server_raises_out_of_memory(objects: Objects) -> None:
    if objects._is_embedded:
        pytest.skip("test_objects.py tests it on a store")
    # Set the limit relative to the current memory usage, because earlier tests may have used the
    # server.
    used = objects._client.info("memory")["used_memory"]
    objects._client.config_set("maxmemory", used + 2_000_000)
    try:
        draft = objects.create_bytes(1000)
        kept: list[bytes] = []

        def fill() -> None:
            for _ in range(20):
                kept.append(objects.put(bytes(500_000)))

        with pytest.raises(MemoryError, match="no room for an object of 500064 bytes"):
            fill()
        before = keys(objects)
        with pytest.raises(MemoryError):
            objects.put_many([bytes(1_000_000)] * 12)
        with pytest.raises(MemoryError):
            draft.seal()
        assert keys(objects) == before == len(kept)
        assert len(objects.take(kept.pop())) == 500_000
        objects._client.config_set("maxmemory", 1)
        assert all(len(found) == 500_000 for found in objects.take_many(kept))
    finally:
        objects._client.config_set("maxmemory", 0)
    # The draft still exists and can be sealed.
    draft.buffer[:] = bytes([3]) * 1000
    assert objects.get(draft.seal()) == bytes([3]) * 1000
    with pytest.raises(ValueError, match="at most 536870912 bytes"):
        objects.create_bytes(512 << 20)


@pytest.mark.usefixtures("no_looks")
def test_waiting_for_an_object(objects: Objects, url: str) -> None:
    first, second = objects.put(b"1"), objects.put(b"2")
    assert objects.wait([]) == ([], [])
    assert objects.wait([second, first, second]) == ([second, first], [])
    assert objects.wait([first, b"none"], timeout=0) == ([first], [b"none"])
    assert objects.wait([first, b"none"], count=1) == ([first], [b"none"])
    assert objects.wait([b"none"], timeout=0.01) == ([], [b"none"])
    with pytest.raises(ValueError, match="timeout"):
        objects.wait([first], timeout=-1)
    for count in (0, 2):
        with pytest.raises(ValueError, match="expected a count of 1 to the 1 ids"):
            objects.wait([first], count=count)
    many = [b"%d" % number for number in range(600)]
    drafts = [objects.create(10) for _ in range(5)]
    for ids, count in (([draft.id for draft in drafts], None), ([b"chosen", *many], 1)):
        found: list[Any] = []

        def wait(ids: list[bytes], count: int | None, found: list[Any]) -> None:
            with Objects(url) as own:
                found.append(own.wait(ids, timeout=60, count=count))

        waiter = threading.Thread(target=wait, args=(ids, count, found))
        waiter.start()
        while waiter.is_alive() and not subscribers(objects):
            pass
        if count is None:
            for draft in drafts:
                draft.seal()
        else:
            assert objects.put(b"here", id=b"chosen") == b"chosen"
        waiter.join()
        assert found == [(ids, [])] if count is None else [([b"chosen"], many)]
    assert objects.put(b"other", id=b"chosen") == b"chosen"
    assert objects.get(b"chosen") == b"other"


def subscribers(objects: Objects) -> int:
    run = getattr(objects._client, "execute_command", None) or objects._client.execute
    return len(run("PUBSUB", "CHANNELS")) + int(run("PUBSUB", "NUMPAT"))


@pytest.mark.usefixtures("no_looks")
def test_a_waiter_misses_no_object(url: str) -> None:
    """A waiter receives an object that is put before, during or after its subscription.

    Another thread puts each object as soon as its id is chosen.
    """
    with Objects(url) as objects, Objects(url) as other:
        begun = time.monotonic()
        for number in range(60):
            id = b"%d-%d" % (os.getpid(), number)
            putter = threading.Thread(target=other.put, args=(b"x",), kwargs={"id": id})
            putter.start()
            assert objects.wait([id], timeout=60) == ([id], [])
            assert objects.take(id) == b"x"
            putter.join()
        print(f"{time.monotonic() - begun:.3f} s")


def test_a_waiter_finds_an_object_without_a_message(objects: Objects) -> None:
    """A process can die after it puts an object and before it publishes the message."""
    run = getattr(objects._client, "execute_command", None) or objects._client.execute
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(objects.wait([b"late"], timeout=60)))
    waiter.start()
    while waiter.is_alive() and not subscribers(objects):
        pass
    run("SET", "object:late", "anything")
    waiter.join()
    assert found == [([b"late"], [])]


def test_objects_work_on_asyncio(url: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Objects(url, ttl=100) as objects:
            ids = await objects.put_many(VALUES)
            assert all(map(same, await objects.get_many(ids), VALUES))
            assert all(map(same, await objects.get_many(ids, writable=True), VALUES))
            assert all(map(same, await objects.take_many(ids), VALUES))
            with pytest.raises(KeyError):
                await objects.take(ids[0])
            with pytest.raises(TypeError, match="got object"):
                await objects.put_many([b"x", object()])
            assert await objects.delete(*ids) == 0
            long = await objects.put(np.arange(100_000.0))
            assert (await objects.take(long, writable=True)).flags.writeable
            draft = objects.create((1000, 100))
            waits = asyncio.create_task(objects.wait([draft.id, b"chosen"], timeout=60))
            late = asyncio.create_task(objects.wait([b"never"], timeout=0.05))
            gone = asyncio.create_task(objects.wait([b"never"]))
            assert not await objects.contains(draft.id)
            draft.array[:] = 3
            assert await draft.seal() == draft.id
            await objects.put(b"x" * LONG, id=b"chosen")
            assert await waits == ([draft.id, b"chosen"], [])
            assert await late == ([], [b"never"])
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
            assert (await objects.take(draft.id)).mean() == 3
            assert await objects.take(b"chosen") == b"x" * LONG
            assert await asyncio.gather(*(objects.put(b"%d" % n, id=b"%d" % n) for n in range(50)))
            taken = await asyncio.gather(
                *(objects.take(b"%d" % (n // 2)) for n in range(100)), return_exceptions=True
            )
            assert sum(isinstance(each, memoryview) for each in taken) == 50
            assert sum(isinstance(each, KeyError) for each in taken) == 50

    run(main())


def test_a_cancelled_put_leaves_nothing(url: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Objects(url) as objects:
            for _ in range(5):
                putting = asyncio.create_task(objects.put(bytes(4_000_000), ttl=100))
                await asyncio.sleep(0)
                putting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await putting

    if url.startswith("undercroft"):
        with Objects(url) as before:
            before._client.flushdb()
            run(main())
            while keys(before):
                pass


def test_an_invalid_url_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a URL that begins with one of"):
        Objects("http://localhost")
    with pytest.raises(TypeError, match="no options"):
        Objects(undercroft.Redis(host="localhost"), db=3)
