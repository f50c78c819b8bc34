"""Tests that a call that may have run is not resent, whatever the client's retry settings are."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import asyncio_servers
import pytest
import redis
import undercroft
from conftest import Run
from redis.backoff import NoBackoff
from scripted_servers import plain

# Commands to which the server replies OK.
OK = {b"WATCH", b"MULTI", b"UNWATCH", b"SELECT"}

# The server's reply to COMMAND, in which each command's first argument is its key.
NAMES = (b"incrby", b"strlen", b"blpop", b"eval")
PLACES = b":-2\r\n*1\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"
KNOWN = b"*%d\r\n" % len(NAMES) + b"".join(
    b"*6\r\n$%d\r\n%s\r\n%s" % (len(name), name, PLACES) for name in NAMES
)


class Loser:
    """A server that runs the first command containing the word `lost` without replying.

    It then closes the connection or sends nothing more. It records all commands.
    """

    def __init__(self, is_silent: bool = False) -> None:
        self.heard: list[bytes] = []
        self.is_silent = is_silent
        self.is_lost = False
        self.connections: list[socket.socket] = []

    def run(self, connection: socket.socket) -> None:
        self.connections.append(connection)
        with connection, connection.makefile("rb") as lines:
            queued = None
            while line := lines.readline():
                words = []
                for _ in range(int(line[1:])):
                    lines.readline()
                    words.append(lines.readline().strip())
                self.heard.append(b" ".join(words))
                if words[0] in (b"CLUSTER", b"COMMAND"):
                    # This node serves all slots.
                    port = connection.getsockname()[1]
                    node = b"*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$2\r\nid\r\n" % port
                    reply = b"*1\r\n*3\r\n:0\r\n:16383\r\n" + node
                    reply = reply if words[0] == b"CLUSTER" else KNOWN
                elif words[0] == b"EXEC":
                    reply = b"*%d\r\n" % queued + b":1\r\n" * queued
                    queued = None
                elif words[0] in OK:
                    reply, queued = b"+OK\r\n", 0 if words[0] == b"MULTI" else queued
                elif queued is not None:
                    reply, queued = b"+QUEUED\r\n", queued + 1
                else:
                    reply = b"*-1\r\n" if words[0] == b"XREAD" else b":1\r\n"
                if not self.is_lost and any(b"lost" in word for word in words):
                    self.is_lost = True
                    if self.is_silent:
                        lines.read()
                    return
                connection.sendall(reply)

    def count(self, word: bytes) -> int:
        """Return the number of received commands that contain this word."""
        return sum(word in words.split() for words in self.heard)

    @contextmanager
    def serving(self) -> Iterator[tuple[str, int]]:
        """Run the server, and yield its address."""
        threads = []
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def accept() -> None:
                while True:
                    try:
                        connection, _ = listening.accept()
                    except OSError:
                        return
                    threads.append(threading.Thread(target=self.run, args=(connection,)))
                    threads[-1].start()

            accepting = threading.Thread(target=accept)
            accepting.start()
            try:
                yield listening.getsockname()
            finally:
                listening.shutdown(socket.SHUT_RDWR)
                accepting.join()
                for each in self.connections:
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)
                for thread in threads:
                    thread.join()


def watched(client: Any) -> Any:
    """Change a key in a transaction that watches it."""
    with client.pipeline() as pipe:
        pipe.watch("k")
        pipe.multi()
        return pipe.incr("lost").execute()


def helped(client: Any) -> Any:
    """Change the key with redis-py's helper, which retries the transaction after a conflict."""
    return client.transaction(lambda pipe: pipe.multi() or pipe.incr("lost"), "k")


def at_once(client: Any) -> Any:
    """Change a key immediately, while other keys are watched."""
    with client.pipeline() as pipe:
        pipe.watch("k")
        return pipe.incr("lost")


