"""Tests turns of the loop: a reply resumes its waiter immediately, and one turn makes one write."""

import asyncio
import contextvars
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from asyncio_servers import answer_gets, plain
from conftest import Run
from undercroft.remote.multiplexing import link as link_module
from undercroft.remote.multiplexing.link import Link


@asynccontextmanager
async def answered(received: list[bytes] | None = None) -> AsyncIterator[Any]:
    """Yield a connected client for a server that answers every GET with `v`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_gets(reader, writer, received)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = plain(server)
    assert await client.get("first") == b"v"
    if received is not None:
        received.clear()
    yield client
    await client.aclose()
    server.close()


def test_one_turn_of_the_loop_is_one_write(run: Run) -> None:
    received: list[bytes] = []

    async def main(client: Any) -> None:
        values = await asyncio.gather(*(client.get(f"key:{number}") for number in range(200)))
        assert values == [b"v"] * 200
        assert received[0].count(b"GET") == 200

        async def get(number: int) -> Any:
            return await client.get(f"key:{number}")

        for _ in range(2):
            received.clear()
            tasks = [asyncio.create_task(get(number)) for number in range(200)]
            assert await asyncio.gather(*tasks) == [b"v"] * 200
            assert received[0].count(b"GET") == 200
            assert await client.get("alone") == b"v"

        # Each task resumes when its reply arrives, and one write also sends the tasks' next calls.
        async def get_twice(number: int) -> Any:
            assert await client.get(f"key:{number}") == b"v"
            return await client.get(f"key:{number}")

        received.clear()
        await asyncio.gather(*(get_twice(number) for number in range(50)))
        assert [data.count(b"GET") for data in received] == [50, 50]

    async def with_client() -> None:
        async with answered(received) as client:
            await main(client)

    run(with_client())


class Watched:
    """A link's line that records each write."""

    def __init__(self, link: Link, events: list[str]) -> None:
        self._line = link._line
        self._events = events
        self._holds = False
        link._line = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line, name)

    def __len__(self) -> int:
        return len(self._line)

    def put(self, *command: Any) -> None:
        """Put a command on the line."""
        self._line.put(*command)
        self._holds = True

    def send(self) -> Any:
        """Send the queued commands, and record whether a task sends them."""
        if self._holds:
            by_task = asyncio.current_task() is not None
            self._events.append("write by task" if by_task else "write")
        self._holds = False
        return self._line.send()


def test_a_task_sends_its_next_call_in_the_turn_of_its_reply(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    receive = Link.data_received

    def received(link: Link, data: bytes) -> None:
        events.append("begin")
        receive(link, data)
        events.append("end")

    monkeypatch.setattr(Link, "data_received", received)

    async def main() -> None:
        async with answered() as client:
            Watched(client._link, events)
            # Run the task, which an earlier reply resumed, for one turn before the next reply
            # arrives.
            await asyncio.sleep(0)
            events.clear()
            for _ in range(3):
                events.append("ask")
                assert await client.get("k") == b"v"
            events.append("done")

    run(main())
    assert events[: events.index("done")] == [
        *("ask", "write"),
        *("begin", "ask", "write", "end"),
        *("begin", "ask", "write", "end"),
        "begin",
    ]


def test_calls_of_resumed_tasks_and_of_others_are_written_in_order(run: Run) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Send no replies, because the test passes them to the link itself.
        await reader.read()
        writer.close()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server)

        async def ask() -> None:
            assert await client.get("first") == b"v"
            assert await client.get("second") == b"w"

        task = asyncio.create_task(ask())
        while client._link is None or not client._link._line or client._link._unsent:
            await asyncio.sleep(0)
        link = client._link
        written: list[str] = []
        Watched(link, written)
        others: list[Any] = []
        # Both callbacks run in the same turn.
        loop.call_soon(link.data_received, b"$1\r\nv\r\n")
        loop.call_soon(lambda: others.append(client.get("other")))
        while not others or link._unsent:
            await asyncio.sleep(0)
        assert written == ["write", "write"]
        link.data_received(b"$1\r\nw\r\n$1\r\no\r\n")
        assert await others[0] == b"o"
        await task
        await client.aclose()
        server.close()

    run(main())


def test_all_waiters_of_a_call_receive_its_result(run: Run) -> None:
    async def wait(call: Any) -> Any:
        return await call

    async def main() -> None:
        async with answered() as client:
            call = client.get("k")
            tasks = [asyncio.create_task(wait(call)) for _ in range(3)]
            assert await asyncio.gather(call, *tasks, asyncio.shield(call)) == [b"v"] * 5
            called: list[Any] = []
            call = client.get("k")
            call.add_done_callback(called.append)
            assert call.remove_done_callback(called.append) == 1
            call.add_done_callback(called.append)
            assert await client.get("other") == b"v"
            await asyncio.sleep(0)
            assert called == [call]
            assert await call == b"v"

    run(main())


