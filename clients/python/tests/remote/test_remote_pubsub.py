"""Tests that a server's messages match redis-py's, and that a forked child subscribes again."""

import asyncio
import gc
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
import undercroft.remote.connection
from children import fork, in_child, status_of
from scripted_servers import plain, scripted
from undercroft.remote.pubsub import AsyncPubSub, PubSub

LONG = "x" * 300_000
Made = Callable[..., Any]


@pytest.fixture
def made(server_socket: str) -> Made:
    """Return a function that creates a client of one of two packages."""

    def make(kind: Any, **options: Any) -> Any:
        return kind(unix_socket_path=server_socket, **options)

    return make


def heard(client: Any, publisher: Any) -> list[Any]:
    """Return all messages that a receiver gets during its lifetime."""
    found: list[Any] = []
    called: list[Any] = []
    with client.pubsub() as receiver:
        found.append(receiver.get_message(timeout=0))
        receiver.subscribe("news", empty=None, handled=called.append)
        receiver.psubscribe("n*", **{"h*": called.append})
        receiver.ssubscribe("shard", mine=called.append)

        def next_ones(count: int, **options: Any) -> None:
            for _ in range(count):
                found.append(receiver.get_message(timeout=60, **options))

        next_ones(7)
        for text in ("one", "", LONG, "\u00e9", 5):
            publisher.publish("news", text)
        next_ones(10)
        publisher.publish("handled", "called")
        publisher.spublish("mine", "shard called")
        publisher.spublish("shard", "sharded")
        next_ones(4)
        receiver.ping("echo")
        next_ones(1)
        receiver.ping()
        next_ones(1)
        found.append(receiver.get_message())
        found.append(receiver.get_message(timeout=0.001))
        receiver.unsubscribe("empty")
        next_ones(1, ignore_subscribe_messages=True)
        receiver.unsubscribe()
        receiver.punsubscribe()
        receiver.sunsubscribe()
        listened = list(receiver.listen())
        found += [receiver.subscribed, listened, receiver.get_message(timeout=0)]
    return [found, called]


