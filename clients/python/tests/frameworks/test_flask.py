"""Tests that Flask-Caching on a store or a server works as it does on Redis."""

from typing import Any

import pytest
import undercroft
from flask import Flask
from flask_caching import Cache


@pytest.fixture(params=["store", "server"])
def url(request: pytest.FixtureRequest, path: str) -> str:
    if request.param == "store":
        return f"undercroft://{path}"
    socket = request.getfixturevalue("server_socket")
    with undercroft.Redis.from_url(f"unix://{socket}?db=8") as client:
        client.flushdb()
    return f"unix://{socket}?db=8"


def made(url: str, **settings: Any) -> Cache:
    """Return the cache of a newly created application."""
    app = Flask("shop")
    app.config |= {"CACHE_TYPE": "undercroft.flask_caching.Cache", "CACHE_REDIS_URL": url}
    app.config |= settings
    cache = Cache(app)
    app.app_context().push()
    return cache


def test_cached_values_of_all_kinds_are_read_back(url: str) -> None:
    cache = made(url)
    assert cache.get("thing") is None
    assert cache.set("thing", {"name": "lamp", "costs": [4, None]}) is True
    assert cache.get("thing") == {"name": "lamp", "costs": [4, None]}
    assert cache.add("thing", 1) is False
    assert cache.set_many({"a": 1, "b": "two"}) == ["a", "b"]
    assert cache.get_many("a", "b", "c") == [1, "two", None]
    assert cache.get_dict("a", "c") == {"a": 1, "c": None}
    assert cache.has("a") is True
    assert cache.cache.inc("count", 2) == 2
    assert cache.delete("a") is True
    assert cache.delete("a") is False
    assert cache.unlink("b") == 1
    assert cache.clear() is True
    assert cache.get("thing") is None


def test_settings_take_effect(path: str) -> None:
    cache = made(
        f"undercroft://{path}",
        CACHE_KEY_PREFIX="shop:",
        CACHE_DEFAULT_TIMEOUT=50,
        CACHE_OPTIONS={"db": 2, "maxmemory": "32mb"},
    )
    cache.set("usual", 1)
    cache.set("ever", 1, timeout=0)
    with undercroft.Redis(path, db=2) as client:
        client.set("another's", 1)
        assert sorted(client.keys()) == [b"another's", b"shop:ever", b"shop:usual"]
        assert 49 <= client.ttl("shop:usual") <= 50
        assert client.ttl("shop:ever") == -1
        assert client.config_get("maxmemory") == {"maxmemory": str(32 << 20)}
        cache.clear()
        assert client.keys() == [b"another's"]


def test_the_database_setting_of_flask_caching_works(path: str) -> None:
    url = f"undercroft://{path}"
    made(url, CACHE_REDIS_DB=1).set("thing", 1)
    made(url, CACHE_REDIS_DB=1, CACHE_OPTIONS={"db": 2}).set("thing", 1)
    made(f"{url}?db=3", CACHE_REDIS_DB=1).set("thing", 1)
    with undercroft.Redis(path) as client:
        assert {name: each["keys"] for name, each in client.info("keyspace").items()} == {
            "db1": 1,
            "db2": 1,
            "db3": 1,
        }


@pytest.mark.parametrize("part", ["HOST", "PORT", "PASSWORD"])
def test_host_port_and_password_settings_require_a_url(path: str, part: str) -> None:
    with pytest.raises(ValueError, match=f"expected only CACHE_REDIS_URL.* CACHE_REDIS_{part}"):
        made("", **{f"CACHE_REDIS_{part}": "6379"})
    made(f"undercroft://{path}", **{f"CACHE_REDIS_{part}": "6379"}).set("thing", 1)


def test_a_client_made_by_the_program_is_used(path: str) -> None:
    from undercroft.flask_caching import Cache as Backend

    backend = Backend(host=undercroft.Redis(path), key_prefix="own:")
    backend.set("thing", 1)
    assert backend.get("thing") == 1
