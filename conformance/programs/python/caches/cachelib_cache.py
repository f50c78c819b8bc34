"""cachelib's RedisCache: values, counters, batches, expiry."""

import cachelib
from place import client, eventually

cache = cachelib.RedisCache(host=client(), default_timeout=60, key_prefix="c:")
assert cache.set("a", {"x": [1, 2]})
assert cache.get("a") == {"x": [1, 2]}
assert not cache.add("a", 1)
assert cache.add("b", 2)
assert sorted(cache.set_many({"c": 3, "d": 4})) == ["c", "d"]
assert cache.get_many("a", "c", "gone") == [{"x": [1, 2]}, 3, None]
assert (cache.inc("n", 5), cache.dec("n", 2), cache.get("n")) == (5, 3, 3)
assert cache.has("b")
assert cache.delete_many("b", "c")
assert not cache.has("b")
assert cache.set("short", 1, timeout=1)
eventually(lambda: cache.get("short") is None)
other = cachelib.RedisCache(host=client(), key_prefix="other:")
other.set("a", "kept")
assert cache.clear()
assert (cache.get("a"), other.get("a")) == (None, "kept")
