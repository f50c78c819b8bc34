"""django-redis: values, key patterns, time to live, locks, the underlying client."""

from django.conf import settings
from place import URL, in_threads

settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": URL,
            "OPTIONS": {"COMPRESSOR": "django_redis.compressors.zlib.ZlibCompressor"},
        }
    },
)

from django.core.cache import cache  # noqa: E402
from django_redis import get_redis_connection  # noqa: E402

cache.set("text", "word " * 1000, timeout=None)
assert cache.get("text") == "word " * 1000
assert cache.ttl("text") is None
# The value was compressed before it was stored.
assert get_redis_connection("default").strlen(cache.make_key("text")) < 500

cache.set_many({f"user:{number}": {"id": number} for number in range(30)}, timeout=60)
assert len(cache.keys("user:*")) == 30
assert len(list(cache.iter_keys("user:1*", itersize=5))) == 11
assert 0 < cache.ttl("user:3") <= 60
assert cache.persist("user:3")
assert cache.ttl("user:3") is None
assert cache.expire("user:3", timeout=5)
assert cache.pttl("user:3") <= 5000
assert cache.delete_pattern("user:*") == 30

assert cache.set("once", 1, nx=True)
assert not cache.set("once", 2, nx=True)
assert cache.incr("once", 4) == 5

counted = []


def count() -> None:
    """Increment a number that only a lock protects."""
    for _ in range(10):
        with cache.lock("number-lock", timeout=30):
            number = cache.get("number") or 0
            cache.set("number", number + 1)
    counted.append(1)


in_threads(4, count)
assert len(counted) == 4
assert cache.get("number") == 40
cache.clear()
assert cache.get("number") is None
