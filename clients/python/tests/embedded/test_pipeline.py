"""Tests that pipelines and transactions behave as redis-py's do on a real server."""

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest
import redis
import undercroft

Act = Callable[[Any], Any]


def outcome(act: Act, client: Any) -> Any:
    """Return the result of a function, or its exception's type and text."""
    client.flushall()
    try:
        return act(client)
    except Exception as error:
        return type(error), str(error)


def commands(transaction: bool) -> Act:
    """Run several commands with differently shaped results."""

    def act(client: Any) -> Any:
        with client.pipeline(transaction=transaction) as pipe:
            assert pipe.set("a", "1") is pipe
            pipe.incr("a").get("a").mget("a", "none").exists("a", "b").expire("a", 100)
            pipe.type("a").object("encoding", "a").setrange("b", 2, b"x").get("b").ping()
            assert len(pipe) == 11
            results = pipe.execute()
            assert len(pipe) == 0
            return results, pipe.execute(), client.get("a")

    return act


def fails(transaction: bool, raises: bool) -> Act:
    """Run a failing command between two that succeed."""

    def act(client: Any) -> Any:
        pipe = client.pipeline(transaction=transaction)
        pipe.set("a", "text").incr("a").set("b", "2")
        if raises:
            with pytest.raises(redis.ResponseError) as raised:
                pipe.execute()
            return str(raised.value), client.get("b")
        results = pipe.execute(raise_on_error=False)
        return [(type(result), str(result)) for result in results], client.get("b")

    return act


def without_keys(transaction: bool) -> Act:
    """Request the values of no keys, which needs no reply."""

    def act(client: Any) -> Any:
        pipe = client.pipeline(transaction=transaction)
        first = pipe.set("a", "1").mget([]).get("a").execute()
        pipe.mget([]).set("a", "text").incr("a")
        return first, pipe.mget([]).execute(raise_on_error=False)[:2]

    return act


def long_error(client: Any) -> Any:
    """Run a failing command whose text is too long for an error message."""
    pipe = client.pipeline()
    pipe.set("a", "text").rpush("a", *(f"item:{number}" for number in range(50)))
    with pytest.raises(redis.ResponseError) as raised:
        pipe.execute()
    return str(raised.value)


def refused(client: Any) -> Any:
    """Queue a command that every server rejects."""
    with client.pipeline() as pipe:
        pipe.set("a", "1").execute_command("GET").set("b", "2")
        with pytest.raises(redis.ResponseError) as raised:
            pipe.execute()
    return str(raised.value), client.exists("a", "b")


def unchanged(client: Any) -> Any:
    """Watch a key that no client changes."""
    client.set("balance", 10)
    with client.pipeline() as pipe:
        assert pipe.watch("balance")
        balance = int(pipe.get("balance"))
        pipe.multi()
        pipe.set("balance", balance + 5).get("balance")
        return pipe.execute()


def changed(client: Any) -> Any:
    """Watch a key that another client changes."""
    client.set("balance", 10)
    with client.pipeline() as pipe:
        pipe.watch("balance")
        client.set("balance", 99)
        pipe.multi()
        pipe.set("balance", 15)
        with pytest.raises(redis.WatchError) as raised:
            pipe.execute()
        pipe.set("other", "1")
        return str(raised.value), client.get("balance"), pipe.execute()


def unwatched(client: Any) -> Any:
    """Unwatch keys, or execute without having watched any."""
    with client.pipeline() as pipe:
        assert pipe.unwatch()
        pipe.watch("a")
        client.set("a", "1")
        assert pipe.unwatch()
        pipe.get("a")
        assert len(pipe) == 1
        pipe.watch("a", "b")
        pipe.reset()
        client.set("a", "2")
        pipe.get("a")
        return pipe.execute()


def misused(client: Any) -> Any:
    """Call methods in the wrong order."""
    texts = []
    with client.pipeline() as pipe:
        pipe.multi()
        for call in (pipe.multi, lambda: pipe.watch("a")):
            with pytest.raises(redis.RedisError) as raised:
                call()
            texts.append(str(raised.value))
    with client.pipeline() as pipe:
        pipe.set("a", "1")
        with pytest.raises(redis.RedisError) as raised:
            pipe.multi()
        texts.append(str(raised.value))
    return texts, client.exists("a")


def invalid(client: Any) -> Any:
    """Queue an argument that cannot be encoded."""
    with client.pipeline() as pipe:
        pipe.set("a", "1").set("b", object())
        with pytest.raises(redis.DataError):
            pipe.execute()
        return client.exists("a", "b"), pipe.set("c", "1").execute()