def test_a_resumed_task_runs_in_its_own_context(run: Run) -> None:
    name: contextvars.ContextVar[int] = contextvars.ContextVar("name")

    async def main() -> None:
        async with answered() as client:

            async def ask(number: int) -> None:
                name.set(number)
                for _ in range(3):
                    assert await client.get("k") == b"v"
                    assert name.get() == number
                    assert asyncio.current_task() is tasks[number]

            tasks = [asyncio.create_task(ask(number)) for number in range(5)]
            await asyncio.gather(*tasks)
            assert name.get(None) is None

    run(main())


def test_system_exit_in_a_resumed_task_ends_the_loop(run: Run) -> None:
    async def leave(client: Any) -> None:
        await client.get("k")
        raise SystemExit(3)

    async def main() -> None:
        async with answered() as client:
            leaving = asyncio.create_task(leave(client))
            with pytest.raises(SystemExit):
                await leaving
            await asyncio.Event().wait()

    with pytest.raises(SystemExit, match="3"):
        run(main())


def test_the_loop_reports_errors_of_done_callbacks(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        reported: list[Any] = []
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        async with answered() as client:
            first, second = client.get("a"), client.get("b")
            first.add_done_callback(lambda _: 1 // 0)
            assert await second == b"v"
            assert await first == b"v"
            while not reported:
                await asyncio.sleep(0)
            assert [type(error) for error in reported] == [ZeroDivisionError]
            assert await client.get("k") == b"v"

    run(main())


def test_a_reply_received_within_a_task_wakes_other_tasks_later(run: Run) -> None:
    async def main() -> None:
        async with answered() as client:
            link = client._link
            task = asyncio.create_task(client.get("k"))
            while link._line.first.waiter is None:
                await asyncio.sleep(0)
            # Pass data to the link from within a task, as a transport may if a task makes it read.
            link.data_received(b"$5\r\nearly\r\n")
            assert not task.done()
            assert await task == b"early"
            link.fail(ConnectionError("its own reply is one too many"))

    run(main())


def test_data_that_a_full_socket_refuses_is_sent_in_order(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, the call would count as slow, and the client would send a PING of its own.
    monkeypatch.setattr(link_module, "_SLOW", 3600)

    def asked(value: bytes) -> bytes:
        return b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%b\r\n" % (len(value), value)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            client = plain(SimpleNamespace(sockets=[listener]))
            first = asyncio.ensure_future(client.get("k"))
            peer, _ = await loop.sock_accept(listener)
        with peer:
            peer.setblocking(False)
            await loop.sock_recv(peer, 100)
            await loop.sock_sendall(peer, b"$1\r\nv\r\n")
            assert await first == b"v"
            link = client._link
            assert link._is_direct
            # Send more data than the socket accepts, then read some of it before the transport
            # notices.
            values = [b"v" * (16 << 20), b"w", b"x"]
            calls = [link.send(("SET", "k", values[0]))]
            link._flush()
            assert not link._is_direct
            received = peer.recv(1 << 20)
            for value in values[1:]:
                calls.append(link.send(("SET", "k", value)))
                link._flush()
            expected = b"".join(map(asked, values))
            while len(received) < len(expected):
                received += await loop.sock_recv(peer, 1 << 20)
            assert received == expected
            await loop.sock_sendall(peer, b"+OK\r\n" * 3)
            assert await asyncio.gather(*calls) == [b"OK"] * 3
            # The transport reports its amount of unwritten data when it next receives data.
            for _ in range(2):
                call = link.send(("PING",))
                await loop.sock_recv(peer, 100)
                await loop.sock_sendall(peer, b"+PONG\r\n")
                assert await call == b"PONG"
            assert link._is_direct
            await client.aclose()

    run(main())


class Interrupting:
    """A waiter that raises an exception, as if a signal handler interrupted the waking code."""

    @property
    def waiter(self) -> None:
        """Raise KeyboardInterrupt, as a signal handler does."""
        raise KeyboardInterrupt

    def join(self) -> None:
        """Do nothing, because there is no waiter."""


def test_an_interrupt_while_waking_leaves_no_task_waiting(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with answered() as client:
            link = client._link
            task = asyncio.create_task(client.get("k"))
            while link._line.first.waiter is None:
                await asyncio.sleep(0)
            link._woken.append(Interrupting())
            raised: list[BaseException] = []

            def receive() -> None:
                try:
                    link.data_received(b"$5\r\nearly\r\n")
                except KeyboardInterrupt as error:
                    raised.append(error)

            loop.call_soon(receive)
            assert await task == b"early"
            assert len(raised) == 1
            # The link still writes. The server's own reply to the first call is then unexpected.
            call = client.get("k")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not link._unsent
            assert await call == b"v"
            link.fail(ConnectionError("it has one more reply"))

    run(main())


def test_a_task_may_run_the_loop_as_nest_asyncio_does() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        async with answered() as client:
            loop._nest_patched = True
            assert await client.get("k") == b"v"
            written: list[str] = []
            Watched(client._link, written)
            current: Any = asyncio.current_task()
            asyncio.tasks._leave_task(loop, current)  # type: ignore[attr-defined]
            inner = loop.create_task(client.get("k"))
            for _ in range(5):
                loop.call_soon(lambda: None)
                loop._run_once()
            asyncio.tasks._enter_task(loop, current)  # type: ignore[attr-defined]
            assert written
            assert await inner == b"v"

    asyncio.run(main())
