"""Tests redis-py's PubSub on an embedded store."""

import asyncio
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
import undercroft.embedded.pubsub
from children import fork, status_of


def confirmed(pubsub: undercroft.embedded.pubsub.PubSub) -> None:
    """Read the confirmation of a subscription."""
    assert pubsub.get_message(timeout=60)["type"].endswith("subscribe")


def test_messages_arrive_as_in_redis_py(r: undercroft.Redis) -> None:
    p = r.pubsub()
    p.subscribe("news")
    p.psubscribe("n*")
    assert p.subscribed
    assert p.get_message() == {
        "type": "subscribe",
        "pattern": None,
        "channel": b"news",
        "data": 1,
    }
    assert p.get_message()["data"] == 2
    assert r.publish("news", "hello") == 2
    assert p.get_message(timeout=60) == {
        "type": "message",
        "pattern": None,
        "channel": b"news",
        "data": b"hello",
    }
    assert p.get_message() == {
        "type": "pmessage",
        "pattern": b"n*",
        "channel": b"news",
        "data": b"hello",
    }
    assert p.get_message() is None
    assert p.get_message(timeout=0.01) is None
    assert r.pubsub_channels() == [b"news"]
    assert r.pubsub_numsub("news", "x") == [(b"news", 1), (b"x", 0)]
    assert r.pubsub_numpat() == 1
    p.unsubscribe()
    p.punsubscribe()
    assert [p.get_message()["type"] for _ in range(2)] == ["unsubscribe", "punsubscribe"]
    assert not p.subscribed
    assert r.publish("news", "gone") == 0


def test_handlers_and_decoding(d: undercroft.Redis) -> None:
    seen = []
    p = d.pubsub(ignore_subscribe_messages=True)
    p.subscribe(**{"news": seen.append})
    p.ssubscribe("shard")
    d.publish("news", "caf\u00e9")
    d.spublish("shard", "1")
    found = [p.get_message(timeout=60) for _ in range(4)]
    assert [message["data"] for message in seen] == ["caf\u00e9"]
    assert {"type": "smessage", "pattern": None, "channel": "shard", "data": "1"} in found


def test_a_listener_that_ends(r: undercroft.Redis) -> None:
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe("a")
    for number in range(3):
        r.publish("a", number)
    found = []
    for message in p.listen():
        found.append(message["data"])
        if len(found) == 3:
            p.unsubscribe()
    assert found == [b"0", b"1", b"2"]


def test_a_thread_runs_handlers(r: undercroft.Redis) -> None:
    got = threading.Event()
    p = r.pubsub()
    p.subscribe(**{"a": lambda _: got.set()})
    thread = p.run_in_thread(sleep_time=0.1)
    try:
        assert r.publish("a", "x") == 1
        assert got.wait(60)
    finally:
        thread.stop()
        thread.join()
    assert r.publish("a", "x") == 0


def test_subscribing_while_another_thread_waits(r: undercroft.Redis) -> None:
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe("a")
    found: list[bytes] = []

    def wait() -> None:
        while b"last" not in found:
            message = p.get_message(timeout=60)
            if message:
                found.append(message["data"])

    waiter = threading.Thread(target=wait)
    waiter.start()
    other = threading.Thread(target=p.subscribe, args=("b",))
    other.start()
    other.join()
    r.publish("b", "first")
    r.publish("a", "last")
    waiter.join()
    assert found == [b"first", b"last"]


def test_messages_travel_between_processes(r: undercroft.Redis, path: str) -> None:
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe("a")
    script = f"import undercroft; print(undercroft.Redis({path!r}).publish('a', 'from afar'))"
    sent = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert sent.stdout == "1\n"
    message = None
    while message is None:
        message = p.get_message(timeout=60)
    assert message["data"] == b"from afar"


def test_a_lagging_subscriber_learns_how_many_messages_it_lost(path: str) -> None:
    with undercroft.Redis(path, capacity="16mb") as r:
        p = r.pubsub(ignore_subscribe_messages=True)
        p.subscribe("a")
        for _ in range(300):
            r.publish("a", b"x" * 10_000)
        assert p.get_message() is None  # the confirmation of the subscription
        assert p.get_message() == {
            "type": "lost",
            "pattern": None,
            "channel": None,
            "data": 300,
        }
        assert p.lost == 300
        r.publish("a", "on")
        assert p.get_message()["data"] == b"on"


def test_a_descriptor_for_event_loops(r: undercroft.Redis) -> None:
    p = r.pubsub()
    p.subscribe("a")
    confirmed(p)
    descriptor = p.fileno()
    assert p.get_message() is None
    r.publish("a", "x")
    assert select.select([descriptor], [], [], 60)[0] == [descriptor]
    assert p.get_message()["data"] == b"x"
    assert Path(f"{r.path}.wake").is_dir()


