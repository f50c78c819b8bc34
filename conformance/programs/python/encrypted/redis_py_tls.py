"""redis-py over TLS: certificates of both sides; values, pipelines, messages, users, asyncio."""

import asyncio
import os
from pathlib import Path

from place import asynchronous, client, refused
from redis.exceptions import AuthenticationError, ConnectionError

FILES = Path(os.environ["PROGRAM_CERTIFICATES"])
AUTHORITY = {"ssl_ca_certs": str(FILES / "ca.pem")}
OPTIONS = AUTHORITY | {
    "ssl_certfile": str(FILES / "client.pem"),
    "ssl_keyfile": str(FILES / "client.key"),
}
SIZES = (0, 1, 16_383, 16_384, 16_385, 1_000_000)


def values() -> None:
    """Write and read values shorter and longer than a TLS record."""
    for protocol in (2, 3):
        redis = client(protocol=protocol, **OPTIONS)
        for size in SIZES:
            value = os.urandom(size)
            redis.set("value", value)
            assert redis.get("value") == value, size
        with redis.pipeline(transaction=False) as pipe:
            for number in range(2_000):
                pipe.set(f"key:{number}", number)
                pipe.get(f"key:{number}")
            replies = pipe.execute()
        assert replies[1::2] == [str(number).encode() for number in range(2_000)]


def messages() -> None:
    """Publish to a subscriber."""
    redis = client(**OPTIONS)
    with redis.pubsub() as subscriber:
        subscriber.subscribe("news")
        assert subscriber.get_message(timeout=20)["type"] == "subscribe"
        assert redis.publish("news", "m" * 50_000) == 1
        assert subscriber.get_message(timeout=20)["data"] == b"m" * 50_000


def users() -> None:
    """Log in as a user with limited rights."""
    redis = client(**OPTIONS)
    redis.acl_setuser(
        "ann", enabled=True, passwords=["+secret"], keys=["a:*"], commands=["+get", "+hello"]
    )
    ann = client(username="ann", password="secret", **OPTIONS)
    assert ann.get("a:1") is None
    with refused(Exception, "o permissions"):
        ann.get("b:1")
    with refused(AuthenticationError):
        client(username="ann", password="guess", **OPTIONS).get("a:1")
    redis.acl_deluser("ann")


def strangers() -> None:
    """Check that neither side accepts a peer that it cannot verify."""
    with refused(ConnectionError, "certificate verify failed"):
        client(ssl_certfile=OPTIONS["ssl_certfile"], ssl_keyfile=OPTIONS["ssl_keyfile"]).ping()
    with refused(ConnectionError):
        client(**AUTHORITY).ping()


async def tasks() -> None:
    """Share a client among tasks."""
    redis = asynchronous(**OPTIONS)

    async def task(number: int) -> None:
        for _ in range(20):
            await redis.incrby("count", number)

    await asyncio.gather(*(task(number) for number in range(20)))
    assert await redis.get("count") == str(20 * sum(range(20))).encode()
    await redis.aclose()


values()
messages()
users()
strangers()
asyncio.run(tasks())
