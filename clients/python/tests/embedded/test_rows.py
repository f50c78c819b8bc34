"""Tests that methods with native calls behave like redis-py's methods of the same names."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from redis.commands import CoreCommands
from redis.commands.core import BasicKeyCommands
from undercroft._native import METHODS

# A Unix time in the far future, which both stores use.
LATER = 4_000_000_000

# The arguments for the calls to each method. All states concern the key "k"; "o" is another key.
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "append": [("k", "x"), (b"k", 1), ("k", 1.5)],
    "bitcount": [("k",)],
    "getbit": [("k", 3), ("k", "x")],
    "getdel": [("k",)],
    "getex": [("k",)],
    "getrange": [("k", 0, 1), ("k", -1, -1), ("k", "x", 1)],
    "getset": [("k", "new")],
    "incrbyfloat": [("k", 1.5), ("k", 2), ("k", "x")],
    "msetnx": [({"k": 1, "o": b"2"},), ({"new": 1, b"newer": 2.5},)],
    "psetex": [("k", 10_000_000, "v"), ("k", 0, "v")],
    "setex": [("k", 10_000, "v"), ("k", -1, "v"), ("k", "x", "v")],
    "setnx": [("k", "v"), ("new", 1)],
    "setrange": [("k", 2, "xyz"), ("k", -1, "x")],
    "strlen": [("k",)],
    "expireat": [("k", LATER), ("k", 1)],
    "expiretime": [("k",)],
    "persist": [("k",)],
    "pexpire": [("k", 10**12), ("k", -1), ("k", "x")],
    "pexpireat": [("k", LATER * 1000), ("k", 1)],
    "pexpiretime": [("k",)],
    "pttl": [("o",), ("none",)],
    "rename": [("k", "new"), ("none", "new"), ("k", "o")],
    "renamenx": [("k", "new"), ("k", "o"), ("none", "o")],
    "touch": [("k", "o", "none"), ("k",)],
    "type": [("k",)],
    "unlink": [("k", "o", "none"), ("k",)],
    "hdel": [("k", "f", "g", "none"), ("k", b"1")],
    "hexists": [("k", "f"), ("k", "none")],
    "hgetall": [("k",), ("none",)],
    "hincrby": [("k", "1", 5), ("k", "f", 1), ("k", "1", "x")],
    "hincrbyfloat": [("k", "1", 5.25), ("k", "f", 1.0)],
    "hkeys": [("k",)],
    "hlen": [("k",)],
    "hmget": [("k", ["f", "none", b"1"]), ("k", "f", "1"), ("k", ("f",)), ("k", [])],
    "hsetnx": [("k", "f", "v"), ("k", "new", 7)],
    "hstrlen": [("k", "f"), ("k", "none")],
    "hvals": [("k",)],
    "lindex": [("k", 0), ("k", -1), ("k", 99), ("k", "x")],
    "linsert": [("k", "BEFORE", "b", "x"), ("k", "after", "none", "x"), ("k", "wrong", "b", "x")],
    "lmove": [("k", "o", "LEFT", "RIGHT"), ("k", "k", "RIGHT", "LEFT"), ("k", "l", "x", "LEFT")],
    "lpos": [("k", "b"), ("k", "none")],
    "lpushx": [("k", "x", 1)],
    "lrem": [("k", 0, "a"), ("k", -1, "b")],
    "lset": [("k", 0, "x"), ("k", 99, "x")],
    "ltrim": [("k", 1, 1), ("k", 0, -1), ("k", 5, 4)],
    "rpoplpush": [("k", "l"), ("k", "k"), ("k", "o")],
    "rpushx": [("k", "x", 1.5)],
    "scard": [("k",)],
    "sdiff": [(["k", "s"],), ("k", "s"), ("k",), ([],)],
    "sinter": [(["k", "s"],), ("k", "s"), (("k",),)],
    "smembers": [("k",), ("none",)],
    "smismember": [("k", ["a", "none"]), ("k", "a", "b")],
    "smove": [("k", "s", "a"), ("k", "s", "none"), ("k", "o", "a")],
    "spop": [("one",), ("one", 3), ("one", None), ("k", -1), ("none",)],
    "srandmember": [("one",), ("one", 3), ("one", None), ("none",)],
    "srem": [("k", "a", "none"), ("k", 1)],
    "sunion": [(["k", "s"],), ("k", "s")],
    "zadd": [
        ("k", {"a": 1, b"new": 2.5}),
        ("k", {"a": "x"}),
        ("k", {"i": float("inf")}),
        ("k", {}),
    ],
    "zcard": [("k",)],
    "zcount": [("k", 1, 2), ("k", "-inf", "(2"), ("k", "x", 1)],
    "zincrby": [("k", 1.5, "a"), ("k", 1, "new"), ("k", "x", "a")],
    "zlexcount": [("k", "-", "+"), ("k", "[a", "[b"), ("k", "x", "+")],
    "zmscore": [("k", ["a", "none"]), ("k", []), ("k", ("a",)), ("k", "a")],
    "zpopmax": [("k",), ("k", 2), ("k", None), ("none",)],
    "zpopmin": [("k",), ("k", 2), ("k", 0)],
    "zrange": [("k", 0, -1), ("k", 1, 1), ("k", "x", 1)],
    "zrangebylex": [("k", "-", "+"), ("k", "(a", "+")],
    "zrangebyscore": [("k", 1, 2), ("k", "-inf", "+inf")],
    "zrank": [("k", "b"), ("k", "none")],
    "zrem": [("k", "a", "none")],
    "zremrangebylex": [("k", "-", "[a")],
    "zremrangebyrank": [("k", 0, 0)],
    "zremrangebyscore": [("k", 1, 1)],
    "zrevrange": [("k", 0, -1)],
    "zrevrangebylex": [("k", "+", "-")],
    "zrevrangebyscore": [("k", "+inf", "-inf")],
    "zrevrank": [("k", "b"), ("k", "none")],
    "zscore": [("k", "a"), ("k", "none"), ("k", 1)],
    "pfadd": [("k", "a", "b"), ("new", "a")],
    "pfcount": [("k", "none"), ("none",)],
}
# Methods that also have a typed call in the engine.
CALLS |= {
    "get": [("k",)],
    "set": [("k", "v"), ("k", 1), ("k", b"\xc3\xa9")],
    "mget": [(["k", "o"],), ("k", "o")],
    "mset": [({"k": 1, "o": "x"},)],
    "delete": [("k", "o")],
    "exists": [("k", "k", "none")],
    "expire": [("k", 10_000), ("k", -1)],
    "ttl": [("o",)],
    "incr": [("k",), ("k", 5), ("new", "x")],
    "incrby": [("k", 2)],
    "decr": [("k",), ("k", 5)],
    "decrby": [("k",)],
    "lpush": [("k", "x", 1)],
    "rpush": [("k", "x", 1)],
    "lpop": [("k",), ("k", 2), ("k", None)],
    "rpop": [("k",), ("k", 2)],
    "lrange": [("k", 0, -1)],
    "llen": [("k",)],
    "hget": [("k", "f")],
    "hset": [("k", "f", 1), ("k",)],
    "keys": [("[k]",), ("on*",), ("none",)],
    "dbsize": [()],
    "flushdb": [()],
    "sadd": [("k", "x", 1)],
    "sismember": [("k", "a")],
}

# Calls with optional arguments, both by position and by name.
OPTIONS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("get", (), {"name": "k"}),
    ("set", ("k", "v"), {"ex": 100, "nx": True}),
    ("set", ("k", "v"), {"px": 100_000, "xx": True}),
    ("set", ("k", "v"), {"get": True}),
    ("set", ("k", "v"), {"keepttl": True}),
    ("set", ("k", "v"), {"exat": LATER}),
    ("set", ("k", "v"), {"pxat": LATER * 1000}),
    ("set", ("k", "v", 100), {}),
    ("set", ("k", "v", None, 100_000), {}),
    ("set", ("k",), {"value": "v"}),
    ("expire", ("k", 100), {"gt": True}),
    ("expire", ("k", 100), {"nx": True}),
    ("pexpireat", ("k", LATER * 1000), {"xx": True}),
    ("getex", ("k",), {"ex": 100}),
    ("getex", ("k",), {"persist": True}),
    ("bitcount", ("k", 0, 2), {}),
    ("bitcount", ("k",), {"start": 0, "end": -1, "mode": "BIT"}),
    ("incr", ("k",), {"amount": 3}),
    ("incrbyfloat", ("k",), {}),
    ("hincrby", ("k", "1"), {}),
    ("hincrbyfloat", ("k", "1"), {}),
    ("hset", ("k", "f"), {}),
    ("hset", ("k",), {"mapping": {"x": 1, "y": "z"}}),
    ("hset", ("k",), {"items": ["x", 1, "y", 2]}),
    ("hset", ("k", "x", 5, {"y": 2}), {}),
    ("lmove", ("k", "o2"), {}),
    ("lpos", ("k", "b"), {"count": 0}),
    ("lpos", ("k", "b"), {"rank": -1}),
    ("lpop", ("k",), {"count": 2}),
    ("zadd", ("k", {"a": 5}), {"nx": True}),
    ("zadd", ("k", {"a": 5, "new": 1}), {"ch": True}),
    ("zadd", ("k", {"a": 5}), {"incr": True}),
    ("zadd", ("k", {"a": 5, "b": 1}), {"gt": True, "ch": True}),
    ("zrange", ("k", 0, -1), {"withscores": True}),
    ("zrange", ("k", 0, -1), {"desc": True}),
    ("zrange", ("k", 0, -1, True, True), {}),
    ("zrange", ("k", 1, 3), {"byscore": True, "offset": 0, "num": 1}),
    ("zrangebyscore", ("k", 1, 3, 0, 1), {}),
    ("zrangebyscore", ("k", 1, 3), {"withscores": True}),
    ("zrangebylex", ("k", "-", "+", 1, 1), {}),
    ("zrevrange", ("k", 0, 1), {"withscores": True}),
    ("zrevrange", ("k", 0, 1, True), {"score_cast_func": float}),
    ("zrevrangebyscore", ("k", 3, 1, 0, 2), {"withscores": True}),
    ("keys", (), {"pattern": "s"}),
    ("flushdb", (), {"asynchronous": True}),
]

# The states of the key, each created with redis-py's own methods.
STATES: dict[str, Callable[[Any], Any]] = {
    "absent": lambda _: None,
    "string": lambda r: r.set("k", "value"),
    "integer": lambda r: r.set("k", 41),
    "float": lambda r: r.set("k", "1.25"),
    "expiring": lambda r: r.set("k", "value", exat=LATER),
    "list": lambda r: r.rpush("k", "a", "b", "c"),
    "hash": lambda r: r.hset("k", mapping={"f": "v", "g": "w", "1": "2"}),
    "large hash": lambda r: r.hset("k", mapping={str(n): n for n in range(300)}),
    "set": lambda r: r.sadd("k", "a", "b", "c"),
    "integers": lambda r: r.sadd("k", 1, 2, 3),
    "sorted set": lambda r: r.zadd("k", {"a": 1, "b": 2, "c": 3.5}),
    "large sorted set": lambda r: r.zadd("k", {str(n): n / 3 for n in range(300)}),
}


def prepare(client: Any, state: str) -> None:
    client.flushall()
    client.set("o", "other")
    client.rpush("l", "one")
    client.sadd("s", "a", "x")
    client.sadd("one", "only")
    STATES[state](client)


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """Return the outcome of a call: a value with its type, or an exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            value = call()
    except Exception as error:
        return "raised", (type(error), str(error))
    return type(value).__name__, value


