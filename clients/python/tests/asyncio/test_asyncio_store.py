"""Tests that the asyncio client for an embedded store returns the synchronous client's results."""

import asyncio
import inspect

import pytest
import redis
import undercroft
import undercroft.asyncio
from conftest import Run
from sessions import SESSIONS, VOLATILE
from sessions import evaluate as evaluate_at_once
from test_asyncio import CALL, evaluate


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_sessions_give_the_same_results_as_without_asyncio(path: str) -> None:
    async def main() -> None:
        ours = undercroft.asyncio.Redis(path)
        with undercroft.Redis(path + "-beside") as theirs:
            for session in SESSIONS:
                if any("time" in line or "freq" in line or "slowlog" in line for line in session):
                    continue
                calls = [line for line in session if CALL.match(line) and not VOLATILE.search(line)]
                for call in calls:
                    wanted = evaluate_at_once(call, theirs)
                    found = await evaluate(call, ours)
                    if wanted[0] == "raised":
                        assert found[0] == "raised", call
                        continue
                    assert found == wanted, call
                for client in (ours.store, theirs):
                    client.flushall()
                    client.select(0)
        await ours.aclose()

    asyncio.run(main())


def test_commands_finish_at_once(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis.from_url(f"undercroft://{path}") as client:
            assert isinstance(client, undercroft.asyncio.EmbeddedRedis)
            assert isinstance(client, undercroft.asyncio.Redis)
            coroutine = client.set("k", 1)
            assert inspect.iscoroutine(coroutine)
            with pytest.raises(StopIteration) as done:
                coroutine.send(None)  # the call finishes without an event loop
            assert done.value.value is True
            assert await asyncio.gather(*(client.incr("k") for _ in range(5))) == [2, 3, 4, 5, 6]
            assert [key async for key in client.scan_iter()] == [b"k"]
            with pytest.raises(redis.ResponseError):
                await client.lpush("k", "x")

    run(main())


def test_pipelines_and_transactions(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        async with client.pipeline() as pipe:
            assert await pipe.set("k", 1).incr("k").get("k").execute() == [True, 2, "2"]
            await pipe.watch("k")
            assert await pipe.get("k") == "2"
            await client.set("k", 9)
            pipe.multi()
            pipe.get("k")
            with pytest.raises(redis.WatchError):
                await pipe.execute()

        async def bump(pipe: undercroft.asyncio.Redis) -> None:
            value = int(await pipe.get("k"))
            pipe.multi()
            pipe.set("k", value + 1)

        assert await client.transaction(bump, "k") == [True]
        assert await client.get("k") == "10"

    run(main())


def test_messages_are_awaited_in_the_loop(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        async with client.pubsub() as messages:
            await messages.subscribe("news")
            await messages.psubscribe("n*")
            kinds = [(await messages.get_message(timeout=60))["type"] for _ in range(2)]
            assert kinds == ["subscribe", "psubscribe"]
            assert await messages.get_message() is None
            assert await messages.get_message(timeout=0.01) is None
            waiting = asyncio.create_task(messages.get_message(timeout=None))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="one task"):
                await messages.get_message(timeout=None)
            while not waiting.done():
                await client.publish("news", "hello")
                await asyncio.sleep(0)
            assert (await waiting)["data"] == "hello"
            heard = []
            async for message in messages.listen():
                heard.append(message["data"])
                if message["data"] == "last":
                    break
                if len(heard) == 1:
                    await client.publish("news", "last")
            assert heard[-1] == "last"

    run(main())


def test_a_waiting_task_lets_other_tasks_run(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True)
        assert await client.blpop(["empty"], timeout=0.01) is None
        waiting = [
            asyncio.create_task(client.blpop(["a", "b"])),
            asyncio.create_task(client.brpoplpush("source", "target", timeout=60)),
            asyncio.create_task(client.bzpopmin("sorted", timeout=60)),
            asyncio.create_task(client.blmpop(60, 1, "many", direction="LEFT", count=2)),
        ]
        cancelled = asyncio.create_task(client.blpop("never"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await client.rpush("never", "kept")
        await client.rpush("b", "1")
        await client.rpush("source", "2")
        await client.zadd("sorted", {"3": 3})
        await client.rpush("many", "4", "5", "6")
        results = [tuple(result) for result in await asyncio.gather(*waiting)]
        assert results == [("b", "1"), ("2",), ("sorted", "3", 3.0), ("many", ["4", "5"])]
        assert await client.lrange("target", 0, -1) == ["2"]
        assert await client.lrange("never", 0, -1) == ["kept"]
        await client.set("k", "v")
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            await client.blpop("k", timeout=1)
        with pytest.raises(redis.ResponseError, match="timeout is not a float"):
            await client.execute_command("blpop", "k", "soon")

    run(main())


def test_closing_a_receiver_releases_its_waiters(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(path)
        p = client.pubsub(ignore_subscribe_messages=True)
        await p.subscribe("a")
        assert await p.get_message() is None
        waiter = asyncio.create_task(p.get_message(timeout=None))
        while p._waiting is None:
            await asyncio.sleep(0)
        await p.aclose()
        assert await client.publish("a", "x") == 0
        with pytest.raises(redis.ConnectionError):
            await asyncio.wait_for(waiter, 60)
        await p.subscribe("a")
        assert await client.publish("a", "x") == 1
        await p.aclose()

    run(main())
