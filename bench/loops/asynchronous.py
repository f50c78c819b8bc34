"""Adapters that give all asyncio clients the same methods."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from expected import KEY, NEAR, VALUE, Place, groups

PIPELINE = 100
DISTRIBUTIONS = {
    "glide": "valkey-glide",
    "coredis": "coredis",
    "aredis": "aredis",
    "aioredis": "aioredis",
    "asyncio-redis": "asyncio-redis",
}
Call = Callable[[], Awaitable[Any]]


class Calls:
    """A connected client's calls: GET, KEYS of all keys, and a pipeline of GETs if supported."""

    def __init__(self, get: Call, keys: Call, pipeline: Call | None = None) -> None:
        """Store the functions that make the client's calls."""
        self.get = get
        self.keys = keys
        self.pipeline = pipeline


Adapter = Callable[[Place], AbstractAsyncContextManager[Calls]]


def _like_redis(make: Callable[..., Any], **options: Any) -> Adapter:
    """Return an adapter for a client with the methods of redis.asyncio."""

    @asynccontextmanager
    async def opened(place: Place) -> AsyncIterator[Calls]:
        client = make(**place.options(NEAR), **options)

        async def pipeline() -> Any:
            pipe = client.pipeline(transaction=False)
            for _ in range(PIPELINE):
                pipe.get(KEY)
            return await pipe.execute()

        try:
            yield Calls(lambda: client.get(KEY), client.keys, pipeline)
        finally:
            await client.aclose()

    return opened


def _undercroft(place: Place) -> AbstractAsyncContextManager[Calls]:
    import undercroft.asyncio

    return _like_redis(undercroft.asyncio.Redis)(place)


def _redis(place: Place) -> AbstractAsyncContextManager[Calls]:
    import redis.asyncio

    # By default, the latest redis.asyncio refuses more than 100 concurrent calls.
    return _like_redis(redis.asyncio.Redis, max_connections=2000)(place)


@asynccontextmanager
async def _glide(place: Place) -> AsyncIterator[Calls]:
    import glide

    # By default, glide logs slow replies to standard output, which carries our answers.
    glide.Logger.set_logger_config(glide.LogLevel.OFF)
    address = glide.NodeAddress(place.host, place.port)
    client = await glide.GlideClient.create(glide.GlideClientConfiguration([address]))

    async def pipeline() -> Any:
        batch = glide.Batch(is_atomic=False)
        for _ in range(PIPELINE):
            batch.get(KEY)
        return await client.exec(batch, raise_on_error=True)

    try:
        yield Calls(
            lambda: client.get(KEY), lambda: client.custom_command([b"KEYS", b"*"]), pipeline
        )
    finally:
        await client.close()


@asynccontextmanager
async def _coredis(place: Place) -> AsyncIterator[Calls]:
    import coredis

    async with coredis.Redis(**place.options(NEAR)) as client:

        async def pipeline() -> Any:
            async with client.pipeline(transaction=False) as pipe:
                found = [pipe.get(KEY) for _ in range(PIPELINE)]
            return [await each for each in found]

        yield Calls(lambda: client.get(KEY), client.keys, pipeline)


@asynccontextmanager
async def _aredis(place: Place) -> AsyncIterator[Calls]:
    import aredis

    _without_loop_arguments()
    client = aredis.StrictRedis(**place.options(NEAR))

    async def pipeline() -> Any:
        pipe = await client.pipeline(transaction=False)
        for _ in range(PIPELINE):
            await pipe.get(KEY)
        return await pipe.execute()

    try:
        yield Calls(lambda: client.get(KEY), client.keys, pipeline)
    finally:
        client.connection_pool.disconnect()


def _without_loop_arguments() -> None:
    """Drop the ``loop`` arguments that aredis passes to asyncio and that Python 3.10 removed."""

    def dropping(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, loop: object = None, **options: Any) -> Any:  # noqa: ARG001
            return function(*args, **options)

        call.drops_loop = True  # type: ignore[attr-defined]
        return call

    for name in ("open_connection", "open_unix_connection"):
        function = getattr(asyncio, name)
        if not hasattr(function, "drops_loop"):
            setattr(asyncio, name, dropping(function))


@asynccontextmanager
async def _aioredis(place: Place) -> AsyncIterator[Calls]:
    import aioredis

    client = await aioredis.create_redis(place.path or (place.host, place.port))

    async def pipeline() -> Any:
        pipe = client.pipeline()
        for _ in range(PIPELINE):
            pipe.get(KEY)
        return await pipe.execute()

    try:
        yield Calls(lambda: client.get(KEY), lambda: client.keys("*"), pipeline)
    finally:
        client.close()
        await client.wait_closed()


@asynccontextmanager
async def _asyncio_redis(place: Place) -> AsyncIterator[Calls]:
    import asyncio_redis
    from asyncio_redis.encoders import BytesEncoder
    from asyncio_redis.protocol import HiRedisProtocol

    client = await asyncio_redis.Connection.create(
        host=place.path or place.host,
        port=0 if place.path else place.port,
        encoder=BytesEncoder(),
        protocol_class=HiRedisProtocol,
    )

    async def keys() -> list[bytes]:
        found: list[bytes] = await (await client.keys(b"*")).aslist()
        return found

    try:
        yield Calls(lambda: client.get(KEY), keys)
    finally:
        client.close()


ADAPTERS: dict[str, Adapter] = {
    "undercroft": _undercroft,
    "redis": _redis,
    "glide": _glide,
    "coredis": _coredis,
    "aredis": _aredis,
    "aioredis": _aioredis,
    "asyncio-redis": _asyncio_redis,
}


async def timed(adapter: Adapter, work: str, place: Place, count: int) -> float:
    """Return the nanoseconds that one command took.

    An operation such as ``get-50`` runs groups of 50 concurrent GETs with ``asyncio.gather``.
    """
    async with adapter(place) as calls:
        if await calls.get() != VALUE or list(await calls.keys()) != [KEY]:
            raise AssertionError("a wrong reply")
        if work in ("get", "keys"):
            return await _one_by_one(calls.get if work == "get" else calls.keys, count)
        if work == "get-pipeline":
            if calls.pipeline is None:
                raise ValueError("it has no pipelines")
            return await _in_groups(calls.pipeline, PIPELINE, count)
        many = int(work.removeprefix("get-"))
        get = calls.get

        async def gathered() -> list[Any]:
            return await asyncio.gather(*[get() for _ in range(many)])

        return await _in_groups(gathered, many, count)


async def _one_by_one(call: Call, count: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(count):
        await call()
    return (time.perf_counter_ns() - start) / count


async def _in_groups(group: Call, many: int, count: int) -> float:
    # The first group opens all connections that the client needs, before the measured time.
    if list(await group()) != [VALUE] * many:
        raise AssertionError("a wrong reply")
    rounds = groups(count, many)
    start = time.perf_counter_ns()
    for _ in range(rounds):
        await group()
    return (time.perf_counter_ns() - start) / (rounds * many)
