"""Tests a store's locks: redis-py's own locks, and the scripts that implement them."""

import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import redis
import redis.asyncio.lock
import redis.lock
import undercroft
import undercroft.asyncio
from conftest import Run
from redis.exceptions import LockError, LockNotOwnedError, NoScriptError
from undercroft.extensions.async_lock import Lock as AsyncLock
from undercroft.extensions.lock import AsyncScript, Lock, Script


@pytest.mark.parametrize("kind", [None, redis.lock.Lock])
def test_a_lock_behaves_like_redis_py_s(r: undercroft.Redis, kind: Any) -> None:
    lock = r.lock("l", timeout=10, lock_class=kind)
    assert isinstance(lock, redis.lock.Lock)
    with lock:
        assert lock.locked()
        assert lock.owned()
        assert not r.lock("l", lock_class=kind).acquire(blocking=False)
        assert not r.lock("l", lock_class=kind).acquire(blocking_timeout=0.01, sleep=0.001)
        assert 9000 < r.pttl("l") <= 10000
        assert lock.extend(10)
        assert 19000 < r.pttl("l") <= 20000
        assert lock.extend(5, replace_ttl=True)
        assert 4000 < r.pttl("l") <= 5000
        assert lock.reacquire()
        assert 9000 < r.pttl("l") <= 10000
    assert not r.exists("l")
    with pytest.raises(LockError):
        lock.release()
    assert lock.acquire(token="mine")
    assert r.get("l") == b"mine"
    r.set("l", "another's")
    for call in (lambda: lock.extend(1), lock.reacquire, lock.release):
        with pytest.raises(LockNotOwnedError):
            call()
    assert r.get("l") == b"another's"


