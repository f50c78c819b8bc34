"""Django's own cache on Redis, and the sessions that use it."""

from django.conf import settings
from place import URL, eventually

settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": URL,
            "KEY_PREFIX": "site",
        }
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
)

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402


def values() -> None:
    """Store values of all kinds, with versions, one by one and in batches."""
    cache.set("page", {"title": "Home", "hits": [1, 2]}, timeout=60)
    assert cache.get("page") == {"title": "Home", "hits": [1, 2]}
    cache.set("page", "second", version=2)
    assert cache.get("page", version=2) == "second"
    assert not cache.add("page", "late")
    cache.set_many({f"n{number}": number for number in range(50)}, timeout=60)
    assert cache.get_many([f"n{number}" for number in range(60)]) == {
        f"n{number}": number for number in range(50)
    }
    assert (cache.incr("n7", 10), cache.decr("n7")) == (17, 16)
    assert cache.get_or_set("computed", lambda: 42, 60) == 42
    cache.delete_many(["n1", "n2"])
    assert not cache.has_key("n1")
    assert cache.delete("page", version=2)


def expiry() -> None:
    """Check that a value expires, and that touching a value extends its expiry."""
    cache.set_many({"short": 1, "touched": 1}, timeout=1)
    assert cache.touch("touched", 60)
    eventually(lambda: cache.get("short") is None)
    assert cache.get("touched") == 1


def sessions() -> None:
    """Log a user in, change the session's key, and log out."""
    session = SessionStore()
    session["user"] = 7
    session.save()
    key = session.session_key
    again = SessionStore(session_key=key)
    assert again["user"] == 7
    again.cycle_key()
    assert not SessionStore().exists(key)
    assert SessionStore(session_key=again.session_key)["user"] == 7
    again.flush()


values()
expiry()
sessions()
cache.clear()
assert cache.get("touched") is None
