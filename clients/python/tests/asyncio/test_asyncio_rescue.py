"""Tests calls that were sent just before an earlier reply turned out to be large or slow."""

import asyncio
from typing import Any

import pytest
import redis
from asyncio_servers import plain
from conftest import Run
from redis.exceptions import ResponseError
from undercroft.remote.multiplexing.share import Share

SIZE = 1_000_000
REPLIES = {
    b"HGETALL": b"*2\r\n$1\r\nf\r\n$1\r\nw\r\n",
    b"LLEN": b"-WRONGTYPE of another kind\r\n",
    b"INCRBY": b":1\r\n",
    b"SET": b"+OK\r\n",
    b"PING": b"$4\r\nPONG\r\n",
    b"MULTI": b"+OK\r\n",
    b"EXEC": b"*1\r\n$1\r\nv\r\n",
}


class Server:
    """A server that answers each connection in order and delays large and slow replies."""

    def __init__(self) -> None:
        # The commands that each connection received.
        self.heard: list[list[bytes]] = []
        self.release = asyncio.Event()
        self.answers_pings = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard: list[bytes] = []
        self.heard.append(heard)
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                await reader.readline()
                words.append((await reader.readline()).strip())
            heard.append(b" ".join(words))
            if words[-1].startswith(b"large"):
                # Send little more than the header, because the client also reacts when a large part
                # of a value has arrived.
                writer.write(b"$%d\r\nxxx" % SIZE)
                await self.release.wait()
                writer.write(b"x" * (SIZE - 3) + b"\r\n")
            elif words[-1] == b"slow" or (words[0] == b"PING" and not self.answers_pings):
                await self.release.wait()
                writer.write(b"$4\r\nPONG\r\n")
            else:
                known = REPLIES.get(words[0])
                writer.write(known or b"$%d\r\n%s\r\n" % (len(words[-1]), words[-1]))
        writer.close()

    async def got(self, place: int, count: int) -> None:
        """Wait until a connection has received `count` commands."""
        while len(self.heard) <= place or len(self.heard[place]) < count:
            await asyncio.sleep(0)


def served(run: Run, test: Any, **options: Any) -> None:
    """Run a test with a `Server` and a client that is connected to it."""

    async def main() -> None:
        server = Server()
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        client = plain(listening, **options)
        await test(server, client)
        server.release.set()
        await client.aclose()
        listening.close()

    run(main())


async def rescued(client: Any) -> None:
    """Wait until no resent call is pending."""
    share = Share.of(client.connection_pool)
    while share._tasks:
        await asyncio.wait(share._tasks)


def of(client: Any, *keys: str) -> list[asyncio.Future[Any]]:
    """Return calls that are sent together, before any reply arrives."""
    return [asyncio.ensure_future(client.get(key)) for key in keys]


@pytest.mark.parametrize("first", ["large", "slow"])
def test_reads_do_not_wait_for_an_earlier_slow_reply(first: str, run: Run) -> None:
    async def test(server: Server, client: Any) -> None:
        assert await client.get("a") == b"a"
        head, *small = of(client, first, "b", "c", "d")
        link = client._link
        hashed = asyncio.ensure_future(client.hgetall("h"))
        wrong = asyncio.ensure_future(client.llen("l"))
        pipe = asyncio.ensure_future(client.pipeline(transaction=False).get("p").get("q").execute())
        await server.got(0, 2)
        if first == "slow":
            link._look_for_slow()
            link._look_for_slow()
        assert await asyncio.gather(*small) == [b"b", b"c", b"d"]
        assert await hashed == {b"f": b"w"}
        with pytest.raises(ResponseError, match="of another kind"):
            await wrong
        assert await pipe == [b"p", b"q"]
        assert not head.done()
        # Late replies to resent calls are dropped, and each later call receives its own reply.
        server.release.set()
        assert len(await head) == (SIZE if first == "large" else 4)
        while not link.ready:
            await asyncio.sleep(0)
        keys = [f"key:{number}" for number in range(20)]
        assert await asyncio.gather(*(link.send(("GET", key)) for key in keys)) == [
            key.encode() for key in keys
        ]
        assert len(server.heard) == 2

    served(run, test)


def test_a_call_that_changes_something_is_not_sent_again(run: Run) -> None:
    async def test(server: Server, client: Any) -> None:
        large, before = of(client, "large", "before")
        count = asyncio.ensure_future(client.incr("n"))
        # This read must see the change made by the preceding INCR.
        (after,) = of(client, "n")
        transaction = asyncio.ensure_future(client.pipeline().get("v").execute())
        assert await before == b"before"
        await rescued(client)
        assert [word for word in server.heard[1] if word != b"PING"] == [b"GET before"]
        assert not any(call.done() for call in (large, count, after, transaction))
        server.release.set()
        assert await count == 1
        assert await after == b"n"
        assert await transaction == [b"v"]

    served(run, test)


def test_many_large_replies_are_not_transferred_twice(run: Run) -> None:
    async def test(server: Server, client: Any) -> None:
        calls = of(client, *(f"large:{number}" for number in range(30)))
        # Wait for a PING and the first resent call.
        await server.got(1, 2)
        while not client._link.crowded:
            await asyncio.sleep(0)
        server.release.set()
        assert [len(each) for each in await asyncio.gather(*calls)] == [SIZE] * 30
        await rescued(client)
        again = [word for heard in server.heard[1:] for word in heard if word != b"PING"]
        assert again == [b"GET large:1"]

    served(run, test)


def test_no_call_is_resent_to_a_busy_server(run: Run) -> None:
    async def test(server: Server, client: Any) -> None:
        server.answers_pings = False
        calls = of(client, "slow", "a", "b")
        await server.got(0, 1)
        client._link._look_for_slow()
        client._link._look_for_slow()
        await server.got(1, 1)
        server.release.set()
        assert await asyncio.gather(*calls) == [b"PONG", b"a", b"b"]
        await rescued(client)
        assert server.heard[1] == [b"PING"]

    served(run, test)


def test_with_a_full_pool_reads_keep_their_places(run: Run) -> None:
    async def test(server: Server, client: Any) -> None:
        large, small = of(client, "large", "small")
        await server.got(0, 1)
        link = client._link
        while not link.crowded:
            await asyncio.sleep(0)
        await rescued(client)
        assert not small.done()
        server.release.set()
        assert await small == b"small"
        assert len(await large) == SIZE
        assert len(server.heard) == 1

    served(run, test, max_connections=1)


def test_cancelled_reads_are_not_resent_and_lost_connections_fail_their_calls(run: Run) -> None:
    async def test(server: Server, client: Any) -> None:
        large, cancelled, small = of(client, "large", "cancelled", "small")
        await server.got(0, 1)
        cancelled.cancel()
        assert await small == b"small"
        await rescued(client)
        assert b"GET cancelled" not in server.heard[1]
        link = Share.of(client.connection_pool).links[0]
        link.fail(redis.ConnectionError("gone"))
        with pytest.raises(redis.ConnectionError):
            await large
        assert await client.get("small") == b"small"

    served(run, test)


def test_resent_calls_decode_replies_as_their_callers_asked(run: Run) -> None:
    async def test(server: Server, client: Any) -> None:
        large, text = of(client, "large", "text")
        raw = asyncio.ensure_future(client.dump("raw"))
        spelled = asyncio.ensure_future(client.execute_command("get", "spelled"))
        assert await text == "text"
        assert await raw == b"raw"
        assert await spelled == "spelled"
        assert not large.done()
        assert len(server.heard) == 2

    served(run, test, decode_responses=True)