def test_a_lock_script_that_the_store_does_not_know_runs_as_lua(
    path: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = redis.lock.Lock.LUA_RELEASE_SCRIPT + "-- another version"
    monkeypatch.setattr(Lock, "lua_release", Script(text))
    monkeypatch.setattr(AsyncLock, "lua_release", AsyncScript(text))

    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as client:
            async with client.lock("l") as lock:
                assert await lock.owned()
            assert not await client.exists("l")
            await client.lock("l").acquire(token="mine")

    run(main())
    client = undercroft.Redis(path)
    lock = client.lock("l")
    lock.local.token = b"another's"
    with pytest.raises(LockNotOwnedError):
        lock.release()
    lock.local.token = b"mine"
    lock.release()
    assert not client.exists("l")


@pytest.mark.parametrize("kind", [None, redis.asyncio.lock.Lock])
def test_an_asyncio_lock_behaves_like_redis_py_s(path: str, kind: Any, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as client:
            lock = client.lock("l", timeout=10, lock_class=kind)
            assert isinstance(lock, redis.asyncio.lock.Lock)
            async with lock:
                assert await lock.owned()
                assert not await client.lock("l", lock_class=kind).acquire(blocking=False)
                other = client.lock("l", blocking_timeout=0.01, sleep=0.001, lock_class=kind)
                with pytest.raises(LockError):
                    await other.__aenter__()
                assert await lock.extend(10)
                assert 19000 < await client.pttl("l") <= 20000
                assert await lock.reacquire()
                assert 9000 < await client.pttl("l") <= 10000
            assert not await lock.locked()
            with pytest.raises(LockError):
                await lock.release()
            await client.set("l", "another's")
            assert not await lock.acquire(blocking=False)
            await client.delete("l")
            assert await lock.acquire(token=b"mine" if kind is None else None)
            await client.set("l", "another's")
            with pytest.raises(LockNotOwnedError):
                await lock.release()

    run(main())


def test_a_task_is_woken_by_a_release(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as client:
            # The polling interval is so long that a waiter that is not woken never acquires the
            # lock.
            async with client.lock("l") as held:
                waiting = [client.lock("l", sleep=10**6) for _ in range(3)]
                tasks = [asyncio.create_task(lock.acquire()) for lock in waiting]
                gone = asyncio.create_task(client.lock("l", sleep=10**6).acquire())
                await asyncio.sleep(0)
                gone.cancel()
                assert await held.owned()
            while tasks:
                done, pending = await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
                assert len(done) == 1
                for task in done:
                    assert task.result() is True
                    await waiting.pop(tasks.index(task)).release()
                    tasks.remove(task)
                assert set(tasks) == pending
            # Another process releases the lock, through a synchronous client.
            code = """
import sys, undercroft
lock = undercroft.Redis(sys.argv[1]).lock("l")
lock.acquire()
print("held", flush=True)
sys.stdin.readline()
lock.release()
"""
            child = subprocess.Popen(
                [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert child.stdout is not None
            assert child.stdout.readline() == b"held\n"
            task = asyncio.create_task(client.lock("l", sleep=10**6).acquire())
            await asyncio.sleep(0)
            child.communicate(b"\n")
            assert await task

    run(main())


def test_a_task_gets_a_lock_that_expires(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis(path) as client:
            # Start measuring before the lock is acquired, so that delays on a busy machine cannot
            # shorten the measured time.
            start = time.monotonic()
            assert await client.lock("l", timeout=0.05).acquire()
            assert await client.lock("l", sleep=10**6).acquire()
            assert time.monotonic() - start > 0.04
            # A waiter's next poll finds that a lock was deleted without a notification.
            task = asyncio.create_task(client.lock("l", sleep=0.02).acquire())
            await asyncio.sleep(0)
            await client.delete("l")
            assert await task

    run(main())


def test_only_one_holder_at_a_time(path: str) -> None:
    inside = []

    def work() -> None:
        with undercroft.Redis(path) as r:
            for _ in range(50):
                with r.lock("l", sleep=0.0001):
                    inside.append(1)
                    assert len(inside) == 1
                    inside.pop()

    async def tasks() -> None:
        async with undercroft.asyncio.Redis(path) as client:

            async def one() -> None:
                for _ in range(10):
                    async with client.lock("l", sleep=0.001):
                        inside.append(1)
                        await asyncio.sleep(0)
                        assert len(inside) == 1
                        inside.pop()

            await asyncio.gather(*(one() for _ in range(5)))

    errors: list[BaseException] = []

    def guarded(call: Any) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for _ in range(2)]
    threads.append(threading.Thread(target=guarded, args=(lambda: asyncio.run(tasks()),)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_lock_scripts_are_recognized_and_others_run(r: undercroft.Redis) -> None:
    release = redis.lock.Lock.LUA_RELEASE_SCRIPT
    sha = r.script_load(release)
    assert r.script_exists(sha, "0" * 40) == [True, False]
    r.set("l", "t")
    assert r.eval(release, 1, "l", "x") == 0
    assert r.register_script(release)(keys=["l"], args=["t"]) == 1
    r.script_flush()
    assert r.evalsha(sha, 1, "l", "x") == 0
    assert r.eval("return 1", 0) == 1
    other = r.script_load("return 2")
    assert r.evalsha(other, 0) == 2
    with pytest.raises(NoScriptError):
        r.evalsha("0" * 40, 0)
    assert r.register_script("return ARGV[1]")(args=["x"]) == b"x"
    # A pipeline recognizes the scripts too.
    with r.pipeline() as pipe:
        script = r.register_script(release)
        pipe.set("l", "t")
        script(keys=["l"], args=["t"], client=pipe)
        assert pipe.execute() == [True, 1]


def store_client(path: str, _: str) -> Any:
    return undercroft.Redis(path)


def server_client(_: str, socket: str) -> Any:
    return undercroft.Redis(unix_socket_path=socket)


@pytest.mark.parametrize("make", [store_client, server_client])
def test_a_thread_is_woken_by_a_release(make: Any, path: str, server_socket: str) -> None:
    with make(path, server_socket) as client:
        client.delete("l")
        held = client.lock("l")
        for _ in range(20):
            assert held.acquire()
            others = [make(path, server_socket).lock("l", sleep=10**6) for _ in range(3)]
            begun = threading.Barrier(4)

            def wait(lock: Any, begun: threading.Barrier = begun) -> None:
                begun.wait()
                # The polling interval is so long that a waiter that is not woken never acquires the
                # lock.
                assert lock.acquire()
                lock.release()

            threads = [threading.Thread(target=wait, args=(lock,)) for lock in others]
            for thread in threads:
                thread.start()
            begun.wait()
            held.release()
            for thread in threads:
                thread.join()
        # A waiter acquires an expiring lock when it expires, and a wait ends at its timeout.
        assert client.lock("l", timeout=0.05).acquire()
        assert not client.lock("l", sleep=10**6).acquire(blocking_timeout=0.001)
        assert client.lock("l", sleep=10**6).acquire()
        client.delete("l")


@pytest.mark.parametrize("make", [store_client, server_client])
def test_an_interrupted_acquire_holds_no_lock(make: Any, path: str, server_socket: str) -> None:
    with make(path, server_socket) as client:
        client.delete("l")
        lock = client.lock("l")
        do_acquire = lock.do_acquire

        def interrupted(token: bytes) -> bool:
            assert do_acquire(token)
            raise KeyboardInterrupt

        lock.do_acquire = interrupted
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
        assert not client.exists("l")