CHANGES: dict[str, Callable[[Any], Any]] = {
    "incr": lambda client: client.incr("lost"),
    "lower case": lambda client: client.execute_command("incrby", "lost", 1),
    "bytes": lambda client: client.execute_command(b"INCR", "lost"),
    "blocking": lambda client: client.blpop("lost", 1),
    "publish": lambda client: client.publish("lost", "message"),
    "script": lambda client: client.eval("lost", 0),
    "wait": lambda client: client.execute_command("WAIT", "lost", 1),
    "unknown": lambda client: client.execute_command("MODULE.CALL", "lost"),
    "not decoded": lambda client: client.execute_command("GETDEL", "lost", NEVER_DECODE=True),
    "pipeline": lambda client: client.pipeline(transaction=False).get("k").incr("lost").execute(),
    "transaction": lambda client: client.pipeline().incr("lost").execute(),
    "watched": watched,
    "helped": helped,
    "at once": at_once,
}
READS: dict[str, Callable[[Any], Any]] = {
    "exists": lambda client: client.exists("lost"),
    "two words": lambda client: client.object("refcount", "lost"),
    "pipeline": lambda client: client.pipeline(transaction=False).strlen("lost").execute()[0],
    "single": lambda client: client.client().strlen("lost"),
}


def retrying(address: Any, times: int = 3, **options: Any) -> Any:
    """Return a client with this many retries for each error that redis-py retries."""
    errors = [redis.ConnectionError, redis.TimeoutError]
    return plain(address, times, retry_on_error=errors, **options)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("single", [False, True], ids=["pool", "single"])
def test_a_change_is_not_sent_again(name: str, single: bool) -> None:
    server = Loser()
    with (
        server.serving() as address,
        retrying(address, single_connection_client=single) as client,
    ):
        # Test a new connection and a previously used one, which behave the same.
        for known in (True, False):
            server.is_lost = False
            server.heard.clear()
            if known:
                assert client.incr("k") == 1
            else:
                client.connection_pool.disconnect()
            with pytest.raises(redis.ConnectionError):
                CHANGES[name](client)
            assert sum(b"lost" in words for words in server.heard) == 1
            assert client.incr("k") == 1


@pytest.mark.parametrize("name", ["incr", "pipeline", "helped"])
def test_a_change_that_took_too_long_is_not_sent_again(name: str) -> None:
    server = Loser(is_silent=True)
    with server.serving() as address, retrying(address, socket_timeout=0.1) as client:
        with pytest.raises(redis.TimeoutError):
            CHANGES[name](client)
        assert sum(b"lost" in words for words in server.heard) == 1
        assert client.incr("k") == 1
        client.close()


def test_redis_py_s_retry_settings_do_not_resend_changes() -> None:
    server = Loser()
    with server.serving() as (host, port):
        client = undercroft.Redis(host=host, port=port, protocol=2)
        with pytest.raises(redis.ConnectionError):
            client.incr("lost")
        assert server.count(b"lost") == 1
        client.close()


@pytest.mark.parametrize("name", READS)
def test_a_read_is_sent_again(name: str) -> None:
    server = Loser()
    with server.serving() as address, retrying(address) as client:
        assert READS[name](client) == 1
        assert server.count(b"lost") == 2


@pytest.mark.parametrize("single", [False, True], ids=["pool", "single"])
@pytest.mark.parametrize("name", ["incr", "pipeline", "transaction", "helped"])
def test_a_closed_connection_is_replaced_before_a_change_is_sent(name: str, single: bool) -> None:
    server = Loser()
    server.is_lost = True
    with (
        server.serving() as address,
        retrying(address, single_connection_client=single) as client,
    ):
        for _ in range(3):
            assert CHANGES[name](client) in (1, [1], [1, 1])
            for each in server.connections:
                # The client notices the closed connection before it sends the next command.
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        client.close()


def test_a_refused_change_is_retried() -> None:
    replies = [b"-LOADING its data\r\n", b":1\r\n"]
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while replies:
                connection, _ = listening.accept()
                with connection:
                    while replies and connection.recv(100):
                        connection.sendall(replies.pop(0))

        thread = threading.Thread(target=serve)
        thread.start()
        with retrying(listening.getsockname()) as client:
            assert client.incr("k") == 1
        thread.join()


