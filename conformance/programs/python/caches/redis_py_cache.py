"""redis-py's cache in the client, which the server invalidates (CLIENT TRACKING)."""

import redis
from place import client, eventually, in_threads
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection

# redis-py asks for Redis 7.4, because earlier versions of other products lack parts of the protocol
# that the cache needs. Redis 7.0 has them.
CacheProxyConnection.MIN_ALLOWED_VERSION = "7.0.0"


def caching() -> redis.Redis:
    """Return a client with a cache of its own."""
    return client(protocol=3, cache_config=CacheConfig(max_size=100))


cached, plain = caching(), client()
cache = cached.get_cache()
assert cache is not None
plain.set("a", 1)
assert [cached.get("a") for _ in range(3)] == [b"1"] * 3
assert cache.size == 1
plain.set("a", 2)
eventually(lambda: cached.get("a") == b"2")

# Hashes, several keys, and keys that do not exist yet.
plain.hset("h", mapping={"x": 1, "y": 2})
assert cached.hgetall("h") == {b"x": b"1", b"y": b"2"}
assert cached.mget("a", "gone") == [b"2", None]
plain.hincrby("h", "x", 5)
plain.set("gone", "back")
eventually(lambda: cached.hget("h", "x") == b"6")
eventually(lambda: cached.mget("a", "gone") == [b"2", b"back"])

# Expiry and FLUSHDB invalidate, too.
plain.set("short", "v", px=50)
cached.get("short")
eventually(lambda: cached.get("short") is None)
plain.flushdb()
eventually(lambda: cached.get("a") is None)


def count() -> None:
    """Increment a counter, and read it through a cache of this thread's own."""
    mine = caching()
    for _ in range(50):
        plain.incr("n")
        assert int(mine.get("n")) <= 200
    eventually(lambda: mine.get("n") == b"200")


in_threads(4, count)
eventually(lambda: cached.get("n") == b"200")
