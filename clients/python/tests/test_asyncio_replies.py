"""The asyncio client: what comes over a connection, in pieces of any size, is for its callers."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from conftest import Run
from redis.exceptions import ResponseError
from test_asyncio import plain
from test_asyncio_turns import answered


@asynccontextmanager
async def unanswered(**options: Any) -> AsyncIterator[Any]:
    """Give a connected client of a server that reads, and says no more than its first word."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n")
        writer.write(b"+PONG\r\n")
        while await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = plain(server, **options)
    # Each command's first call finds out how it is sent.
    asking = [client.ping(), client.get("k"), client.set("k", "v"), client.lrange("k", 0, 1)]
    tasks = [asyncio.create_task(each) for each in asking]
    assert await tasks[0]
    for task in tasks[1:]:
        task.cancel()
    await asyncio.wait(tasks)
    while client._link._unsent:
        await asyncio.sleep(0)
    client._link._pending.clear()
    yield client
    await client.aclose()
    server.close()


async def given(client: Any, calls: list[Any], data: bytes, cut: int) -> list[Any]:
    """Return what calls have of what comes in two pieces."""
    client._link.data_received(data[:cut])
    client._link.data_received(data[cut:])
    return await asyncio.gather(*calls, return_exceptions=True)


def test_replies_are_results_wherever_they_are_cut(run: Run) -> None:
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
                # The task asks.
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
def test_what_is_special_is_given_as_well(run: Run, special: bytes, expected: type[Any]) -> None:
    data = b"$1\r\na\r\n" + special + b"$1\r\nb\r\n"

    async def main() -> None:
        async with unanswered(decode_responses=True) as client:
            for cut in range(len(data)):
                calls = [client.get("k"), client.get("k"), client.get("k")]
                first, second, third = await given(client, calls, data, cut)
                assert (first, type(second), third) == ("a", expected, "b")

    run(main())


def test_what_nobody_asked_for_ends_the_connection(run: Run) -> None:
    async def main() -> None:
        for data in (b"$1\r\nv\r\n$1\r\nw\r\n", b"$1\r\nv\r\nnonsense\r\n"):
            async with unanswered() as client:
                call = client.get("k")
                client._link.data_received(data)
                assert await call == b"v"
                assert client._link.failure is not None

    run(main())


def test_an_interrupted_callback_leaves_nobody_waiting(run: Run) -> None:
    async def main() -> None:
        def interrupt(*_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

        async with unanswered() as client:
            client.set_response_callback("SET", interrupt)
            calls = [client.get("k"), client.set("k", "v"), client.get("k")]
            with pytest.raises(KeyboardInterrupt):
                client._link.data_received(b"$1\r\na\r\n+OK\r\n$1\r\nb\r\n")
            client._link.data_received(b"")
            assert await calls[0] == b"a"
            with pytest.raises(KeyboardInterrupt):
                calls[1].result()
            assert await calls[2] == b"b"

    run(main())


def test_calls_leave_nothing_behind(run: Run) -> None:
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


def test_a_call_outside_of_a_running_loop_is_sent_by_who_awaits_it() -> None:
    loop = asyncio.new_event_loop()

    async def enter() -> Any:
        context = answered()
        return context, await context.__aenter__()

    context, client = loop.run_until_complete(enter())
    assert loop.run_until_complete(client.get("k")) == b"v"
    call = client.get("k")
    assert not client._link._pending
    assert loop.run_until_complete(call) == b"v"
    loop.run_until_complete(context.__aexit__(None, None, None))
    loop.close()
