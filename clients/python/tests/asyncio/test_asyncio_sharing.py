"""Tests that the asyncio clients' shared connection occupies a slot in its pool."""

import asyncio
from typing import Any

import pytest
import redis.asyncio
import undercroft.asyncio
from asyncio_servers import answer_gets, plain
from conftest import Run
from test_asyncio import url as url
from undercroft.remote.connection import NAME

POOLS = [redis.asyncio.ConnectionPool, redis.asyncio.BlockingConnectionPool]


def made(kind: Any, url: str, **options: Any) -> tuple[Any, Any]:
    """Return a pool of this class and a client that uses the pool."""
    pool = kind.from_url(url, **options)
    return pool, undercroft.asyncio.Redis(connection_pool=pool)


async def connections(url: str) -> int:
    """Return the number of connections named `mine` on a server."""
    async with redis.asyncio.Redis.from_url(url) as admin:
        return sum(each["name"] == "mine" for each in await admin.client_list())


async def closed(url: str, left: int = 0) -> None:
    """Wait until a server has at most `left` connections named `mine`."""
    while await connections(url) > left:
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", POOLS)
def test_clients_of_a_pool_share_one_connection(kind: Any, url: str, run: Run) -> None:
    async def main() -> None:
        pool = kind.from_url(url, max_connections=5, client_name="mine")
        clients = [undercroft.asyncio.Redis(connection_pool=pool) for _ in range(50)]
        assert await asyncio.gather(*(client.set("k", 1) for client in clients)) == [True] * 50
        assert await connections(url) == 1
        assert len(pool._in_use_connections) == 1
        # Closing a client does not close the connection for the other clients.
        await clients[0].aclose()
        assert await clients[1].client_id() == await clients[2].client_id()
        await pool.disconnect()
        await closed(url)
        assert not pool._in_use_connections
        assert await asyncio.gather(*(client.get("k") for client in clients)) == [b"1"] * 50
        assert await connections(url) == 1
        await pool.disconnect()

    run(main())


@pytest.mark.parametrize("kind", POOLS)
def test_an_idle_shared_connection_gives_up_its_pool_place(kind: Any, url: str, run: Run) -> None:
    async def main() -> None:
        pool, client = made(kind, url, max_connections=1, client_name="mine")
        for number in range(3):
            assert await client.rpush("queue", number) == 1
            assert tuple(await client.blpop(["queue"], 1)) == (b"queue", b"%d" % number)
        async with client.pipeline() as pipe:
            await pipe.watch("k")
            pipe.multi()
            assert await pipe.set("k", 1).execute() == [True]
        assert await client.get("k") == b"1"
        async with client.pubsub() as messages:
            await messages.subscribe("news")
        assert await client.get("k") == b"1"
        assert await connections(url) == 1
        await pool.disconnect()

    run(main())


def test_a_full_pool_refuses_the_shared_connection(url: str, run: Run) -> None:
    async def main() -> None:
        pool, client = made(redis.asyncio.ConnectionPool, url, max_connections=1)
        held = await pool.get_connection(*NAME)
        with pytest.raises(redis.ConnectionError, match="Too many connections"):
            await client.get("k")
        await pool.release(held)
        assert await client.get("k") is None
        await pool.disconnect()

    run(main())


def test_a_call_waits_for_the_place_of_a_busy_shared_connection(run: Run) -> None:
    async def main() -> None:
        received, reply = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(1 << 20):
                if b"BLPOP" in data:
                    writer.write(b"*2\r\n$1\r\nq\r\n$1\r\nv\r\n")
                elif b"GET" in data:
                    received.set()
                    await reply.wait()
                    writer.write(b"$1\r\nv\r\n" * data.count(b"GET"))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        settings = plain(server).connection_pool.connection_kwargs
        pool = redis.asyncio.BlockingConnectionPool(max_connections=1, timeout=60, **settings)
        client = undercroft.asyncio.Redis(connection_pool=pool)
        first = asyncio.ensure_future(client.get("k"))
        await received.wait()
        waiting = asyncio.ensure_future(client.blpop(["q"], 0))
        while not client._link._retires:
            await asyncio.sleep(0)
        late = asyncio.ensure_future(client.get("k"))
        reply.set()
        assert await first == b"v"
        assert tuple(await waiting) == (b"q", b"v")
        assert await late == b"v"
        await pool.disconnect()
        server.close()

    run(main())


def test_closed_loops_give_up_their_pool_places(url: str, run: Run) -> None:
    pool, client = made(redis.asyncio.ConnectionPool, url, max_connections=1)

    async def main() -> Any:
        return await client.set("k", 1)

    assert [run(main()) for _ in range(5)] == [True] * 5
    run(pool.disconnect())


def test_a_lost_shared_connection_gives_up_its_pool_place(run: Run) -> None:
    async def main() -> None:
        met: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            met.append(writer)
            await answer_gets(reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, max_connections=1)
        pool = client.connection_pool
        for number in range(3):
            assert await client.get("k") == b"v"
            assert len(pool._in_use_connections) == 1
            link = client._link
            met[number].close()
            while link.failure is None:
                await asyncio.sleep(0)
            assert not pool._in_use_connections
        await client.aclose()
        server.close()

    run(main())