def test_a_forked_child_is_a_separate_receiver(r: undercroft.Redis) -> None:
    p = r.pubsub()
    p.subscribe("a")
    confirmed(p)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            assert p.get_message() is None
            os.write(theirs, b"r")
            assert p.get_message(timeout=60)["data"] == b"x"
            os._exit(0)
        finally:
            os._exit(1)
    assert os.read(ours, 1) == b"r"
    assert r.publish("a", "x") == 2
    assert os.waitpid(child, 0)[1] == 0
    assert p.get_message(timeout=60)["data"] == b"x"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "asyncio"])
def test_a_forked_child_learns_how_many_messages_it_missed(
    r: undercroft.Redis, is_async: bool
) -> None:
    loop = asyncio.new_event_loop()
    kind: Any = undercroft.asyncio.Redis if is_async else undercroft.Redis

    def run(result: Any) -> Any:
        return loop.run_until_complete(result) if is_async else result

    def next_of(receiver: Any) -> Any:
        return run(receiver.get_message(timeout=60))

    p = kind(r.path).pubsub(ignore_subscribe_messages=True)
    run(p.subscribe("a"))
    run(p.psubscribe("b*"))
    assert run(p.get_message()) is None
    assert run(p.get_message()) is None
    forked, published = os.pipe(), os.pipe()

    def child() -> None:
        nonlocal loop
        asyncio.set_event_loop(None)
        loop = asyncio.new_event_loop()
        assert os.read(published[0], 1) == b"p"
        lost = next_of(p)
        assert lost["type"] == "lost"
        # A pattern subscription counts the lost messages of all channels that have a receiver.
        assert lost["data"] == p.lost == 3
        os.write(forked[1], b"f")
        assert next_of(p)["data"] == b"both"

    started = fork(child)
    os.close(forked[1])
    for channel in ("a", "b1", "a", "other"):
        r.publish(channel, "parent's")
    os.write(published[1], b"p")
    assert os.read(forked[0], 1) == b"f"
    assert r.publish("a", "both") == 2
    assert status_of(started) == 0
    assert [next_of(p)["data"] for _ in range(4)] == [b"parent's"] * 3 + [b"both"]
    assert p.lost == 0
    run(p.aclose() if is_async else p.close())
    for each in (forked[0], *published):
        os.close(each)
    loop.close()


def test_a_closed_receiver_is_no_longer_counted(r: undercroft.Redis) -> None:
    p = r.pubsub()
    p.subscribe("a")
    assert r.publish("a", "x") == 1
    p.close()
    assert r.publish("a", "x") == 0
    with pytest.raises(RuntimeError):
        p.parse_response()


def waits(thread: threading.Thread, function: FunctionType) -> bool:
    """Return whether a thread is waiting in the only call that a function makes."""
    # Threads switch only in that call or at the function's first line.
    frame = sys._current_frames().get(thread.ident or 0)
    code = function.__code__
    return frame is not None and frame.f_code is code and frame.f_lineno > code.co_firstlineno


def test_closing_a_receiver_wakes_its_waiting_threads(r: undercroft.Redis) -> None:
    p = r.pubsub()
    p.subscribe("a")
    confirmed(p)
    native = p._native
    raised = []

    def wait() -> None:
        try:
            native.read()
        except redis.ConnectionError as error:
            raised.append(error)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    while not waits(waiter, wait):
        pass
    p.close()
    assert r.publish("a", "x") == 0
    waiter.join()
    assert len(raised) == 1


def test_messages_not_yet_requested_stay_in_the_store(path: str) -> None:
    with undercroft.Redis(path, capacity="16mb") as r:
        p = r.pubsub(ignore_subscribe_messages=True)
        p.subscribe("a")
        for number in range(50):
            r.publish("a", b"%d" % number + b"x" * 1000)
        assert p.get_message() is None  # the confirmation of the subscription
        assert p.get_message()["data"].startswith(b"0x")
        for _ in range(300):
            r.publish("a", b"x" * 10_000)
        # Messages that were copied together with the first message are still available.
        found = 1
        while (message := p.get_message())["type"] == "message":
            assert message["data"].startswith(b"%dx" % found)
            found += 1
        assert found < 10
        assert message["type"] == "lost"
        assert message["data"] == 350 - found


def test_earlier_messages_arrive_before_the_unsubscribe_confirmation(r: undercroft.Redis) -> None:
    p = r.pubsub()
    p.subscribe("a", "b")
    for number in range(1000):
        r.publish("a", number)
    p.unsubscribe("a")
    r.publish("a", "late")
    r.publish("b", "last")
    found = [p.get_message()["data"] for _ in range(1004)]
    assert found == [1, 2, *(b"%d" % number for number in range(1000)), 1, b"last"]


def test_a_plain_client_cannot_subscribe(r: undercroft.Redis) -> None:
    with pytest.raises(redis.ResponseError, match="pubsub"):
        r.execute_command("SUBSCRIBE", "a")
