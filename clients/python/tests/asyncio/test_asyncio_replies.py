"""Tests that an asyncio client's replies reach their callers, however the bytes are split."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import undercroft.asyncio
from asyncio_servers import plain
from conftest import Run
from redis.exceptions import ConnectionError, ResponseError
from test_asyncio_turns import answered


@asynccontextmanager
async def unanswered(**options: Any) -> AsyncIterator[Any]:
    """Yield a connected client for a server that answers only the first call of each command."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n")
        writer.write(b"+PONG\r\n")
        while await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = plain(server, **options)
    # The first call of each command determines how the client sends that command.
    asking = [client.ping(), client.get("k"), client.set("k", "v"), client.lrange("k", 0, 1)]
    tasks = [asyncio.create_task(each) for each in asking]
    assert await tasks[0]
    for task in tasks[1:]:
        task.cancel()
    await asyncio.wait(tasks)
    while client._link._unsent:
        await asyncio.sleep(0)
    client._link.data_received(b"$-1\r\n+OK\r\n*0\r\n")
    assert not client._link._line
    yield client
    await client.aclose()
    server.close()


async def given(client: Any, calls: list[Any], data: bytes, cut: int) -> list[Any]:
    """Return the results of calls whose replies arrive in two pieces, split at `cut`."""
    client._link.data_received(data[:cut])
    client._link.data_received(data[cut:])
    return await asyncio.gather(*calls, return_exceptions=True)


def test_replies_are_parsed_wherever_they_are_split(run: Run) -> None:
    data = b"$1\r\nv\r\n*2\r\n:1\r\n$-1\r\n$1\r\n\xff\r\n+OK\r\n$4\r\nlate\r\n$4\r\nlast\r\n"

    async def main() -> None:
        async with unanswered(decode_responses=True) as client:
            for cut in range(len(data)):
                calls = [
                    *(client.get("k"), client._link.send(("LRANGE", "k", 0, 1))),
                    *(client.execute_command("GET", "k", NEVER_DECODE=True), client.set("k", "v")),
                    *(client.get("k"), asyncio.create_task(client.get("k"))),
                ]
                calls[4].cancel()
                # Run the task for one turn, so that it sends its call.
                await asyncio.sleep(0)
                found = await given(client, calls, data, cut)
                assert type(found.pop(4)) is asyncio.CancelledError
                assert found == ["v", [1, None], b"\xff", True, "last"]

    run(main())


@pytest.mark.parametrize(
    ("special", "expected"),
    [
        (b"-ERR no\r\n", ResponseError),
        (b"!6\r\nERR no\r\n", ResponseError),
        (b"|1\r\n+a\r\n:1\r\n-ERR no\r\n", ResponseError),
        (b">1\r\n+invalidate\r\n$1\r\nv\r\n", str),
        (b"$1\r\n\xff\r\n", UnicodeDecodeError),
        (b"*2\r\n$1\r\n\xff\r\n:1\r\n", UnicodeDecodeError),
    ],
)
def test_special_replies_reach_their_calls(run: Run, special: bytes, expected: type[Any]) -> None:
    data = b"$1\r\na\r\n" + special + b"$1\r\nb\r\n"

    async def main() -> None:
        async with unanswered(decode_responses=True) as client:
            for cut in range(len(data)):
                calls = [client.get("k"), client.get("k"), client.get("k")]
                first, second, third = await given(client, calls, data, cut)
                assert (first, type(second), third) == ("a", expected, "b")

    run(main())


def test_an_unrequested_reply_closes_the_connection(run: Run) -> None:
    async def main() -> None:
        for data in (b"$1\r\nv\r\n$1\r\nw\r\n", b"$1\r\nv\r\nnonsense\r\n"):
            async with unanswered() as client:
                call = client.get("k")
                client._link.data_received(data)
                assert await call == b"v"
                assert client._link.failure is not None

    run(main())


def test_an_interrupted_callback_leaves_no_call_pending(run: Run) -> None:
    async def main() -> None:
        async with unanswered() as client:
            client.set_response_callback("SET", interrupt)
            calls = [client.get("k"), client.set("k", "v"), client.get("k")]
            with pytest.raises(KeyboardInterrupt):
                client._link.data_received(b"$1\r\na\r\n+OK\r\n$1\r\nb\r\n")
            assert await calls[0] == b"a"
            with pytest.raises(KeyboardInterrupt):
                calls[1].result()
            assert await calls[2] == b"b"

    run(main())


def interrupt(*_: Any, **__: Any) -> Any:
    """Raise KeyboardInterrupt, as a signal handler may at any point."""
    raise KeyboardInterrupt


class Interrupting:
    """A transport whose write is interrupted before it sends anything."""

    write = interrupt

    def __init__(self, transport: Any) -> None:
        self.abort = transport.abort


def test_an_interrupted_write_leaves_no_call_pending(run: Run) -> None:
    async def main() -> None:
        async with unanswered() as client:
            link = client._link

            async def ask() -> None:
                assert await client.get("k") == b"a"
                with pytest.raises(ConnectionError, match=r"writing to .* KeyboardInterrupt"):
                    await client.get("k")

            asking = asyncio.create_task(ask())
            while not link._line or link._line.first.waiter is None or link._unsent:
                await asyncio.sleep(0)
            link._transport = Interrupting(link._transport)
            # Pretend that the peer accepts no more data, so that the line does not write to the
            # socket.
            link._is_direct = False

            def receive() -> None:
                with pytest.raises(KeyboardInterrupt):
                    link.data_received(b"$1\r\na\r\n")

            asyncio.get_running_loop().call_soon(receive)
            await asking
            assert isinstance(link.failure, ConnectionError)

    run(main())


