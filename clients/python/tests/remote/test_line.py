"""Tests that Python and native lines pack commands and answer calls in the same way."""

import asyncio
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import undercroft.remote.multiplexing.line
from redis._parsers.encoders import Encoder
from redis.exceptions import ConnectionError, DataError, ResponseError
from undercroft.remote.multiplexing.call import Batch, Call
from undercroft.remote.resp import Push

PING = b"*1\r\n$4\r\nPING\r\n"
GET = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"


@pytest.fixture(params=["pure", "native"])
def line(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a line, either native or in Python."""
    native = None
    if request.param == "native":
        native = pytest.importorskip("undercroft._native").Line
    monkeypatch.setattr(undercroft.remote.multiplexing.line, "LINE", native)
    return undercroft.remote.multiplexing.line.make_line(
        Encoder("utf-8", "strict", True), ResponseError
    )


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield a loop that is not running."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def new(loop: asyncio.AbstractEventLoop) -> Call:
    """Return a call that has no waiter yet."""
    call = Call(loop=loop)
    call.waiter = call.request = None
    return call


def answered(line: Any, data: bytes) -> list[Any]:
    """Return the results that received bytes set for calls, however they are delivered."""
    woken: list[Call] = []
    given = []
    came = line.receive(data, woken)
    while came is not None:
        given.append(came)
        came = line.answer(woken)
    return given


def test_batches_are_queued_atomically(line: Any, loop: asyncio.AbstractEventLoop) -> None:
    calls = [new(loop) for _ in range(4)]
    batch = Batch(calls[2], 2)
    assert line.gathered() == b""
    line.put(calls[0], ("PING",))
    line.put(calls[1], ("GET", "k"), True, {"SET": bool})
    # A command that cannot be encoded leaves no bytes on the line.
    with pytest.raises(DataError):
        line.put(calls[3], ("GET", None))
    with pytest.raises(DataError):
        line.put_many(Batch(calls[3], 2), [("PING",), ("GET", None)])
    line.put_many(batch, [("PING",), ("GET", "k")])
    assert line.gathered() == PING + GET + PING + GET
    line.put(calls[3], ("PING",))
    assert (len(line), line.first) == (4, calls[0])
    assert line.close() == [calls[0], calls[1], batch, calls[3]]
    assert (len(line), line.first, line.gathered()) == (0, None, b"")
    with pytest.raises(ConnectionError):
        line.put(calls[0], ("PING",))
    with pytest.raises(ConnectionError):
        line.put_many(batch, [("PING",)])


def test_a_line_sends_as_much_as_its_socket_accepts(
    line: Any, loop: asyncio.AbstractEventLoop
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        line.put(new(loop), ("PING",))
        # Without an attached socket, `send` returns all bytes.
        assert line.send() == PING
        with pytest.raises(OSError, match="descriptor"):
            line.attach(os.sysconf("SC_OPEN_MAX") + 1)
        line.attach(ours.fileno())
        assert line.send() == b""
        line.put(new(loop), ("PING",))
        assert line.send() == b""
        assert theirs.recv(100) == PING
        # Send to a peer that accepts no more data.
        long = b"v" * (8 << 20)
        line.put(new(loop), ("SET", "k", long))
        whole = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%b\r\n" % (len(long), long)
        left = line.send()
        assert 0 < len(left) < len(whole)
        line.put(new(loop), ("PING",))
        assert line.send() == PING
        theirs.settimeout(10)
        came = b""
        while len(came) < len(whole) - len(left):
            came += theirs.recv(1 << 20)
        assert came + left == whole
        # The line has a duplicate of the descriptor, which closes with the line.
        ours.close()
        line.put(new(loop), ("PING",))
        assert line.send() == b""
        line.close()
        assert theirs.recv(100) == PING
        assert theirs.recv(100) == b""
    with pytest.raises(ConnectionError):
        line.attach(0)


def test_a_line_returns_its_data_when_sending_fails(
    line: Any, loop: asyncio.AbstractEventLoop
) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        line.attach(ours.fileno())
        theirs.close()
        line.put(new(loop), ("PING",))
        assert line.send() == PING


def test_an_answered_call_keeps_its_place_until_the_next_is_requested(
    line: Any, loop: asyncio.AbstractEventLoop
) -> None:
    woken: list[Call] = []
    first, second = new(loop), new(loop)
    line.put(first, ("GET", "k"))
    line.put(second, ("GET", "k"), False)
    call, reply = line.receive(b"-ERR no\r\n$1\r\n", woken)
    assert (call, str(reply)) == (first, "ERR no")
    assert (line.taken, line.first, len(line)) == (first, first, 2)
    assert line.answer(woken) is None
    assert (line.taken, line.first, len(line)) == (None, second, 1)
    # The call has a waiter, which the loop must wake.
    second.waiter = False
    assert line.receive(b"\xff\r\n", woken) == (second, b"\xff")
    assert line.taken is second
    assert line.answer(woken) is None
    assert (line.taken, line.first, woken) == (None, None, [])


def test_each_call_gets_its_own_reply(line: Any, loop: asyncio.AbstractEventLoop) -> None:
    first, second, last = (new(loop) for _ in range(3))
    batch = Batch(second, 3)
    for call in (first, last):
        call.waiter = False
    line.put(first, ("GET", "k"))
    line.put_many(batch, [("GET", "k")] * 3)
    line.put(last, ("GET", "k"))
    data = b"$1\r\n\xff\r\n:1\r\n>1\r\n+m\r\n*1\r\n+\xff\r\n-ERR no\r\n$1\r\nv\r\n:2\r\n"
    given = [*answered(line, data[:-6]), *answered(line, data[-6:])]
    assert [call for call, _ in given] == [first, None, batch, last, None]
    replies = [reply for _, reply in given]
    assert isinstance(replies[0], UnicodeDecodeError)
    assert (type(replies[1]), replies[1]) == (Push, ["m"])
    one, undecodable, error = replies[2]
    assert one == 1
    assert isinstance(undecodable, UnicodeDecodeError)
    assert isinstance(error, ResponseError)
    # No call receives the last reply.
    assert replies[3:] == ["v", 2]


def test_native_lines_deliver_common_replies_themselves(loop: asyncio.AbstractEventLoop) -> None:
    line = pytest.importorskip("undercroft._native").Line(ResponseError, True)
    calls = [new(loop) for _ in range(5)]
    for call in calls[:4]:
        line.put(call, ("GET", "k"), True, {"SET": bool})
    line.put(calls[4], ("SET", "k", "v"), True, {"SET": bool})
    calls[1].add_done_callback(print)  # the call stores this callback separately
    calls[2].add_done_callback(print)
    calls[2].cancel()
    woken: list[Call] = []
    came = line.receive(b"+a\r\n+b\r\n+c\r\n+d\r\n+OK\r\n", woken)
    assert came == (calls[2], "c")
    assert line.answer(woken) == (calls[4], "OK")
    assert line.answer(woken) is None
    assert [calls[number].result() for number in (0, 1, 3)] == ["a", "b", "d"]
    assert woken == [calls[1]]
    assert not calls[4].done()


def test_a_line_reports_announced_lengths_and_pending_calls(
    line: Any, loop: asyncio.AbstractEventLoop
) -> None:
    calls = [new(loop) for _ in range(2)]
    batch = Batch(new(loop), 2)
    for call in calls:
        line.put(call, ("GET", "k"), False)
    line.put_many(batch, [("GET", "k"), ("GET", "k")])
    assert line.calls() == [*calls, batch]
    assert line.missing == 0
    for data, missing in ((b"*2\r\n$3\r\nabc\r\n$1000", 0), (b"00\r\nxx", 100_000)):
        assert answered(line, data) == []
        assert line.missing // 1000 * 1000 == missing // 1000 * 1000 or line.missing < missing + 3
        assert line.missing >= min(missing, 99_998)
    answered(line, b"x" * 99_998 + b"\r\n")
    assert line.missing == 0
    assert line.calls() == [calls[1], batch]
    line.close()
    assert line.calls() == []
