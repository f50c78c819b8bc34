"""Tests redis-py programs on an embedded store, and skips those that are not installed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import undercroft

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def url(path: str) -> Iterator[str]:
    """Yield the URL of a store, with the URL scheme registered in redis-py."""
    undercroft.register_scheme()
    yield f"undercroft://{path}"
    undercroft.unregister_scheme()


def test_flask_caching_works(url: str) -> None:
    flask = pytest.importorskip("flask")
    flask_caching = pytest.importorskip("flask_caching")
    application = flask.Flask("application")
    settings = {"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": url}
    cache = flask_caching.Cache(application, config=settings)
    with application.app_context():
        cache.set("k", {"x": 1})
        assert cache.get("k") == {"x": 1}
        cache.delete("k")
        assert cache.get("k") is None


def test_djangos_own_cache_works(url: str) -> None:
    backend = pytest.importorskip("django.core.cache.backends.redis")
    cache = backend.RedisCache(url, {})
    cache.set("k", [1], 60)
    assert cache.get("k") == [1]
    cache.set("n", 1)
    assert cache.incr("n") == 2
    assert cache.get_or_set("other", 3) == 3
    cache.delete("k")
    assert cache.get("k") is None


def test_cachelib_works(path: str) -> None:
    cachelib = pytest.importorskip("cachelib")
    cache = cachelib.RedisCache(host=undercroft.Redis(path))
    cache.set("k", [1])
    assert cache.get("k") == [1]
    assert cache.inc("n", 2) == 2


def test_the_samples_of_the_page_work(path: str) -> None:
    text = (ROOT / "docs/programs.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    named = code.replace("undercroft://programs", f"undercroft://{path}")
    subprocess.run([sys.executable, "-c", named], check=True, timeout=60)
