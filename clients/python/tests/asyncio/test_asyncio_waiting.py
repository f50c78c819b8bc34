"""Tests how tasks that wait for keys in a store keep and give up their places in the queue."""

import asyncio
import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from children import in_child
from conftest import Run
from holder import Holder

WAITER = """
import asyncio, sys, undercroft.asyncio

async def main():
    client = undercroft.asyncio.Redis(sys.argv[1], decode_responses=True)
    task = asyncio.create_task(client.blpop("jobs"))
    await asyncio.sleep(0)
    print("waits", flush=True)
    print(await task, flush=True)

asyncio.run(main())
"""


def waiter(path: str) -> subprocess.Popen[str]:
    """Start a process in which a task waits for an item from the list ``jobs``."""
    child = subprocess.Popen(
        [sys.executable, "-c", WAITER, path], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "waits\n"
    return child


def in_a_thread(path: str, key: str, results: list[Any], waits: threading.Event) -> None:
    """Wait for a key in an event loop that belongs to this thread."""

    async def main() -> None:
        async with undercroft.asyncio.Redis(path, decode_responses=True) as client:
            task = asyncio.create_task(client.blpop(key))
            await asyncio.sleep(0)
            waits.set()
            results.append(await task)

    asyncio.run(main())


async def begun(*calls: Any) -> list[asyncio.Task[Any]]:
    """Return tasks that have begun to wait, in the order of the calls."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


def test_tasks_loops_and_processes_are_served_in_turn(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        (first,) = await begun(client.blpop("jobs"))
        results: list[Any] = []
        waits = threading.Event()
        thread = threading.Thread(target=in_a_thread, args=(path, "jobs", results, waits))
        thread.start()
        waits.wait()
        child = waiter(path)
        (last,) = await begun(client.blpop(["other", "jobs"]))
        assert await client.rpush("jobs", 1, 2, 3, 4, 5) == 5
        assert await first == ("jobs", "1")
        assert await last == ("jobs", "4")
        thread.join()
        assert results == [("jobs", "2")]
        out, _ = child.communicate()
        assert out == "('jobs', '3')\n"
        assert await client.lrange("jobs", 0, -1) == ["5"]
        await client.aclose()

    run(main())


def test_a_cancelled_task_gives_up_its_place(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        first, second = await begun(client.blpop("k"), client.blpop("k"))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await client.rpush("k", "v")
        assert await second == ("k", "v")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.brpop("k"), 0.01)
        await client.rpush("k", "kept")
        assert await client.lrange("k", 0, -1) == ["kept"]

    run(main())


def test_an_item_given_to_a_cancelled_task_goes_back(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        calls = client.blpop("k"), client.bzpopmin("z"), client.blmove("from", "to", 9)
        tasks = await begun(*calls)
        await client.rpush("k", "1", "2")
        await client.zadd("z", {"m": 1, "n": 2})
        await client.rpush("from", "moved")
        assert await client.lrange("k", 0, -1) == ["2"]
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(each, asyncio.CancelledError)
            for each in await asyncio.gather(*tasks, return_exceptions=True)
        )
        assert await client.lrange("k", 0, -1) == ["1", "2"]
        assert await client.zrange("z", 0, -1) == ["m", "n"]
        # The move happened as early as possible, although no task received its result.
        assert await client.lrange("to", 0, -1) == ["moved"]
        # The next waiter receives the item that was assigned to a cancelled task.
        first, second = await begun(client.blpop("q"), client.blpop("q"))
        await client.rpush("q", "v")
        first.cancel()
        assert await second == ("q", "v")

    run(main())


def test_cancellation_neither_loses_nor_duplicates_an_item(path: str, run: Run) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)

    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        pushed = 0
        taken: list[str] = []

        async def take() -> None:
            taken.append((await client.blpop(["a", "b"]))[1])

        tasks: list[asyncio.Task[None]] = []
        for _ in range(3000):
            choice = rng.random()
            if choice < 0.4:
                tasks.append(asyncio.create_task(take()))
            elif choice < 0.7:
                await client.rpush(rng.choice("ab"), pushed)
                pushed += 1
            elif tasks:
                tasks.pop(rng.randrange(len(tasks))).cancel()
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        left = await client.lrange("a", 0, -1) + await client.lrange("b", 0, -1)
        assert sorted(map(int, taken + left)) == list(range(pushed))
        await client.aclose()

    run(main())


def test_a_thousand_tasks_are_served_in_turn(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        tasks = await begun(*(client.blpop("k") for _ in range(1000)))
        await client.rpush("k", *range(1000))
        results = await asyncio.gather(*tasks)
        assert [int(item) for _, item in results] == list(range(1000))
        await client.aclose()

    run(main())


def test_several_loops_wait_for_one_key(path: str) -> None:
    results: list[Any] = []
    events = [threading.Event() for _ in range(4)]
    threads = [
        threading.Thread(target=in_a_thread, args=(path, "k", results, event)) for event in events
    ]
    for thread in threads:
        thread.start()
    for event in events:
        event.wait()
    with undercroft.Redis(path) as store:
        store.rpush("k", 0, 1, 2, 3)
        for thread in threads:
            thread.join()
        assert sorted(results) == [("k", str(number)) for number in range(4)]
        assert store.exists("k") == 0


def test_waits_end_at_their_timeouts(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        for timeout in (0.001, 0.05, 0.15):
            start = time.monotonic()
            assert await client.blpop("k", timeout=timeout) is None
            assert time.monotonic() - start >= timeout
        (task,) = await begun(client.blpop("k", timeout=10**9))
        await client.rpush("k", "v")
        assert await task == (b"k", b"v")

    run(main())


def test_tasks_of_a_closed_client_get_an_error(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        tasks = await begun(client.blpop("k"), client.blpop("k"))
        await client.aclose()
        for task in tasks:
            with pytest.raises(redis.ConnectionError):
                await task
        await client.rpush("k", "v")
        assert await client.blpop("k") == (b"k", b"v")

    run(main())


def test_tasks_of_a_closed_loop_give_back_their_items(path: str) -> None:
    client = undercroft.asyncio.Redis(path)
    loop = asyncio.new_event_loop()
    task = loop.create_task(client.blpop("k"))
    loop.run_until_complete(asyncio.sleep(0))
    with undercroft.Redis(path) as store:
        store.rpush("k", "v")
        assert store.llen("k") == 0
        loop.close()
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        del task, loop
        gc.collect()
        assert store.lrange("k", 0, -1) == [b"v"]
    assert asyncio.run(client.blpop("k")) == (b"k", b"v")


def test_a_blocking_call_in_a_pipeline_does_not_block_the_loop(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        pipe = client.pipeline(transaction=False)
        (task,) = await begun(pipe.set("k", "v").blpop("jobs").get("k").execute())
        await client.rpush("jobs", 1)
        assert await task == [True, ("jobs", "1"), "v"]
        with pytest.raises(redis.ResponseError, match=r"Command # 1 \(BLPOP k 0\) of pipeline"):
            await client.pipeline(transaction=False).blpop("k").execute()
        # Within a transaction, no command waits.
        assert await client.pipeline().blpop("jobs").set("k", 2).execute() == [None, True]
        async with client.pipeline() as pipe:
            await pipe.watch("k")
            (task,) = await begun(pipe.execute_command("blpop", "jobs", 0))
            await client.rpush("jobs", 2)
            assert await task == ("jobs", "2")

    run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork does not exist here")
def test_a_forked_child_leaves_its_parent_s_tasks_alone(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        tasks = await begun(client.blpop("k"), client.blpop("k"))

        def throw_away() -> None:
            # Close the child's copies of the coroutines.
            for task in tasks:
                task.get_coro().close()  # type: ignore[union-attr]
            tasks.clear()
            gc.collect()
            with undercroft.Redis(path) as store:
                assert store.rpush("k", "1") == 1

        assert in_child(throw_away) == 0
        await client.rpush("k", "2")
        assert await asyncio.gather(*tasks) == [("k", "1"), ("k", "2")]

    run(main())


def test_a_killed_process_loses_no_item(path: str) -> None:
    child = waiter(path)
    child.send_signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    with undercroft.Redis(path) as store:
        store.rpush("jobs", "one")
        assert store.llen("jobs") == 0
        child.kill()
        child.wait()
        assert store.blpop("jobs", timeout=10) == (b"jobs", b"one")


class Counted:
    """A loop's native waits, with a record of each attempt to finish a wait."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.tries: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)

    def finish(self, wait: Any, taken: list[Any]) -> Any:
        self.tries.append(wait)
        return self.native.finish(wait, taken)


# The holder writes to one shard only, so that tasks whose keys are in another shard are served
# while the holder is stopped.
HOLDER = """
import redis, sys, undercroft
r = undercroft.Redis(sys.argv[1])
items = ["v" * 100] * 20000
print("ready", flush=True)
while True:
    r.incr("rounds")
    r.delete("key:1")
    try:
        r.rpush("key:1", *items)
    except redis.ResponseError:  # "key:1" was set meanwhile
        pass
"""


def test_a_held_lock_ends_no_wait(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holder.HOLDER", HOLDER)

    async def main() -> None:
        quick = undercroft.Redis(path, timeout=0.2)
        # The key is in another database, but in the shard that the stopped process has locked.
        client = undercroft.asyncio.Redis(path, db=1)
        answered = await begun(*(client.blpop("key:1") for _ in range(3)))
        late = await begun(*(client.blpop("key:1", timeout=0.001) for _ in range(3)))
        await client.rpush("key:1", *range(3))
        (waits,) = client._waits.values()
        waits._native = counted = Counted(waits._native)
        # Start the holder only now, because a task that finds its lock cannot begin to wait.
        holder = Holder(path)
        ends.callback(holder.end)
        holder.stop(quick)
        start = time.monotonic()
        waits._look(waits._waiting())
        for _ in range(10):
            await asyncio.sleep(0)
        # Tasks that timed out or were served have tried only once to finish.
        assert len(counted.tries) >= 3
        assert len(counted.tries) <= 6 or time.monotonic() - start >= 0.05
        while len(counted.tries) < 7:
            assert not any(task.done() for task in answered + late)
            await asyncio.sleep(0)
        holder.end()
        assert await asyncio.gather(*answered) == [(b"key:1", b"%d" % n) for n in range(3)]
        assert await asyncio.gather(*late) == [None] * 3

    with contextlib.ExitStack() as ends:
        asyncio.run(main())