def contents(client: Any) -> dict[Any, Any]:
    """Return the content and expiry time of every key in a store."""
    return {key: (client.dump(key), client.pexpiretime(key) > 0) for key in client.scan_iter()}


def test_every_row_is_called() -> None:
    assert {method for _, method in METHODS} == set(CALLS)


@pytest.mark.parametrize("state", STATES)
def test_calls_match_redis_pys(pair: tuple[Any, Any], state: str) -> None:
    ours, theirs = pair
    for name, calls in CALLS.items():
        for arguments in calls:
            prepare(ours, state)
            prepare(theirs, state)
            own = outcome(lambda: getattr(ours, name)(*arguments))  # noqa: B023
            redis_pys = outcome(lambda: getattr(CoreCommands, name)(theirs, *arguments))  # noqa: B023
            assert own == redis_pys, (name, arguments)
            assert contents(ours) == contents(theirs), (name, arguments)


@pytest.mark.parametrize("state", STATES)
def test_options_match_redis_pys(pair: tuple[Any, Any], state: str) -> None:
    ours, theirs = pair
    for name, arguments, options in OPTIONS:
        prepare(ours, state)
        prepare(theirs, state)
        own = outcome(lambda: getattr(ours, name)(*arguments, **options))  # noqa: B023
        redis_pys = outcome(lambda: getattr(CoreCommands, name)(theirs, *arguments, **options))  # noqa: B023
        assert own == redis_pys, (name, arguments, options)
        assert contents(ours) == contents(theirs), (name, arguments, options)


