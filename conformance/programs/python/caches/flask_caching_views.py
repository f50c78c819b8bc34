"""Flask-Caching: cached views, memoized functions, and their invalidation."""

import flask
import flask_caching
from place import URL, eventually

application = flask.Flask("application")
cache = flask_caching.Cache(
    application, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": URL}
)
calls: list[str] = []


@application.get("/page")
@cache.cached(timeout=60, query_string=True)
def page() -> str:
    """Render a page that is expensive to compute."""
    calls.append("page")
    return f"page {flask.request.args.get('n')} {len(calls)}"


@cache.memoize(60)
def square(number: int) -> int:
    """Compute an expensive result."""
    calls.append("square")
    return number * number


browser = application.test_client()
first = browser.get("/page?n=1").data
assert browser.get("/page?n=1").data == first
assert browser.get("/page?n=2").data != first
assert calls == ["page", "page"]

with application.app_context():
    assert [square(3), square(3), square(4)] == [9, 9, 16]
    assert calls.count("square") == 2
    cache.delete_memoized(square, 3)
    assert [square(3), square(4)] == [9, 16]
    assert calls.count("square") == 3
    cache.set_many({"a": 1, "b": [2]})
    assert cache.get_many("a", "b", "c") == [1, [2], None]
    assert cache.get_dict("a", "b") == {"a": 1, "b": [2]}
    assert not cache.add("a", 2)
    assert cache.set("short", 1, timeout=1)
    eventually(lambda: not cache.has("short"))
    cache.clear()
    assert cache.get("a") is None
