"""Tests that Django's cache on a store or a server matches Django's own cache on Redis."""

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis.sentinel
from django.core.cache.backends.redis import RedisCache
from undercroft.django import Cache

PARAMETERS = {"TIMEOUT": 300, "KEY_PREFIX": "site", "VERSION": 2}


class Thing:
    """A value that only pickle can store."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and other.name == self.name

    __hash__ = None  # type: ignore[assignment]


CALLS: list[Callable[[Any], Any]] = [
    lambda cache: cache.get("nothing"),
    lambda cache: cache.get("nothing", Thing("a default")),
    lambda cache: cache.set("thing", Thing("lamp")),
    lambda cache: cache.get("thing"),
    lambda cache: cache.get("thing", version=1),
    lambda cache: cache.set("number", 41),
    lambda cache: cache.incr("number"),
    lambda cache: cache.decr("number", 2),
    lambda cache: cache.incr("nothing"),
    lambda cache: cache.set("truth", True),
    lambda cache: cache.get("truth"),
    lambda cache: cache.add("thing", "another"),
    lambda cache: cache.add("added", "first", timeout=None),
    lambda cache: cache.add("at once", "gone", timeout=0),
    lambda cache: cache.get("at once"),
    lambda cache: "added" in cache,
    lambda cache: cache.has_key("nothing"),
    lambda cache: cache.touch("thing", 10),
    lambda cache: cache.touch("thing", None),
    lambda cache: cache.touch("nothing"),
    lambda cache: cache.set_many({"a": 1, "b": b"\x00\xff", "c": [None]}, timeout=20),
    lambda cache: cache.get_many(["a", "b", "c", "d"]),
    lambda cache: cache.delete_many(["a", "nothing"]),
    lambda cache: cache.delete("b"),
    lambda cache: cache.delete("b"),
    lambda cache: cache.get_or_set("made", lambda: "now"),
    lambda cache: cache.get_or_set("made", lambda: "later"),
    lambda cache: cache.incr_version("made"),
    lambda cache: cache.get("made", version=3),
    lambda cache: cache.set("short", "value", timeout=0),
    lambda cache: cache.get("short"),
    lambda cache: cache.set("bad\nkey", 1),
    lambda cache: cache.clear(),
    lambda cache: cache.get_many(["thing", "c"]),
]


def outcome(call: Callable[[Any], Any], cache: Any) -> Any:
    """Return the outcome of a call: a value, or an exception."""
    try:
        return call(cache)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore:Cache key contains")
@pytest.mark.parametrize("kind", ["store", "server"])
def test_each_call_matches_djangos_own_cache(path: str, server_socket: str, kind: str) -> None:
    theirs = RedisCache(f"unix://{server_socket}?db=6", PARAMETERS)
    ours = Cache(
        f"undercroft://{path}" if kind == "store" else f"unix://{server_socket}?db=7", PARAMETERS
    )
    theirs.clear()
    ours.clear()
    for index, call in enumerate(CALLS):
        assert outcome(call, ours) == outcome(call, theirs), f"call {index}"


def test_timeouts_are_as_requested(path: str) -> None:
    cache = Cache(f"undercroft://{path}", {"TIMEOUT": 300})
    client = cache._cache.get_client(write=True)
    cache.set("usual", 1)
    cache.set("short", 1, timeout=20)
    cache.set("ever", 1, timeout=None)
    assert 299 <= client.ttl(":1:usual") <= 300
    assert 19 <= client.ttl(":1:short") <= 20
    assert client.ttl(":1:ever") == -1


def test_options_reach_the_client_and_the_serializer_is_djangos(path: str) -> None:
    options = {"serializer": "json_serializer.Serializer", "maxmemory": "32mb", "db": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "json_serializer", _json())
        cache = Cache(f"undercroft://{path}", {"OPTIONS": options})
        cache.set("thing", {"name": "lamp"})
        assert cache.get("thing") == {"name": "lamp"}
    client = cache._cache.get_client()
    assert client.get(":1:thing") == b'{"name": "lamp"}'
    assert client.db == 3
    assert client.config_get("maxmemory") == {"maxmemory": str(32 << 20)}


def _json() -> Any:
    import json
    import types

    class Serializer:
        dumps = staticmethod(json.dumps)
        loads = staticmethod(json.loads)

    module = types.ModuleType("json_serializer")
    module.Serializer = Serializer  # type: ignore[attr-defined]
    return module


def test_writes_go_to_the_first_location_and_reads_to_the_others(path: str) -> None:
    cache = Cache([f"undercroft://{path}?db=0", f"undercroft://{path}?db=1"], {})
    cache.set("thing", "lamp")
    assert cache.get("thing") is None
    reader = cache._cache.get_client()
    reader.set(":1:thing", pickle.dumps("chair"))
    assert cache.get("thing") == "chair"


def test_the_hosts_of_one_url_stay_together(path: str) -> None:
    sentinels = "redis+sentinel://localhost:1,localhost:2/main"
    client = Cache(sentinels, {})._cache.get_client()
    assert isinstance(client.connection_pool, redis.sentinel.SentinelConnectionPool)
    assert len(client.connection_pool.sentinel_manager.sentinels) == 2
    cache = Cache(f"undercroft://{path};{sentinels},unix:///nobody", {})
    assert cache._servers == [f"undercroft://{path}", sentinels, "unix:///nobody"]


def test_threads_share_one_counter(path: str) -> None:
    cache = Cache(f"undercroft://{path}", {})
    cache.set("count", 0)
    threads = [
        threading.Thread(target=lambda: [cache.incr("count") for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("count") == 2000
