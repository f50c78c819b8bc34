"""Tests cached results: one caller computes at a time, even if it dies, stops, or is late."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from children import fork, status_of
from conftest import Run
from undercroft._native import LEASE_SCRIPT, lease_key

# The duration of leases and waits in seconds, which elapses only if a test fails.
LONG = 120


@pytest.fixture(params=["store", "server"])
def url(request: pytest.FixtureRequest, path: str) -> Iterator[str]:
    """Yield the URL of a new store, or of an empty database on a server."""
    if request.param == "store":
        yield f"undercroft://{path}"
        return
    socket = request.getfixturevalue("server_socket")
    with redis.Redis(unix_socket_path=socket, db=11) as client:
        client.flushdb()
    yield f"unix://{socket}?db=11"


def test_a_result_is_computed_once_and_returned_as_get_returns_it(url: str) -> None:
    for decode in (False, True):
        r = undercroft.from_url(url, decode_responses=decode)
        made: list[Any] = []

        @r.cache(ttl=timedelta(minutes=1))
        def text(word: str, times: int = 1) -> str:
            made.append(word)  # noqa: B023
            return word * times

        expected: Any = "\u00e4\u00e4" if decode else "\u00e4\u00e4".encode()
        assert text("\u00e4", 2) == text("\u00e4", 2) == expected
        assert text("\u00e4", times=2) == expected
        assert made == ["\u00e4", "\u00e4"]
        assert r.get(text.cache_key("\u00e4", 2)) == expected
        assert 0 < r.ttl(text.cache_key("\u00e4", 2)) <= 60
        assert text.forget("\u00e4", 2)
        assert not text.forget("\u00e4", 2)
        assert text("\u00e4", 2) == expected
        assert len(made) == 3
        assert text.__name__ == "text"  # type: ignore[attr-defined]
        r.flushdb()
        r.close()


def test_serializers_and_keys_can_be_chosen(url: str) -> None:
    with undercroft.from_url(url) as r:

        @r.cache(key="user:{0}", serializer="json")
        def user(number: int) -> dict[str, Any]:
            return {"id": number, "name": "\u00e9"}

        assert user(7) == user(7) == {"id": 7, "name": "\u00e9"}
        assert r.get("user:7") == '{"id":7,"name":"\u00e9"}'.encode()
        assert r.ttl("user:7") == -1

        @r.cache(key=lambda one, *, two: f"{one}+{two}", serializer="pickle")
        def pair(one: object, *, two: object) -> Any:
            return one, two

        assert pair(1, two="b") == pair(1, two="b") == (1, "b")
        assert r.exists("1+b")


def test_invalid_options_are_refused(r: undercroft.Redis, path: str) -> None:
    with pytest.raises(ValueError, match="expected a ttl together with stale or early, got none"):
        r.cache(stale=5)(lambda: b"")
    with pytest.raises(ValueError, match="expected 'json', 'pickle' or an object"):
        r.cache(serializer="yaml")(lambda: b"")
    with pytest.raises(ValueError, match="expected 0 or more seconds as ttl"):
        r.cache(ttl=-1)(lambda: b"")

    async def coroutine() -> bytes:
        return b""

    with pytest.raises(TypeError, match=r"use a client of undercroft\.asyncio"):
        r.cache()(coroutine)
    with pytest.raises(TypeError, match="expected a coroutine function"):
        undercroft.asyncio.Redis(path).cache()(lambda: b"")
    with pytest.raises(TypeError, match="got list; pass key="):
        r.cache()(lambda _: b"")([1])
    with pytest.raises(TypeError, match="expected a result of bytes or str"):
        r.cache()(lambda: 1)()
    assert r.dbsize() == 0, "and nothing is left of it"


def test_after_an_error_the_next_caller_computes(url: str) -> None:
    with undercroft.from_url(url) as r:
        errors = [ZeroDivisionError(), KeyboardInterrupt()]

        @r.cache(lease=LONG, wait=LONG)
        def result() -> bytes:
            if errors:
                raise errors.pop()
            return b"result"

        for error in (KeyboardInterrupt, ZeroDivisionError):
            with pytest.raises(error):
                result()
        assert result() == b"result"


def test_only_one_of_many_threads_computes(url: str) -> None:
    with undercroft.from_url(url) as r:
        made, results, asked = [], [], threading.Barrier(100)

        @r.cache(lease=LONG, wait=LONG)
        def result() -> bytes:
            made.append(1)
            return b"once"

        def ask() -> None:
            asked.wait()
            results.append(result())

        threads = [threading.Thread(target=ask) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [b"once"] * 100
        assert made == [1]


def test_only_one_of_a_thousand_tasks_computes(url: str, run: Run) -> None:
    async def work() -> None:
        r = undercroft.asyncio.from_url(url)
        made, asked, all_asked = [], 0, asyncio.Event()

        @r.cache(lease=LONG, wait=LONG, serializer="json")
        async def result(name: str) -> list[str]:
            made.append(name)
            await all_asked.wait()
            return [name]

        async def ask() -> Any:
            nonlocal asked
            asked += 1
            if asked == 1000:
                all_asked.set()
            return await result("once")

        assert await asyncio.gather(*(ask() for _ in range(1000))) == [["once"]] * 1000
        assert made == ["once"]
        # If a task is cancelled, another task takes over the computation immediately.
        all_asked.clear()
        task = asyncio.ensure_future(result("other"))
        while "other" not in made:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        all_asked.set()
        assert await result("other") == ["other"]
        assert await result.forget("other")
        await r.flushdb()
        await r.aclose()

    run(work())


def test_a_stale_result_is_returned_while_one_caller_refreshes_it(url: str) -> None:
    with undercroft.from_url(url) as r:
        made: list[int] = []

        @r.cache(ttl=0.03, stale=LONG, serializer="json")
        def result() -> int:
            made.append(len(made))
            if len(made) == 2:
                assert result() == 0, "another caller has what there is"
            return made[-1]

        assert result() == 0
        deadline = time.monotonic() + LONG
        while result() == 0:
            assert time.monotonic() < deadline
        assert made == [0, 1]


def test_waiting_too_long_for_a_result_raises_timeout_error(url: str) -> None:
    with undercroft.from_url(url) as r:

        @r.cache(key="slow", lease=LONG, wait=0.01)
        def result() -> bytes:
            other = r.cache(key="slow", wait=0.01)(lambda: b"")
            with ThreadPoolExecutor(1) as threads:
                told = threads.submit(other).exception()
            assert isinstance(told, redis.TimeoutError)
            assert str(told).startswith("another caller has been computing the value")
            return b"done"

        assert result() == b"done"
        assert r.keys() == [b"slow"]


def test_caching_works_without_redis_py(path: str) -> None:
    with undercroft.Store(path) as store:
        made = []

        @store.cache(ttl=5)
        def result() -> bytes:
            made.append(1)
            return b"result"

        assert result() == result() == b"result"
        assert made == [1]


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP, None])
def test_exactly_one_of_eight_processes_takes_over(path: str, blow: signal.Signals | None) -> None:
    r = undercroft.Redis(path)
    # A killed process's lease is freed immediately, although its term is two minutes.
    term = LONG if blow == signal.SIGKILL else 1.0

    def compute() -> str:
        number = r.incr("computed")
        r.set("pid", os.getpid())
        while number == 1 and not r.exists("over"):
            time.sleep(0.001)
        return str(number)

    def ask() -> None:
        r.incr("started")
        r.rpush("results", r.cache(key="storm", lease=term, wait=LONG)(compute)())

    def until(is_so: Any) -> None:
        deadline = time.monotonic() + LONG
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.001)

    children = [fork(ask) for _ in range(8)]
    until(lambda: r.get("started") == b"8" and r.exists("pid"))
    holder = int(r.get("pid") or 0)
    if blow is not None:
        os.kill(holder, blow)
    until(lambda: int(r.get("computed") or 0) >= 2)
    until(lambda: r.llen("results") == 7)
    r.set("over", 1)
    if blow == signal.SIGSTOP:
        os.kill(holder, signal.SIGCONT)
    ended = {child: status_of(child) for child in children}
    assert ended.pop(holder) == (-9 if blow == signal.SIGKILL else 0)
    assert set(ended.values()) == {0}
    assert r.get("computed") == b"2"
    assert r.get("storm") == b"2", "the late caller has stored nothing"
    assert r.lrange("results", 0, -1).count(b"2") == 7


def test_a_store_knows_the_script_of_leases_as_a_server_does(url: str) -> None:
    with undercroft.from_url(url) as r:
        lease = lease_key(b"key")

        def end(*words: bytes | int) -> Any:
            return r.execute_command("EVAL", LEASE_SCRIPT, 2, "key", lease, *words)

        assert end(b"mine") == 0
        r.set(lease, "mine")
        assert end(b"other", b"value", 0) == end(b"other") == 0
        assert r.get("key") is None
        assert end(b"mine", b"value", 0) == 1
        assert (r.get("key"), r.ttl("key"), r.exists(lease)) == (b"value", -1, 0)
        r.set(lease, "mine")
        assert end(b"mine", b"again", 5000) == 1
        assert (r.get("key"), r.ttl("key"), r.exists(lease)) == (b"again", 5, 0)
        r.set(lease, "mine")
        assert end(b"mine") == 1
        assert (r.get("key"), r.exists(lease)) == (b"again", 0)
        r.rpush(lease, "an item")
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            end(b"mine", b"value", 0)
        assert r.lrange(lease, 0, -1) == [b"an item"]


def test_callers_in_a_store_and_on_its_server_share_leases(r: undercroft.Redis) -> None:
    @r.cache(key="key", lease=LONG, wait=0.01)
    def result() -> bytes:
        return b"result"

    # Acquire the lease as a client of a server does.
    assert r.set(lease_key(b"key"), "random", px=100_000, nx=True)
    with pytest.raises(redis.TimeoutError):
        result()
    r.delete(lease_key(b"key"))
    assert result() == b"result"


def test_a_recursive_computation_is_refused_at_once(url: str) -> None:
    with undercroft.from_url(url) as r:
        first_of_two: Any = None

        @r.cache(key="own", lease=10**6, wait=10**6)
        def own() -> bytes:
            result: bytes = own()
            return result

        @r.cache(lease=10**6, wait=10**6)
        def second(number: int) -> bytes:
            result: bytes = first_of_two(number)
            return result

        @r.cache(lease=10**6, wait=10**6)
        def first(number: int) -> bytes:
            return second(number) if number else b"done"

        first_of_two = first
        for call in (own, lambda: first(1)):
            with pytest.raises(RecursionError, match="requests the key"):
                call()
        # No lease remains, and the other keys are unaffected.
        assert first(0) == b"done"
        assert len(r.keys()) == 1


def test_a_recursive_computation_in_a_task_is_refused_at_once(path: str) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as client:

            @client.cache(key="own", lease=10**6, wait=10**6)
            async def own(deep: bool) -> bytes:
                if not deep:
                    await asyncio.sleep(0.01)
                    return b"done"
                result: bytes = await own(deep)
                return result

            with pytest.raises(RecursionError, match="requests the key b'own'"):
                await own(True)
            # Another task may wait for the result, because it does not compute it.
            assert await asyncio.gather(own(False), own(False)) == [b"done"] * 2

            @client.cache(lease=10**6, wait=10**6)
            async def second(number: int) -> bytes:
                result: bytes = await first(number)
                return result

            @client.cache(lease=10**6, wait=10**6)
            async def first(number: int) -> bytes:
                return b"".join(await asyncio.gather(second(number))) if number else b"done"

            # The computation waits for another task, which requests the same key.
            with pytest.raises(RecursionError, match="requests the key"):
                await first(1)
            assert await first(0) == b"done"

    asyncio.run(main())


def test_a_key_is_the_same_however_its_parameters_are_passed(url: str) -> None:
    with undercroft.from_url(url) as r:

        @r.cache(key="user:{id}:{0}:{page}:{extra}", serializer="json")
        def user(id: int, /, page: int = 1, **more: Any) -> Any:
            return [id, page, more]

        assert user(3, extra=7) == user(3, 1, extra=7) == user(3, page=1, extra=7)
        assert r.keys() == [b"user:3:3:1:7"]
        with pytest.raises(TypeError, match="missing a required argument: 'id'"):
            user(page=1)
        with pytest.raises(TypeError, match="expected names or positions of parameters of"):
            user(3)
