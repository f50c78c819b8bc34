"""Tests large and slow replies on the shared connection, and calls that may already have run."""

import asyncio
from typing import Any

import pytest
import redis
from asyncio_servers import plain
from conftest import Run

LARGE = b"$1000000\r\n"
PART = b"x" * 100_000


class Peer:
    """A server whose replies the test writes explicitly."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.received: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.received.append(b"")
        place = len(self.writers) - 1
        while data := await reader.read(1 << 20):
            self.received[place] += data
            # Answer only calls for `small` here; the test answers the others.
            writer.write(b"$1\r\nv\r\n" * data.count(b"$5\r\nsmall"))
        writer.close()

    async def got(self, place: int, word: bytes, times: int = 1) -> None:
        """Wait until a connection has received a word the given number of times."""
        while len(self.received) <= place or self.received[place].count(word) < times:
            await asyncio.sleep(0)


def held(run: Run, test: Any, retries: int = 0, **options: Any) -> None:
    """Run a test with a `Peer` and a client that is connected to it."""

    async def main() -> None:
        peer = Peer()
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        client = plain(server, retries, **options)
        await test(peer, client)
        await client.aclose()
        server.close()

    run(main())


def test_a_large_reply_delays_no_other_call(run: Run) -> None:
    async def test(peer: Peer, client: Any) -> None:
        large = asyncio.ensure_future(client.get("large"))
        await peer.got(0, b"large")
        sent = 0
        peer.writers[0].write(LARGE)
        while not client._link.crowded:
            peer.writers[0].write(PART)
            sent += len(PART)
            assert sent <= 500_000
            link = client._link
            link._is_heard = False
            while not link._is_heard:
                await asyncio.sleep(0)
        assert await asyncio.gather(*(client.get("small") for _ in range(5))) == [b"v"] * 5
        assert not large.done()
        assert len(peer.writers) == 2
        peer.writers[0].write(b"x" * (1_000_000 - sent) + b"\r\n")
        assert await large == b"x" * 1_000_000
        # The client now knows that this call has a large reply.
        assert ("GET", "large") in client._link.large

    held(run, test)


def test_a_command_known_for_large_replies_takes_another_connection(run: Run) -> None:
    async def test(peer: Peer, client: Any) -> None:
        assert await client.get("small") == b"v"
        link = client._link
        link.large["GET", "large"] = None
        large = asyncio.ensure_future(client.get("large"))
        # The large call and the small calls do not wait for each other.
        small = asyncio.ensure_future(client.get("small"))
        await peer.got(1, b"large")
        assert await small == b"v"
        assert b"large" not in peer.received[0]
        peer.writers[1].write(b"$1\r\nv\r\n")
        assert await large == b"v"
        # A command that cannot be encoded does not leave a connection marked as crowded.
        with pytest.raises(redis.DataError):
            await client.execute_command("GET", "large", {})
        with pytest.raises(redis.DataError):
            await client.execute_command("WAIT", {}, 1)
        assert all(each.ready for each in (link, client._link))
        # A call whose arguments are unhashable is not treated as large.
        assert await client.execute_command("GET", bytearray(b"small")) == b"v"

    held(run, test)


def test_a_slow_reply_delays_no_other_call(run: Run) -> None:
    async def test(peer: Peer, client: Any) -> None:
        slow = asyncio.ensure_future(client.get("slow"))
        await peer.got(0, b"slow")
        link = client._link
        link._look_for_slow()
        link._look_for_slow()
        assert await client.get("small") == b"v"
        assert client._link is not link
        peer.writers[0].write(b"$1\r\nw\r\n")
        assert await slow == b"w"
        assert link.ready

    held(run, test)


def test_with_a_full_pool_calls_wait_for_a_large_reply(run: Run) -> None:
    async def test(peer: Peer, client: Any) -> None:
        slow = asyncio.ensure_future(client.get("slow"))
        await peer.got(0, b"slow")
        client._link.crowd()
        small = asyncio.ensure_future(client.get("small"))
        await peer.got(0, b"small")
        peer.writers[0].write(b"$1\r\nw\r\n")
        assert await slow is not None
        assert await small is not None
        assert len(peer.writers) == 1

    held(run, test, max_connections=1)


def test_a_reply_that_makes_progress_does_not_time_out(run: Run) -> None:
    async def test(peer: Peer, client: Any) -> None:
        large = asyncio.ensure_future(client.get("large"))
        await peer.got(0, b"large")
        link = client._link
        peer.writers[0].write(b"$100\r\n")
        for _ in range(100):
            link._look()
            assert link.failure is None
            link._is_heard = False
            peer.writers[0].write(b"x")
            while not link._is_heard:
                await asyncio.sleep(0)
        peer.writers[0].write(b"\r\n")
        assert await large == b"x" * 100
        # A peer that sends nothing still causes a timeout.
        silent = asyncio.ensure_future(client.get("silent"))
        await peer.got(0, b"silent")
        for _ in range(6):
            link._look()
        with pytest.raises(redis.TimeoutError):
            await silent

    held(run, test, socket_timeout=1000)


CHANGES = {
    "incr": lambda client: client.incr("n"),
    "eval": lambda client: client.eval("return 1", 0),
    "lower case": lambda client: client.execute_command("incrby", "n", 1),
    "pipeline": lambda client: client.pipeline(transaction=False).get("k").incr("n").execute(),
    "transaction": lambda client: client.pipeline().incr("n").execute(),
    "unknown": lambda client: client.execute_command("MODULE.CALL", "n"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("error", [redis.TimeoutError, redis.ConnectionError])
def test_a_call_that_may_have_run_is_not_sent_again(name: str, error: Any, run: Run) -> None:
    async def test(peer: Peer, client: Any) -> None:
        assert await client.get("small") == b"v"
        call = asyncio.ensure_future(CHANGES[name](client))
        await peer.got(0, b"\r\nn\r\n" if name != "eval" else b"return 1")
        client._link.fail(error("gone"))
        with pytest.raises(error, match="gone"):
            await call
        # The other calls use a new connection, on which the lost call is not sent again.
        assert await client.get("small") == b"v"
        assert len(peer.received) == 2
        assert b"return 1" not in peer.received[1]
        assert b"\r\nn\r\n" not in peer.received[1]

    held(run, test, retries=3, retry_on_error=[redis.ConnectionError, redis.TimeoutError])


def test_a_read_is_sent_again(run: Run) -> None:
    async def test(peer: Peer, client: Any) -> None:
        call = asyncio.ensure_future(client.get("slow"))
        pipe = asyncio.ensure_future(client.pipeline(transaction=False).get("slow").execute())
        await peer.got(0, b"slow", 2)
        client._link.fail(redis.ConnectionError("gone"))
        await peer.got(1, b"slow", 2)
        peer.writers[1].write(b"$1\r\nw\r\n" * 2)
        assert await call == b"w"
        assert await pipe == [b"w"]

    held(run, test, retries=3, retry_on_error=[redis.ConnectionError])
