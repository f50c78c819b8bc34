"""Tests that items removed by pipelines and transactions reach the caller or are restored."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from test_taking import (  # noqa: F401
    BEHIND,
    TIMES,
    WORDS,
    Interrupted,
    Storm,
    filled,
    numbers,
    raising,
    shown,
    storm,
)
from undercroft._native import TAKING

WHOLE = pytest.mark.parametrize("whole", [False, True])


@WHOLE
@pytest.mark.parametrize("name", sorted(TAKING))
@pytest.mark.parametrize("kind", [undercroft.Redis, undercroft.Store])
def test_a_handler_that_raises_in_a_pipeline_loses_nothing(path, kind, name, whole):
    r = filled(path)
    before = shown(r)
    client = kind(path, decode_responses=True, encoding_errors=BEHIND)
    add = "execute_command" if kind is undercroft.Redis else "command"
    for callback in (False, True):
        if callback and kind is undercroft.Redis:
            # With a custom callback, Python converts the replies to results.
            client.set_response_callback("INCR", lambda reply, **_: reply)
        pipe = client.pipeline(whole)
        for words in ("RPOP l", f"{name} {WORDS[name]}", "INCR number"):
            getattr(pipe, add)(*words.split())
        with pytest.raises(Interrupted):
            pipe.execute()
        assert shown(r) == before
        assert len(pipe) == 0


@pytest.mark.parametrize("name", sorted(TAKING))
def test_a_handler_that_raises_while_keys_are_watched_loses_nothing(path, name):
    r = filled(path)
    before = shown(r)
    client = undercroft.Redis(path, decode_responses=True, encoding_errors=BEHIND)
    with client.pipeline() as pipe:
        pipe.watch("other")
        with pytest.raises(Interrupted):
            pipe.execute_command(name, *WORDS[name].split())
        assert shown(r) == before
        pipe.multi()
        pipe.execute_command(name, *WORDS[name].split())
        with pytest.raises(Interrupted):
            pipe.execute()
    assert shown(r) == before

    def take(pipe: Any) -> None:
        pipe.multi()
        pipe.execute_command(name, *WORDS[name].split())

    with pytest.raises(Interrupted):
        client.transaction(take, "other")
    assert shown(r) == before


@WHOLE
@pytest.mark.parametrize("name", sorted(TAKING))
def test_a_handler_that_raises_in_a_task_s_pipeline_loses_nothing(path, name, whole):
    r = filled(path)
    before = shown(r)

    async def main() -> None:
        client = undercroft.asyncio.Redis(path, decode_responses=True, encoding_errors=BEHIND)
        pipe = client.pipeline(whole)
        pipe.execute_command(name, *WORDS[name].split())
        pipe.rpop("l")
        with pytest.raises(Interrupted):
            await pipe.execute()
        assert shown(r) == before
        await pipe.watch("other")
        with pytest.raises(Interrupted):
            await pipe.execute_command(name, *WORDS[name].split())
        assert shown(r) == before
        await pipe.reset()

        def take(pipe: Any) -> None:
            pipe.multi()
            pipe.execute_command(name, *WORDS[name].split())

        with pytest.raises(Interrupted):
            await client.transaction(take, "other")
        assert shown(r) == before
        await client.aclose()

    asyncio.run(main())


@WHOLE
def test_a_command_s_error_replaces_all_results_as_in_redis_py(path, whole):
    r = filled(path)
    length = r.llen("l")
    pipe = r.pipeline(whole)
    pipe.lpop("l").incr("l")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        pipe.execute()
    assert r.llen("l") == length - 1
    popped, error = pipe.lpop("l").incr("l").execute(raise_on_error=False)
    assert popped.endswith(b"2")
    assert isinstance(error, redis.ResponseError)
    # Results that reach the caller are not restored.
    assert pipe.lpop("l").getdel("t").execute()[0].endswith(b"3")
    assert not r.exists("l", "t")


@pytest.mark.parametrize("how", ["one by one", "whole", "watched", "store"])
def test_a_storm_of_signals_loses_nothing_of_pipelines(path, storm: Storm, how):  # noqa: F811
    r = undercroft.Redis(path)
    store = undercroft.Store(path)
    received: list[Any] = []
    sent = 0
    chance = random.Random(0)

    def queue(pipe: Any) -> Any:
        if how == "watched":
            pipe.multi()
        pipe.lpop("k")
        pipe.rpop("k", 2)
        if chance.random() < 0.5:
            pipe.spop("s", 2)
        return pipe

    def step() -> bool:
        if how == "watched":
            received.append(r.transaction(queue, "k"))
        elif how == "store":
            received.append(queue(store.pipeline()).execute())
        else:
            received.append(queue(r.pipeline(how == "whole")).execute())
        return any(received[-1])

    while storm.count < TIMES:
        items = [b"%d" % number for number in range(sent, sent + 200)]
        r.rpush("k", *items[:120])
        r.sadd("s", *items[120:])
        sent += 200
        storm.run(step, storm.count + TIMES // 5)
    received += [r.lrange("k", 0, -1), r.smembers("s")]
    assert Counter(numbers(received)) == Counter(range(sent))
