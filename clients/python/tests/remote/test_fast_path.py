"""Tests the fast path: rare events within its single native step are handled exactly once."""

import inspect
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import redis
import undercroft
import undercroft.remote.connection
from scripted_servers import Told, late, plain, scripted, tell, whole

native = pytest.mark.skipif(
    undercroft.remote.connection.NATIVE is None,
    reason="only undercroft differs: redis-py checks before each call",
)
KINDS = pytest.mark.parametrize("kind", [socket.AF_UNIX, socket.AF_INET], ids=["unix", "tcp"])


@contextmanager
def served(kind: int, path: str, *answers: Callable[[socket.socket], None]) -> Iterator[Any]:
    """Serve one connection after another, each with one of these functions, and yield a client."""
    listener = socket.socket(kind)
    listener.bind(path if kind == socket.AF_UNIX else ("127.0.0.1", 0))
    listener.listen()
    with scripted(*answers, listener=listener) as address, plain(address) as client:
        yield client


def readable(connection: Any) -> None:
    """Wait until data has arrived on an idle connection."""
    assert select.select([connection._sock], [], [], 60)[0]


def idle(client: Any) -> Any:
    """Return a client's only connection, which is idle."""
    pool = client.connection_pool
    assert not pool._in_use_connections
    (connection,) = pool._available_connections
    return connection


@pytest.mark.parametrize("how", ["get_connection", "take"])
def test_unread_data_of_an_earlier_user_reaches_no_call(server_socket: str, how: str) -> None:
    with undercroft.Redis(unix_socket_path=server_socket) as client:
        pool: Any = client.connection_pool
        assert client.echo("first") == b"first"
        assert client.echo("second") == b"second"
        if how == "take":
            connection = pool.take()
            give = pool.give
        else:
            connection = pool.get_connection(*undercroft.remote.connection.NAME)
            give = pool.release
        connection.send_command("ECHO", "left")
        readable(connection)
        give(connection)
        assert client.echo("mine") == b"mine"
        assert idle(client) is connection


@KINDS
def test_a_call_reconnects_to_a_server_that_was_gone(kind: int, path: str) -> None:
    asked = []
    gone = threading.Event()

    def leave(connection: socket.socket) -> None:
        whole(connection)
        whole(connection)
        connection.sendall(b"-ERR you are idle\r\n")
        connection.close()
        gone.set()

    def count(connection: socket.socket) -> None:
        asked.append(connection.recv(100))
        connection.sendall(b":1\r\n")

    with served(kind, path, leave, count) as client:
        # The first call does not use the native step, and the second call checks the connection.
        assert [client.get("k"), client.get("k")] == [b"whole"] * 2
        assert gone.wait(60)
        readable(idle(client))
        assert client.incr("n") == 1
    assert asked == [b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"] or asked == [
        b"*3\r\n$6\r\nINCRBY\r\n$1\r\nn\r\n$1\r\n1\r\n"
    ]