@pytest.mark.parametrize("kind", ["call", "batch"])
def test_an_interrupted_reply_leaves_no_call_pending(run: Run, kind: str) -> None:
    async def main() -> None:
        async with unanswered() as client:
            link = client._link
            pipeline = client.pipeline(transaction=False).get("k").get("k")
            first = client.get("k") if kind == "call" else pipeline.execute()
            tasks = [asyncio.ensure_future(first)]
            while not link._line:
                await asyncio.sleep(0)
            tasks.append(client.get("k"))
            link._take = interrupt
            with pytest.raises(KeyboardInterrupt):
                link.data_received(b"-ERR no\r\n$1\r\nv\r\n")
            for task in tasks:
                with pytest.raises(ConnectionError, match="interrupted"):
                    await task

    run(main())


def test_a_call_sent_by_a_finalizer_gets_its_own_reply(server_socket: str, run: Run) -> None:
    class Sender:
        """Garbage whose finalizer sends a call."""

        def __init__(self, client: Any, asked: list[Any]) -> None:
            self.client = client
            self.asked = asked
            self.itself = self

        def __del__(self) -> None:
            self.asked.append(self.client.get("finalizer"))

    async def main() -> None:
        async with undercroft.asyncio.Redis(unix_socket_path=server_socket) as client:
            await client.mset({"finalizer": "f", "task": "t"})
            await client.get("task")
            threshold = gc.get_threshold()
            try:
                # Trigger the finalizer at a different allocation each time.
                for count in range(40):
                    asked: list[Any] = []
                    gc.collect()
                    gc.disable()
                    Sender(client, asked)
                    gc.set_threshold(gc.get_count()[0] + count, 1, 1)
                    gc.enable()
                    assert await client.get("task") == b"t"
                    pipeline = client.pipeline(transaction=False).get("task").echo("e")
                    assert await pipeline.execute() == [b"t", b"e"]
                    gc.set_threshold(*threshold)
                    gc.collect()
                    assert [await each for each in asked] == [b"f"]
            finally:
                gc.set_threshold(*threshold)
                gc.enable()

    run(main())


def test_calls_leak_no_objects(run: Run) -> None:
    async def main() -> None:
        async with answered() as client:

            async def ask(times: int) -> None:
                for _ in range(times):
                    await client.get("k")
                    await asyncio.gather(*[client.get("k") for _ in range(5)])

            await ask(10)
            gc.collect()
            before = len(gc.get_objects())
            await ask(500)
            gc.collect()
            assert len(gc.get_objects()) - before < 500

    run(main())


def test_collection_replies_leak_no_memory(server_socket: str, run: Run) -> None:
    ask = "redis.setresp(3); return redis.call('HGETALL', KEYS[1])"
    text = b"v" * 10_000

    async def main() -> None:
        async with undercroft.asyncio.Redis(unix_socket_path=server_socket, protocol=3) as client:
            await client.hset("map", text, text)
            for _ in range(3):
                assert await client.eval(ask, 1, "map") == {text: text}
            tracemalloc.start()
            try:
                for _ in range(300):
                    await client.eval(ask, 1, "map")
                kept, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert kept < 1_000_000

    run(main())


def test_cancelling_a_call_while_it_is_settled_affects_no_other_call(run: Run) -> None:
    class Cancelling:
        """Garbage whose finalizer cancels a call."""

        def __init__(self, call: Any) -> None:
            self.call = call
            self.itself = self

        def __del__(self) -> None:
            self.call.cancel()

    async def main() -> None:
        async with unanswered() as client:
            threshold = gc.get_threshold()
            try:
                # Collect the garbage at a different allocation each time.
                for count in range(20):
                    gc.collect()
                    gc.disable()
                    calls = [client.get("k"), client.get("k")]
                    Cancelling(calls[0])
                    gc.set_threshold(gc.get_count()[0] + count, 1, 1)
                    gc.enable()
                    client._link.data_received(b"$1\r\na\r\n$1\r\nb\r\n")
                    gc.set_threshold(*threshold)
                    assert await calls[1] == b"b"
            finally:
                gc.set_threshold(*threshold)
                gc.enable()

    run(main())


def test_an_interrupted_argument_is_not_sent(run: Run) -> None:
    class Interrupted(int):
        """A number whose first conversion to text is interrupted."""

        times = 0

        def __repr__(self) -> str:
            Interrupted.times += 1
            if Interrupted.times == 1:
                raise KeyboardInterrupt
            return super().__repr__()

    async def main() -> None:
        async with answered() as client:
            with pytest.raises(KeyboardInterrupt):
                client.get(Interrupted(3))
            assert await client.get("k") == b"v"

    run(main())


def test_a_call_made_outside_a_running_loop_is_sent_when_awaited() -> None:
    loop = asyncio.new_event_loop()

    async def enter() -> Any:
        context = answered()
        return context, await context.__aenter__()

    context, client = loop.run_until_complete(enter())
    assert loop.run_until_complete(client.get("k")) == b"v"
    call = client.get("k")
    assert not client._link._line
    assert loop.run_until_complete(call) == b"v"
    loop.run_until_complete(context.__aexit__(None, None, None))
    loop.close()