@pytest.mark.parametrize("transaction", [False, True], ids=["plain", "transaction"])
@pytest.mark.parametrize("state", ["absent", "string", "list", "hash", "set", "sorted set"])
@pytest.mark.parametrize("mixed", [False, True], ids=["native", "mixed"])
def test_pipelines_match_redis_pys(
    pair: tuple[Any, Any], state: str, transaction: bool, mixed: bool
) -> None:
    ours, theirs = pair
    for client in pair:
        prepare(client, state)
    queues = ours.pipeline(transaction), theirs.pipeline(transaction)
    for name, calls in CALLS.items():
        for arguments in calls:
            if [] in arguments or name == "flushdb":
                # Skip calls that are rejected, because they fail the entire transaction, and calls
                # that leave nothing to compare.
                continue
            own = outcome(lambda: getattr(queues[0], name)(*arguments) is queues[0])  # noqa: B023
            redis_pys = outcome(
                lambda: getattr(CoreCommands, name)(queues[1], *arguments) is queues[1]  # noqa: B023
            )
            assert own == redis_pys, (name, arguments)
    stacks = [[words for words, _ in queue.command_stack] for queue in queues]
    assert stacks[0] == stacks[1]
    if mixed:
        # INFO's result is parsed in Python, so the list of all results is also built in Python.
        queues[0].info()
    results = [queue.execute(raise_on_error=False) for queue in queues]
    if mixed:
        assert "redis_version" in results[0].pop()
    for at, (own, redis_pys) in enumerate(zip(*results, strict=True)):
        if isinstance(redis_pys, Exception):
            assert (type(own), str(own)) == (type(redis_pys), str(redis_pys)), stacks[0][at]
        else:
            assert (type(own), own) == (type(redis_pys), redis_pys), stacks[0][at]
    assert contents(ours) == contents(theirs)