async def watched_async(client: Any) -> Any:
    """Change a key in a transaction that watches it."""
    async with client.pipeline() as pipe:
        await pipe.watch("k")
        pipe.multi()
        return await pipe.incr("lost").execute()


async def at_once_async(client: Any) -> Any:
    """Change a key immediately, while other keys are watched."""
    async with client.pipeline() as pipe:
        await pipe.watch("k")
        return await pipe.incr("lost")


# Calls that use separate connections; test_asyncio_crowded.py covers shared connections.
ALONE: dict[str, Callable[[Any], Any]] = {
    "blocking": lambda client: client.blpop("lost", 1),
    "group": lambda client: client.xreadgroup("lost", "me", {"s": ">"}),
    "watched": watched_async,
    "helped": lambda client: client.transaction(
        lambda pipe: pipe.multi() or pipe.incr("lost"), "k"
    ),
    "at once": at_once_async,
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("single", [False, True], ids=["pool", "single"])
def test_a_change_on_its_own_connection_is_not_sent_again(
    name: str, single: bool, run: Run
) -> None:
    async def main(address: Any) -> None:
        class Place:
            """A stand-in for an asyncio server with the address that clients request."""

            def getsockname(self) -> Any:
                return address

        class Served:
            sockets = (Place(),)

        client = asyncio_servers.plain(
            Served(),
            3,
            retry_on_error=[redis.ConnectionError],
            single_connection_client=single,
        )
        assert await client.incr("k") == 1
        with pytest.raises(redis.ConnectionError):
            await ALONE[name](client)
        assert sum(b"lost" in words for words in server.heard) == 1
        assert await client.incr("k") == 1
        await client.aclose()

    server = Loser()
    with server.serving() as address:
        run(main(address))


def test_a_read_on_its_own_connection_is_sent_again(run: Run) -> None:
    async def main(address: Any) -> None:
        host, port = address
        retry = redis.asyncio.retry.Retry(NoBackoff(), 3)
        client = undercroft.asyncio.Redis(
            host=host, port=port, protocol=2, retry=retry, retry_on_error=[redis.ConnectionError]
        )
        # XREAD waits on a separate connection.
        assert not await client.execute_command("XREAD", "STREAMS", "lost", "0")
        await client.aclose()

    server = Loser()
    with server.serving() as address:
        run(main(address))
    assert server.count(b"lost") == 2


CLUSTERED: dict[str, Callable[[Any], Any]] = {
    "incr": lambda client: client.incr("lost"),
    "blocking": lambda client: client.blpop("lost", 1),
    "script": lambda client: client.eval("return 1", 1, "lost"),
}


@pytest.mark.parametrize("name", CLUSTERED)
def test_a_cluster_does_not_send_a_change_again(name: str) -> None:
    server = Loser()
    with server.serving() as (host, port):
        client = undercroft.RedisCluster(host=host, port=port, protocol=2, socket_timeout=30)
        assert client.incr("k") == 1
        with pytest.raises(redis.ConnectionError):
            CLUSTERED[name](client)
        assert sum(b"lost" in words for words in server.heard) == 1
        server.is_lost = False
        assert client.strlen("lost") == 1
        client.close()


@pytest.mark.parametrize("name", CLUSTERED)
def test_an_asyncio_cluster_does_not_send_a_change_again(name: str, run: Run) -> None:
    async def main(host: str, port: int) -> None:
        client = undercroft.asyncio.RedisCluster(
            host=host, port=port, protocol=2, socket_timeout=30
        )
        assert await client.incr("k") == 1
        with pytest.raises(redis.ConnectionError):
            await CLUSTERED[name](client)
        assert sum(b"lost" in words for words in server.heard) == 1
        server.is_lost = False
        assert await client.strlen("lost") == 1
        await client.aclose()

    server = Loser()
    with server.serving() as (host, port):
        run(main(host, port))
