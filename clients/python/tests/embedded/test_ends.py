"""Tests that a method with a native call has the same reply, keys and events as its command."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import redis
import undercroft

Prepare = Callable[[undercroft.Redis], object]


def expire(r: undercroft.Redis) -> None:
    """Create a key that has expired but is still in the store."""
    r.set("k", "v", px=1)
    end = time.time() + 0.003
    while time.time() < end:
        pass


STATES: dict[str, Prepare] = {
    "absent": undercroft.Redis.ping,
    "string": lambda r: r.set("k", "text"),
    "long": lambda r: r.set("k", "text" * 1000),
    "integer": lambda r: r.set("k", 17, ex=1000),
    "list": lambda r: r.execute_command("RPUSH", "k", "a", "b", "c"),
    "hash": lambda r: r.execute_command("HSET", "k", "f", "v"),
    "set": lambda r: r.execute_command("SADD", "k", "m", "1"),
    "expired": expire,
}

# Methods with their arguments, each with the equivalent command.
CALLS: list[tuple[str, list[object], list[object]]] = [
    ("get", ["k"], ["GET", "k"]),
    ("set", ["k", "new"], ["SET", "k", "new"]),
    ("mget", [["k", "other", "k"]], ["MGET", "k", "other", "k"]),
    ("mset", [{"k": "1", "l": "2"}], ["MSET", "k", "1", "l", "2"]),
    ("delete", ["k", "other"], ["DEL", "k", "other"]),
    ("exists", ["k", "other", "k"], ["EXISTS", "k", "other", "k"]),
    ("expire", ["k", 100], ["EXPIRE", "k", 100]),
    ("expire", ["k", -1], ["EXPIRE", "k", -1]),
    ("ttl", ["k"], ["TTL", "k"]),
    ("lpush", ["k", "x", "y"], ["LPUSH", "k", "x", "y"]),
    ("rpush", ["k", "x"], ["RPUSH", "k", "x"]),
    ("lpop", ["k"], ["LPOP", "k"]),
    ("rpop", ["k", 2], ["RPOP", "k", 2]),
    ("lrange", ["k", 0, -1], ["LRANGE", "k", 0, -1]),
    ("llen", ["k"], ["LLEN", "k"]),
    ("incr", ["k"], ["INCR", "k"]),
    ("incrby", ["k", 5], ["INCRBY", "k", 5]),
    ("decr", ["k"], ["DECR", "k"]),
    ("decrby", ["k", 5], ["DECRBY", "k", 5]),
    ("hget", ["k", "f"], ["HGET", "k", "f"]),
    ("hset", ["k", "f", "new"], ["HSET", "k", "f", "new"]),
    ("sadd", ["k", "x"], ["SADD", "k", "x"]),
    ("sismember", ["k", "m"], ["SISMEMBER", "k", "m"]),
]


@pytest.fixture
def pair(path: str) -> Iterator[list[undercroft.Redis]]:
    """Yield clients for two stores that publish every keyspace event."""
    pair = [undercroft.Redis(f"{path}.{name}") for name in ("method", "command")]
    for r in pair:
        r.config_set("notify-keyspace-events", "KEAmn")
        # Make the LFU counter count each use of a key.
        r.config_set("maxmemory-policy", "allkeys-lfu")
        r.config_set("lfu-log-factor", 0)
    yield pair
    for r in pair:
        r.close()


def outcome(call: Callable[[], object]) -> object:
    """Return the result of a call, or the error that it raises."""
    try:
        return call()
    except redis.ResponseError as error:
        return str(error)


def test_a_method_has_the_same_effects_as_its_command(pair: list[undercroft.Redis]) -> None:
    listeners = [r.pubsub(ignore_subscribe_messages=True) for r in pair]
    for listener in listeners:
        listener.psubscribe("__key*")
        assert listener.get_message() is None

    def told(listener: undercroft.embedded.pubsub.PubSub) -> Iterator[tuple[object, object]]:
        while message := listener.get_message():
            yield message["channel"], message["data"]

    for name, arguments, words in CALLS:
        for state, prepare in STATES.items():
            found = []
            for r, listener in zip(pair, listeners, strict=True):
                r.flushall()
                prepare(r)
                if r is pair[0]:
                    result = outcome(partial(getattr(r, name), *arguments))
                else:
                    result = outcome(partial(r.execute_command, *words))
                size = r.dbsize()
                expired = r.info("stats")["expired_keys"]
                uses = {key: r.object("freq", key) for key in sorted(r.keys())}
                keys = {key: r.dump(key) for key in uses}
                found.append((result, size, expired, uses, keys, list(told(listener))))
            assert found[0] == found[1], f"{words} on a key that is {state}"