def test_a_custom_callback_is_called(pair: tuple[Any, Any]) -> None:
    client, _ = pair
    client.zadd("k", {"a": 1.5})
    assert client.zscore("k", "a") == 1.5
    client.set_response_callback("ZSCORE", lambda reply: ("mine", float(reply)))
    assert client.zscore("k", "a") == ("mine", 1.5)
    assert client.execute_command("zscore", "k", "a") == ("mine", 1.5)
    with client.pipeline() as pipe:
        assert pipe.zscore("k", "a").zcard("k").execute() == [("mine", 1.5), 1]


def test_while_keys_are_watched_a_pipeline_runs_commands_at_once(pair: tuple[Any, Any]) -> None:
    client, _ = pair
    with client.pipeline() as pipe:
        pipe.watch("k")
        assert pipe.scard("k") == 0
        assert pipe.command_stack == []
        pipe.multi()
        assert pipe.sadd("k", "a") is pipe
        assert len(pipe.command_stack) == 1
        assert pipe.execute() == [1]


def test_a_custom_callback_in_the_shared_dictionary_is_called() -> None:
    program = """
import tempfile, undercroft
with tempfile.TemporaryDirectory(dir="/dev/shm") as home:
    with undercroft.Redis(home + "/store") as client:
        client.response_callbacks["EXPIRE"] = lambda reply: ("mine", reply)
        assert client.execute_command("EXPIRE", "none", 1) == ("mine", 0)
        assert client.execute_command("SETNX", "k", "v") is True
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_callback_leaves_other_commands_native(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = pair

    def called(*_: Any) -> str:
        return "redis-py's"

    for method in ("strlen", "get"):
        monkeypatch.setattr(BasicKeyCommands, method, called)
    client.set_response_callback("INFO", str)
    assert (client.strlen("k"), client.get("k")) == (0, None)
    client.set_response_callback("strlen", str)
    assert client.strlen("k") == "redis-py's"


def test_an_invalid_command_leaves_no_open_transaction(pair: tuple[Any, Any]) -> None:
    link = pair[0].pipeline().link
    wrong: Any = "nonsense"
    with pytest.raises(TypeError):
        link._execute_many([(("MULTI",), {}), wrong])
    assert link._execute_many([(("STRLEN", "k"), {})]) == [0]


def test_the_reply_to_multi_is_not_taken_for_a_result(pair: tuple[Any, Any]) -> None:
    pipe = pair[0].pipeline()
    pipe.link._execute_many([(("MULTI",), {})])
    # MULTI is rejected within a transaction, and the commands after it run in the open transaction.
    assert pipe.strlen("k").strlen("k").execute() == [0, 0]