def with_function(client: Any) -> Any:
    """Call ``transaction`` so that it retries, with each form of result."""
    client.set("a", "1")
    calls = []

    def add(pipe: Any) -> str:
        value = int(pipe.get("a"))
        calls.append(value)
        if len(calls) < 3:
            client.incr("a", 10)
        pipe.multi()
        pipe.set("a", value + 1).get("a")
        return "value"

    results = client.transaction(add, "a")
    return results, client.transaction(add, "a", value_from_callable=True), calls


def in_databases(client: Any) -> Any:
    """Select another database within a transaction."""
    with client.pipeline() as pipe:
        pipe.execute_command("SELECT", 3)
        pipe.set("k", "three")
        pipe.execute_command("SELECT", 0)
        pipe.get("k")
        return pipe.execute()


ACTS = [
    commands(True),
    commands(False),
    fails(True, True),
    fails(True, False),
    fails(False, True),
    fails(False, False),
    without_keys(True),
    without_keys(False),
    long_error,
    refused,
    unchanged,
    changed,
    unwatched,
    misused,
    invalid,
    with_function,
    in_databases,
]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__qualname__.split(".")[0])
@pytest.mark.parametrize("decode", [False, True])
def test_outcomes_match_those_of_a_server(
    path: str, server_socket: str, act: Act, decode: bool
) -> None:
    ours = undercroft.Redis(path, decode_responses=decode)
    theirs = redis.Redis(unix_socket_path=server_socket, decode_responses=decode, protocol=2)
    assert outcome(act, ours) == outcome(act, theirs)


def test_a_pipeline_keeps_its_own_database(r: undercroft.Redis) -> None:
    pipe = r.pipeline()
    pipe.execute_command("SELECT", 5)
    pipe.set("k", "v")
    pipe.execute()
    assert (r.db, r.exists("k")) == (0, 0)


def _moves(path: str, seed: int, rounds: int) -> None:
    """Move amounts between keys, one transaction per move."""
    client = undercroft.Redis(path)
    for step in range(rounds):
        amount = (seed * 7 + step) % 13
        source, target = f"account:{(seed + step) % 8}", f"account:{(seed + step * 3 + 1) % 8}"
        client.pipeline().decrby(source, amount).incrby(target, amount).execute()


@pytest.mark.parametrize("transaction", [False, True])
def test_a_pipeline_is_independent_of_its_client_s_transaction(
    r: undercroft.Redis, transaction: bool
) -> None:
    r.execute_command("MULTI")
    assert r.execute_command("APPEND", "a", "client") == b"QUEUED"
    pipe = r.pipeline(transaction=transaction)
    assert pipe.append("a", "pipeline,").get("a").execute() == [9, b"pipeline,"]
    assert r.execute_command("EXEC") == [15]
    # A pipeline does not end the WATCH of its client.
    r.execute_command("WATCH", "a")
    assert pipe.set("a", "1").get("a").execute() == [True, b"1"]
    r.execute_command("MULTI")
    r.execute_command("APPEND", "a", "client")
    assert r.execute_command("EXEC") is None
    # If the client has neither MULTI nor WATCH pending, client and pipeline share one connection. A
    # failed pipeline leaves no state on it.
    with pytest.raises(redis.ResponseError, match="Command # 2 "):
        pipe.set("b", "x").incr("b").execute()
    assert pipe.execute() == []
    assert pipe.incr("a").incr("b").execute(raise_on_error=False)[0] == 2
    assert r.append("a", "3") == 2


def test_readers_see_all_of_a_transaction_or_nothing(r: undercroft.Redis, path: str) -> None:
    keys = [f"account:{number}" for number in range(8)]
    r.mset(dict.fromkeys(keys, 1000))
    context = multiprocessing.get_context("spawn")
    movers = [context.Process(target=_moves, args=(path, seed, 3000)) for seed in range(2)]
    for mover in movers:
        mover.start()
    sums = set()
    reads = 0
    while any(mover.is_alive() for mover in movers):
        sums.add(sum(int(value) for value in r.mget(keys)))
        reads += 1
    for mover in movers:
        mover.join()
    assert [mover.exitcode for mover in movers] == [0, 0]
    assert (sums, reads > 100) == ({8000}, True)


def _increments(path: str, rounds: int) -> None:
    """Increment a counter in a WATCH loop."""
    client = undercroft.Redis(path)

    def add(pipe: Any) -> None:
        value = int(pipe.get("counter"))
        pipe.multi()
        pipe.set("counter", value + 1)

    for _ in range(rounds):
        client.transaction(add, "counter")


def test_no_increment_is_lost_between_processes(r: undercroft.Redis, path: str) -> None:
    r.set("counter", 0)
    context = multiprocessing.get_context("spawn")
    adders = [context.Process(target=_increments, args=(path, 500)) for _ in range(3)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    assert [adder.exitcode for adder in adders] == [0, 0, 0]
    assert r.get("counter") == b"1500"