@pytest.fixture(params=["native", "pure"])
def _reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read messages natively, or in Python as over TLS and with greenlets."""
    if request.param == "pure":
        monkeypatch.setattr(undercroft.remote.connection, "NATIVE", None)


@pytest.mark.usefixtures("_reader")
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "str"])
def test_remote_messages_arrive_as_in_redis_py(made: Made, protocol: int, decode: bool) -> None:
    options: dict[str, Any] = {"protocol": protocol, "decode_responses": decode}
    results = []
    for kind in (redis.Redis, undercroft.Redis):
        with made(kind, **options) as client, made(redis.Redis) as publisher:
            results.append(heard(client, publisher))
    assert results[0] == results[1]


@pytest.mark.usefixtures("_reader")
def test_a_lost_subscription_is_renewed(made: Made) -> None:
    with made(undercroft.Redis) as client, made(redis.Redis, client_name="publisher") as publisher:
        receiver = client.pubsub(ignore_subscribe_messages=True)
        assert type(receiver) is PubSub
        receiver.subscribe("news")
        assert receiver.get_message(timeout=60) is None
        for number in range(3):
            publisher.client_kill_filter(_type="pubsub")
            # The receiver subscribes again before it returns a message.
            while receiver.get_message() is None and not publisher.publish("news", number):
                pass
            message = None
            while message is None:
                message = receiver.get_message(timeout=60)
            assert message["data"] == b"%d" % number
        receiver.close()


def test_an_error_reply_is_raised(made: Made) -> None:
    with made(undercroft.Redis, protocol=2) as client:
        receiver = client.pubsub()
        receiver.subscribe("news")
        receiver.execute_command("GET", "k")
        assert receiver.get_message(timeout=60)["type"] == "subscribe"
        with pytest.raises(redis.ResponseError, match="in this context"):
            receiver.get_message(timeout=60)
        receiver.close()


@pytest.mark.usefixtures("_reader")
def test_an_undecodable_message_does_not_hold_up_later_ones(made: Made) -> None:
    with made(undercroft.Redis, decode_responses=True) as client, made(redis.Redis) as publisher:
        receiver = client.pubsub(ignore_subscribe_messages=True)
        receiver.subscribe("news")
        assert receiver.get_message(timeout=60) is None
        for data in (b"\xff", b"fine"):
            assert publisher.publish("news", data) == 1
        with pytest.raises(UnicodeDecodeError):
            receiver.get_message(timeout=60)
        assert receiver.get_message(timeout=60)["data"] == "fine"
        receiver.close()


def test_a_thread_may_subscribe_while_another_waits(made: Made) -> None:
    with made(undercroft.Redis) as client, made(redis.Redis) as publisher:
        receiver = client.pubsub()
        receiver.subscribe("first")
        assert receiver.get_message(timeout=60)["channel"] == b"first"
        found: list[Any] = []
        waiting = threading.Thread(target=lambda: found.extend(receiver.listen()))
        waiting.start()
        receiver.subscribe("second")
        while not publisher.publish("second", "heard"):
            pass
        receiver.unsubscribe()
        waiting.join()
        assert [message["type"] for message in found[:2]] == ["subscribe", "message"]


@pytest.mark.usefixtures("_reader")
def test_a_message_that_arrives_in_pieces_is_delivered_whole() -> None:
    parts = [
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$7\r\nmes",
        b"sage\r\n$1\r\nc\r\n$3",
        b"\r\nabc\r\n",
    ]

    def serve(connection: socket.socket) -> None:
        while b"SUBSCRIBE" not in connection.recv(1000):
            pass
        for part in parts:
            connection.sendall(part)
            # Send the next piece only after the client has received this piece.
            taken.acquire()

    taken = threading.Semaphore(0)
    with scripted(serve) as address, plain(address) as client, client.pubsub() as receiver:
        receiver.subscribe("c")
        assert receiver.get_message(timeout=60)["type"] == "subscribe"
        for _ in parts[1:]:
            assert receiver.get_message(timeout=0) is None
            taken.release()
        assert receiver.get_message(timeout=60)["data"] == b"abc"
        taken.release()


USES: dict[str, Callable[[Any], Any]] = {
    "get_message": lambda receiver: receiver.get_message(),
    "wait": lambda receiver: receiver.get_message(timeout=None),
    "sharded": lambda receiver: receiver.get_sharded_message(timeout=60),
    "listen": lambda receiver: next(receiver.listen()),
    "parse_response": lambda receiver: receiver.parse_response(),
    "subscribe": lambda receiver: receiver.subscribe("other"),
    "ping": lambda receiver: receiver.ping(),
}


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_forked_child_cannot_use_its_parent_s_subscription(made: Made, protocol: int) -> None:
    with made(undercroft.Redis, protocol=protocol) as client, made(redis.Redis) as publisher:
        receiver = client.pubsub(ignore_subscribe_messages=True)
        receiver.subscribe("news")
        assert receiver.get_message(timeout=60) is None
        sent = 0

        def child(use: Callable[[Any], Any]) -> None:
            # Messages that arrive between the fork and the first call must not be delivered twice.
            for _ in range(1 if use is USES["subscribe"] else 2):
                with pytest.raises(redis.ConnectionError, match="subscribe again"):
                    use(receiver)
            receiver.subscribe("mine")
            assert receiver.get_message(timeout=60) is None
            with made(redis.Redis) as own:
                assert own.publish("mine", "child") == 1
            assert receiver.get_message(timeout=60)["data"] == b"child"
            receiver.close()

        for use in USES.values():
            started = fork(lambda use=use: child(use))
            for _ in range(3):
                publisher.publish("news", sent)
                sent += 1
            assert status_of(started) == 0
        for number in range(sent):
            assert receiver.get_message(timeout=60)["data"] == b"%d" % number
        receiver.close()


def test_a_child_that_closes_or_drops_a_receiver_does_not_affect_its_parent(made: Made) -> None:
    client, publisher = made(undercroft.Redis), made(redis.Redis)
    receivers = [client.pubsub(ignore_subscribe_messages=True) for _ in range(2)]
    for receiver in receivers:
        receiver.subscribe("news")
        assert receiver.get_message(timeout=60) is None

    def child() -> None:
        receivers[0].close()
        assert receivers[0].get_message() is None
        receivers.clear()
        gc.collect()
        client.close()

    assert in_child(child) == 0
    assert publisher.publish("news", 1) == 2
    assert [receiver.get_message(timeout=60)["data"] for receiver in receivers] == [b"1", b"1"]
    for receiver in receivers:
        receiver.close()
    client.close()
    publisher.close()


def test_a_forked_child_cannot_use_its_parent_s_subscription_in_asyncio(made: Made) -> None:
    async def child(receiver: Any, client: Any) -> None:
        for use in (receiver.get_message, receiver.parse_response, receiver.ping):
            with pytest.raises(redis.ConnectionError, match="subscribe again"):
                await use()
        await receiver.subscribe("mine")
        assert (await receiver.get_message(timeout=60))["channel"] == b"mine"
        await receiver.aclose()
        await client.aclose()

    async def main() -> Any:
        client = made(undercroft.asyncio.Redis)
        receiver = client.pubsub()
        assert type(receiver) is AsyncPubSub
        await receiver.subscribe("news")
        assert (await receiver.get_message(timeout=60))["channel"] == b"news"
        return client, receiver

    loop = asyncio.new_event_loop()
    client, receiver = loop.run_until_complete(main())

    def forked() -> None:
        asyncio.set_event_loop(None)
        asyncio.run(child(receiver, client))

    assert in_child(forked) == 0
    with made(redis.Redis) as publisher:
        assert publisher.publish("news", "parent") == 1

    async def end() -> None:
        assert (await receiver.get_message(timeout=60))["data"] == b"parent"
        await receiver.aclose()
        await client.aclose()

    loop.run_until_complete(end())
    loop.close()


def test_a_forked_child_shares_no_connection_with_its_parent_in_asyncio(made: Made) -> None:
    async def ids(client: Any) -> set[int]:
        # Use both a connection from the pool and the shared connection.
        await client.lpush("queue", 1)
        await client.blpop(["queue"], 1)
        (idle,) = client.connection_pool._available_connections
        await idle.send_command("CLIENT", "ID")
        return {await idle.read_response(), await client.client_id()}

    client = made(undercroft.asyncio.Redis)
    loop = asyncio.new_event_loop()
    before = loop.run_until_complete(ids(client))

    def forked() -> None:
        asyncio.set_event_loop(None)
        assert not before & asyncio.run(ids(client))

    assert in_child(forked) == 0
    assert loop.run_until_complete(ids(client)) == before
    loop.run_until_complete(client.aclose())
    loop.close()