@native
def test_a_push_message_between_calls_keeps_the_connection(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    had = threading.Event()

    def push(connection: socket.socket) -> None:
        whole(connection)
        whole(connection)
        had.wait(60)
        connection.sendall(b">1\r\n+x\r\n")
        whole(connection)

    told: list[Any] = []

    def handle(_: Any, message: list[Any], *__: Any) -> None:
        told.append(message)

    monkeypatch.setattr(undercroft.remote.connection.Parser, "handle_push_response", handle)
    with served(socket.AF_UNIX, path, push) as client:
        assert [client.get("k"), client.get("k")] == [b"whole"] * 2
        had.set()
        readable(idle(client))
        assert client.get("k") == b"whole"
    assert told == [[b"x"]]


@native
@KINDS
def test_an_interrupted_call_leaves_no_reply(
    kind: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = threading.Event()

    def slow(connection: socket.socket) -> None:
        whole(connection)
        connection.recv(100)
        silent.wait(60)
        with suppress(OSError):  # the client has disconnected
            connection.sendall(b"$4\r\nlate\r\n")
            late(connection)

    def once(connection: socket.socket) -> None:
        whole(connection)
        connection.recv(100)
        connection.recv(100)

    with served(kind, path, slow, once) as client:
        assert client.get("k") == b"whole"
        idle(client)._sock.settimeout(0.05)
        with monkeypatch.context() as patch:
            # Simulate a signal that arrives before the connection is closed.
            patch.setattr(undercroft.RemoteRedis, "_resume", tell)
            with pytest.raises(Told):
                client.get("k")
        # The connection is closed, so its next user cannot receive the pending reply.
        connection = idle(client)
        assert connection._sock is None
        silent.set()
        assert client.get("k") == b"whole"
        assert idle(client) is connection
        connection = client.connection_pool.take()
        with pytest.raises(redis.TimeoutError):
            connection.wire.call(("GET", "k"), True, 0.01)
        client.connection_pool.give(connection)
        assert connection._sock is None


@KINDS
@pytest.mark.parametrize("name", ["MONITOR", "subscribe"])
@pytest.mark.parametrize("together", [False, True])
def test_an_unrequested_message_is_not_taken_for_a_reply(
    kind: int, path: str, name: str, together: bool
) -> None:
    had = threading.Event()

    def stream(connection: socket.socket) -> None:
        for _ in range(4):
            whole(connection)
        had.wait(60)
        connection.sendall(b"+stray\r\n")
        late(connection)

    with served(kind, path, stream, whole) as client:
        pipe = client.pipeline(False)
        assert client.get("k") == b"whole"
        if together:
            assert len(pipe.execute_command(name, "c").execute()) == 1
        else:
            client.execute_command(name, "c")
        assert [client.get("k"), client.get("k")] == [b"whole"] * 2
        connection = idle(client)
        had.set()
        readable(connection)
        assert client.get("k") == b"whole"


def test_an_invalid_argument_keeps_the_connection(server_socket: str) -> None:
    class Unsayable:
        def encode(self) -> bytes:
            raise AssertionError

    with undercroft.Redis(unix_socket_path=server_socket) as client:
        client.set("k", "v")
        connection = idle(client)
        for wrong in (Unsayable(), None, "\ud800"):
            with pytest.raises((redis.DataError, UnicodeEncodeError)):
                client.get(wrong)
            assert idle(client) is connection
            assert client.get("k") == b"v"
        with pytest.raises(redis.ResponseError, match="not an integer"):
            client.incr("k")
        assert idle(client) is connection


@KINDS
@pytest.mark.parametrize("act", ["disconnect", "reset"])
def test_a_pool_may_change_during_a_call(kind: int, path: str, act: str) -> None:
    asked, gone = threading.Event(), threading.Event()

    def patient(connection: socket.socket) -> None:
        whole(connection)
        connection.recv(100)
        asked.set()
        gone.wait(60)
        with suppress(OSError):  # the client has disconnected
            connection.sendall(b"$5\r\nwhole\r\n")

    with served(kind, path, patient, whole) as client:
        assert client.get("k") == b"whole"
        found: list[Any] = []

        def call() -> None:
            try:
                found.append(client.get("k"))
            except redis.ConnectionError:
                found.append("lost")

        caller = threading.Thread(target=call)
        caller.start()
        assert asked.wait(60)
        pool: Any = client.connection_pool
        (connection,) = pool._in_use_connections
        assert not pool._available_connections
        getattr(pool, act)()
        gone.set()
        caller.join()
        if act == "disconnect":
            assert found == ["lost"]
            assert idle(client) is connection
        else:
            assert found == [b"whole"]
            assert not pool._in_use_connections
            assert not pool._available_connections
        assert client.get("k") == b"whole"


def test_a_connection_marked_for_reconnect_is_closed_on_release(
    server_socket: str,
) -> None:
    with undercroft.Redis(unix_socket_path=server_socket) as client:
        client.set("k", "v")
        connection = idle(client)
        if not hasattr(connection, "mark_for_reconnect"):
            pytest.skip("this redis-py has no such connections")
        connection.mark_for_reconnect()
        assert client.get("k") == b"v"
        assert idle(client) is connection
        assert not connection.is_connected
        assert client.get("k") == b"v"


@pytest.mark.parametrize("transaction", [False, True])
def test_a_pipeline_gives_its_connection_back(server_socket: str, transaction: bool) -> None:
    with undercroft.Redis(unix_socket_path=server_socket, max_connections=1) as client:
        client.set("k", "v")
        connection = idle(client)
        pipe = client.pipeline(transaction)
        for _ in range(2):
            assert pipe.get("k").echo("x").execute() == [b"v", b"x"]
            assert idle(client) is connection
        with pytest.raises(redis.ResponseError, match="not an integer"):
            pipe.incr("k").execute()
        assert idle(client) is connection
        with pytest.raises(redis.DataError):
            pipe.get("k").get(object()).execute()
        assert idle(client) is connection
        pipe.watch("k")
        assert not client.connection_pool._available_connections
        pipe.multi()
        assert pipe.get("k").execute() == [b"v"]
        assert idle(client) is connection
        pipe.get("k")
        pipe.reset()
        assert (pipe.execute(), client.get("k")) == ([], b"v")
        assert idle(client) is connection


def test_a_custom_pool_is_used(server_socket: str) -> None:
    class Counting(undercroft.ConnectionPool):
        taken = 0

        def take(self) -> Any:
            self.taken += 1
            return super().take()

    pool = Counting.from_url(f"unix://{server_socket}")
    with undercroft.Redis(connection_pool=pool) as client:
        assert [client.echo("x") for _ in range(3)] == [b"x"] * 3
    assert pool.taken == 3


def test_options_and_command_names_work_as_in_redis_py(server_socket: str) -> None:
    with undercroft.Redis(unix_socket_path=server_socket, decode_responses=True) as client:
        run: Any = client.execute_command
        client.set("k", "v")
        assert run("get", "k") == run("GET", "k", keys=["k"]) == run(b"GET", b"k") == "v"
        assert run("GET", "k", NEVER_DECODE=True) == b"v"
        assert run("config get", "port") == run("CONFIG GET", "port") == {"port": "0"}
        assert run("LPUSH", "k", "x", EMPTY_RESPONSE=[]) == []
        client.set_response_callback("GET", lambda reply, **options: (reply, options))
        assert run("GET", "k", keys=["k"], more=1) == ("v", {"more": 1})
        assert run("GET", "k") == ("v", {})
        with pytest.raises(IndexError):
            run()
        assert list(inspect.signature(run).parameters) == ["args", "options"]


@native
def test_a_call_made_between_the_steps_gets_another_connection(server_socket: str) -> None:
    between: list[Callable[[], object]] = []

    class Interrupted(undercroft.UnixDomainSocketConnection):
        """A connection whose attribute access runs Python code, as a finalizer may."""

        @property
        def health_check_interval(self) -> int:
            while between:
                between.pop()()
            return 0

        @health_check_interval.setter
        def health_check_interval(self, seconds: int) -> None:
            pass

    pool = undercroft.ConnectionPool(connection_class=Interrupted, path=server_socket)
    with undercroft.Redis(connection_pool=pool) as client:
        assert client.echo("first") == b"first"
        only = idle(client)
        taken: list[Any] = []
        between.append(lambda: taken.append(pool.take()))
        assert client.echo("second") == b"second"
        assert len(taken) == 1
        assert taken[0] is not only
        pool.give(taken[0])
    pool.disconnect()
