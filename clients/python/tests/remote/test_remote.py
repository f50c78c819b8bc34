"""Tests that remote clients behave like redis-py, although they process calls differently."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis
import redis.asyncio
import undercroft
import undercroft.asyncio
import undercroft.remote.connection
from redis._parsers import _RESP2Parser
from redis.backoff import NoBackoff
from redis.retry import Retry
from scripted_servers import Told, late, plain, scripted, tell, whole
from sessions import SESSIONS, VOLATILE, evaluate


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def client(server_socket: str, protocol: int) -> Iterator[undercroft.Redis]:
    url = f"unix://{server_socket}"
    with undercroft.Redis.from_url(url, protocol=protocol, decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "str"])
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session[0])
def test_a_remote_session_gives_the_same_results_as_redis_py(
    server_socket: str,
    session: list[str],
    protocol: int,
    decode: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Disable hiredis, because error texts and set types differ with it.
    monkeypatch.setattr("redis.connection.HIREDIS_AVAILABLE", False)
    options: dict[str, Any] = {"protocol": protocol, "decode_responses": decode}
    results = []
    for kind in (redis.Redis, undercroft.Redis):
        with kind(unix_socket_path=server_socket, max_connections=1, **options) as client:
            if kind is redis.Redis:
                client.connection_pool.connection_kwargs["parser_class"] = _RESP2Parser
            client.flushall()
            client.select(0)
            results.append([evaluate(expression, client) for expression in session])
            client.connection_pool.disconnect()
    for expression, theirs, ours in zip(session, *results, strict=True):
        if not VOLATILE.search(expression):
            assert ours == theirs, expression


def test_a_monitor_sees_commands_of_other_clients(
    server_socket: str, client: undercroft.Redis
) -> None:
    def until(monitor: redis.client.Monitor, command: str) -> dict[str, Any]:
        while True:
            seen: dict[str, Any] = monitor.next_command()
            if seen["command"] == command:
                return seen

    with client.monitor() as monitor:
        client.set("k", 'a "quoted" value')
        seen = until(monitor, 'SET k a "quoted" value')
        assert (seen["db"], seen["client_type"]) == (0, "unix")
        assert seen["client_port"] == server_socket
        assert isinstance(seen["time"], float)
        with client.pipeline() as pipeline:
            pipeline.lpush("l", b"\x00\xff").llen("l").execute()
        for command in ("MULTI", r"LPUSH l \x00\xff", "LLEN l", "EXEC"):
            until(monitor, command)
    # Other calls do not use the monitor's connection.
    assert client.get("k") == 'a "quoted" value'


def test_a_url_picks_the_kind_of_client(server_socket: str, path: str) -> None:
    with undercroft.Redis.from_url(f"unix://{server_socket}?db=3", client_name="me") as remote:
        assert isinstance(remote, undercroft.RemoteRedis)
        assert isinstance(remote, undercroft.Redis)
        assert isinstance(remote, redis.Redis)
        assert remote.client_info()["db"] == 3
        assert remote.client_getname() == "me"
    with undercroft.Redis.from_url(f"undercroft://{path}") as embedded:
        assert isinstance(embedded, undercroft.EmbeddedRedis)
        assert isinstance(embedded, undercroft.Redis)
    for url in ("http://localhost", "localhost:6379", "redis"):
        with pytest.raises(ValueError, match="expected a URL that begins with one of undercroft"):
            undercroft.Redis.from_url(url)


def test_redis_py_s_arguments_make_a_remote_client(server_socket: str) -> None:
    with undercroft.Redis(unix_socket_path=server_socket, db=2) as client:
        assert client.set("k", 1)
        assert client.get("k") == b"1"
    with undercroft.Redis(unix_socket_path=server_socket, single_connection_client=True) as one:
        assert type(one.connection) is undercroft.UnixDomainSocketConnection
        assert one.client_id() == one.client_id()
    pool = undercroft.ConnectionPool.from_url(f"unix://{server_socket}")
    with undercroft.Redis(connection_pool=pool) as first, undercroft.Redis(connection_pool=pool):
        assert first.ping()
    assert type(undercroft.Redis(host="localhost").connection_pool.make_connection()) is (
        undercroft.Connection
    )
    assert type(undercroft.Redis.from_url("rediss://h").connection_pool.make_connection()) is (
        undercroft.SSLConnection
    )
    with pytest.raises(TypeError, match="decode_response"):
        undercroft.Redis(decode_response=True)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(undercroft, redis), (undercroft.asyncio, redis.asyncio)]
)
def test_a_program_only_has_to_change_its_import(ours: Any, theirs: Any) -> None:
    # A module copied from redis-py would shadow this package's module of the same name.
    for name, value in vars(theirs).items():
        if isinstance(value, ModuleType) and hasattr(ours, name) and value is not redis.exceptions:
            assert getattr(ours, name) is not value, name
    assert [name for name in theirs.__all__ if not hasattr(ours, name)] == []
    assert ours.ConnectionError is theirs.ConnectionError
    with pytest.raises(AttributeError, match=r"undercroft.* has no attribute 'no_such_name'"):
        ours.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    "program",
    [
        "from undercroft import asyncio as found, remote",
        "import undercroft as redis; found = redis.asyncio",
        "from undercroft import remote as found",
    ],
)
def test_modules_belong_to_this_package(program: str) -> None:
    told = f"{program}; print(found.__name__)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("undercroft."), done.stdout


def test_a_client_owns_the_pool_it_is_made_from(server_socket: str) -> None:
    pool = undercroft.ConnectionPool.from_url(f"unix://{server_socket}")
    with undercroft.Redis.from_pool(pool) as client:
        assert isinstance(client, undercroft.RemoteRedis)
        assert client.ping()
        (connection,) = pool._available_connections
        assert connection._sock is not None
    assert connection._sock is None


def test_a_custom_client_class_works_on_stores_and_servers(server_socket: str, path: str) -> None:
    class Counting(undercroft.Redis):
        def twice(self, name: str) -> Any:
            self.incr(name)
            return self.incr(name)

    for url in (f"unix://{server_socket}", f"undercroft://{path}"):
        with Counting.from_url(url) as client:
            client.delete("n")
            assert client.twice("n") == 2
            assert isinstance(client, Counting)
    with Counting(path) as client:
        assert client.twice("n") == 4


def test_wrappers_of_redis_py_s_methods_see_the_calls(
    server_socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    for kind in (redis.Redis, redis.asyncio.Redis):
        plain: Any = kind.execute_command

        def traced(*args: Any, plain: Any = plain, **options: Any) -> Any:
            seen.append(args[1:])
            return plain(*args, **options)

        monkeypatch.setattr(kind, "execute_command", traced)

    async def main() -> None:
        async with undercroft.asyncio.Redis(unix_socket_path=server_socket) as client:
            for _ in range(2):
                assert await client.echo("later") == b"later"

    with undercroft.Redis(unix_socket_path=server_socket) as client:
        for _ in range(2):
            assert client.echo("now") == b"now"
    asyncio.run(main())
    assert seen == [("ECHO", "now")] * 2 + [("ECHO", "later")] * 2
    monkeypatch.undo()
    for usual in (undercroft.RemoteRedis(), undercroft.asyncio.RemoteRedis()):
        assert usual._short


def test_an_overridden_parse_response_is_called(server_socket: str) -> None:
    asked: list[Any] = []

    class Noting(undercroft.RemoteRedis):
        def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
            asked.append(command_name)
            parse: Any = super().parse_response
            return parse(connection, command_name, **options)

    class NotingLater(undercroft.asyncio.RemoteRedis):
        async def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
            asked.append(command_name)
            parse: Any = super().parse_response
            return await parse(connection, command_name, **options)

    async def main() -> None:
        async with NotingLater(unix_socket_path=server_socket) as client:
            assert await client.echo("x") == b"x"

    with Noting(unix_socket_path=server_socket) as client:
        assert client.echo("x") == b"x"
    asyncio.run(main())
    assert asked == ["ECHO", "ECHO"]


def test_pipelines_and_transactions(client: undercroft.Redis) -> None:
    for transaction in (False, True):
        client.delete("k")
        pipe = client.pipeline(transaction)
        results = pipe.set("k", 1).incr("k").lpush("k", "x").get("k").execute(raise_on_error=False)
        assert results[:2] == [True, 2]
        assert isinstance(results[2], redis.ResponseError)
        assert results[3] == "2"
        pipe.lpush("k", "x")
        with pytest.raises(redis.ResponseError, match=r"Command # 1 \(LPUSH k x\)"):
            pipe.execute()

    def bump(pipe: Any) -> None:
        value = int(pipe.get("k"))
        pipe.multi()
        pipe.set("k", value + 1)

    assert client.transaction(bump, "k") == [True]
    with client.pipeline() as pipe:
        pipe.watch("k")
        client.set("k", 9)
        pipe.multi()
        pipe.get("k")
        with pytest.raises(redis.WatchError):
            pipe.execute()
    big = "x" * 200_000
    assert client.pipeline(False).set("big", big).get("big").get("k").execute() == [True, big, "9"]


def test_messages_locks_scripts_and_scans(client: undercroft.Redis) -> None:
    with client.pubsub() as messages:
        messages.subscribe("news")
        messages.psubscribe("n*")
        assert [messages.get_message(timeout=60)["type"] for _ in range(2)] == [
            "subscribe",
            "psubscribe",
        ]
        client.publish("news", "hello")
        assert {messages.get_message(timeout=60)["type"] for _ in range(2)} == {
            "message",
            "pmessage",
        }
        assert messages.get_message() is None
    with client.lock("lock", timeout=30) as lock:
        assert lock.owned()
        assert not client.lock("lock").acquire(blocking=False)
    assert client.register_script("return ARGV[1]")(args=["x"]) == "x"
    client.mset({f"key:{number}": number for number in range(1000)})
    assert len(set(client.scan_iter("key:*"))) == 1000


def test_a_blocking_command_waits_for_its_full_timeout(client: undercroft.Redis) -> None:
    assert client.blpop(["empty"], timeout=0.05) is None
    client.rpush("full", "x")
    assert tuple(client.blpop(["empty", "full"], timeout=5)) == ("full", "x")


def test_several_threads_use_one_client(client: undercroft.Redis) -> None:
    wrong = []

    def work(name: int) -> None:
        for number in range(300):
            client.set(f"key:{name}", number)
            if client.get(f"key:{name}") != str(number) or client.echo(str(name)) != str(name):
                wrong.append((name, number))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_pool_can_be_iterated_while_it_changes(client: undercroft.Redis) -> None:
    # To close all connections, redis-py iterates over the pool under a lock, which calls do not
    # acquire.
    pool: Any = client.connection_pool
    taken = {pool.take(), pool.take()}
    for connection in pool._in_use_connections:
        assert connection in taken
        pool.give(connection)
    assert not pool._in_use_connections
    assert set(pool._available_connections) == taken
    pool.reset()
    assert pool.take() in pool._in_use_connections


def test_connections_of_a_custom_class(server_socket: str) -> None:
    class Own(redis.UnixDomainSocketConnection):
        pass

    pool = undercroft.ConnectionPool(connection_class=Own, path=server_socket)
    with undercroft.Redis(connection_pool=pool) as client:
        assert client.set("k", "v")
        assert [client.get("k"), client.get("k")] == [b"v", b"v"]


def test_a_forked_child_uses_its_own_connections(client: undercroft.Redis) -> None:
    before = client.client_id()
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(sender, str(client.client_id()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(receiver, 100)) != before
    assert client.client_id() == before
    os.close(receiver)
    os.close(sender)


def test_a_connection_closed_by_the_server_is_replaced(
    client: undercroft.Redis, server_socket: str
) -> None:
    assert client.incr("n") == 1
    with redis.Redis(unix_socket_path=server_socket) as other:
        other.client_kill_filter(_type="normal", skipme=True)
    assert client.incr("n") == 2


def half(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"$10\r\nhal")


def test_a_transaction_on_a_loading_server_raises_busy_loading_error() -> None:
    def load(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"+OK\r\n+QUEUED\r\n*1\r\n-LOADING its data\r\n")

    loading = pytest.raises(redis.BusyLoadingError, match="its data")
    with scripted(load) as address, plain(address) as client, loading:
        client.pipeline().get("k").execute(raise_on_error=False)


def test_half_a_reply_is_an_error() -> None:
    closed = pytest.raises(redis.ConnectionError, match="Connection closed by server")
    with scripted(half) as address, plain(address) as client, closed:
        client.get("k")


def test_a_silent_server_causes_a_timeout() -> None:
    done = threading.Event()

    def silent(connection: socket.socket) -> None:
        half(connection)
        done.wait(60)

    with scripted(silent) as address, plain(address, socket_timeout=0.05) as client:
        try:
            with pytest.raises(redis.TimeoutError, match="Timeout reading from"):
                client.get("k")
        finally:
            done.set()


# The new timeout differs from the socket's kernel timeout, or equals it although settimeout() has
# made the socket nonblocking.
@pytest.mark.parametrize(("before", "timeout"), [(60, 0.05), (2, 2)])
def test_the_timeout_of_the_socket_applies(before: float, timeout: float) -> None:
    done = threading.Event()

    def once(connection: socket.socket) -> None:
        whole(connection)
        connection.recv(100)
        done.wait(60)

    with scripted(once) as address, plain(address, socket_timeout=before) as client:
        assert client.get("k") == b"whole"
        (connection,) = client.connection_pool._available_connections
        connection._sock.settimeout(timeout)
        begun = time.monotonic()
        try:
            with pytest.raises(redis.TimeoutError, match="Timeout reading from"):
                client.get("k")
        finally:
            done.set()
        assert time.monotonic() - begun >= timeout


def test_a_lost_connection_is_retried_when_configured() -> None:
    options = {"retry_on_error": [redis.ConnectionError]}
    with scripted(half, half, whole) as address, plain(address, 2, **options) as client:
        assert client.get("k") == b"whole"


@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "str"])
def test_a_long_value_and_the_replies_after_it_arrive_whole(
    server_socket: str, decode: bool
) -> None:
    with undercroft.Redis(unix_socket_path=server_socket, decode_responses=decode) as client:
        for size in ((64 << 10) - 1, 64 << 10, (64 << 10) + 1, 300_001, 5 << 20):
            text = f"{size:07}\n" * (size // 8) + "x" * (size % 8)
            value, short = (text, "s") if decode else (text.encode(), b"s")
            assert client.mset({"long": value, "short": short})
            assert client.get("long") == value
            assert client.mget("short", "long", "short", "long") == [short, value, short, value]
            pipe = client.pipeline(transaction=False).get("long").get("short").get("long")
            assert pipe.execute() == [value, short, value]
            raw = client.execute_command("GET", "long", NEVER_DECODE=True)
            assert raw == text.encode()


def test_a_long_value_that_stalls_causes_a_timeout() -> None:
    done = threading.Event()

    def stopped(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"$1000000\r\n" + b"x" * 500_000)
        done.wait(60)

    with scripted(stopped, whole) as address, plain(address, socket_timeout=0.05) as client:
        try:
            with pytest.raises(redis.TimeoutError):
                client.get("k")
        finally:
            done.set()
        assert client.get("k") == b"whole"


def test_a_late_reply_reaches_no_other_call() -> None:
    late = threading.Event()

    def slow(connection: socket.socket) -> None:
        connection.recv(100)
        late.wait(60)
        with suppress(OSError):  # the client has disconnected
            connection.sendall(b"$4\r\nlate\r\n")

    with scripted(slow, whole) as address, plain(address, socket_timeout=0.05) as client:
        with pytest.raises(redis.TimeoutError):
            client.get("k")
        late.set()
        assert client.get("k") == b"whole"


def test_unread_replies_reach_no_other_call(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()

    def push(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"$1\r\nv\r\n>1\r\n+x\r\n")
        if told.wait(1):
            late(connection)
        else:  # the handler is called after the other reply has arrived
            connection.sendall(b"$1\r\nw\r\n")
            whole(connection)

    def handle(*_: object) -> None:
        told.set()
        raise Told

    monkeypatch.setattr(undercroft.remote.connection.Parser, "handle_push_response", handle)
    with scripted(push, whole) as address, plain(address) as client:
        with pytest.raises(Told):
            client.pipeline(False).get("a").get("b").execute()
        assert client.get("k") == b"whole"


def test_an_unread_reply_reaches_no_other_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def healthy(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"+PONG\r\n")
        connection.recv(100)
        connection.sendall(b"$1\r\nv\r\n")
        connection.recv(100)
        late(connection)

    # With health checks, sending and receiving are two separate redis-py calls.
    with scripted(healthy, whole) as address, plain(address, health_check_interval=999) as client:
        assert client.get("k") == b"v"
        with monkeypatch.context() as patch:
            patch.setattr(undercroft.Connection, "read_response", tell)
            with pytest.raises(Told):
                client.get("k")
        assert client.get("k") == b"whole"


def test_a_message_s_handler_that_raises_leaves_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    def push(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b">1\r\n+x\r\n")
        late(connection)

    monkeypatch.setattr(undercroft.remote.connection.Parser, "handle_push_response", tell)
    with scripted(push, whole) as address, plain(address) as client:
        with pytest.raises(Told):
            client.get("a")
        assert client.get("k") == b"whole"


def test_an_interrupted_call_leaves_no_reply_on_its_connection(server_socket: str) -> None:
    class Interrupted(Exception):  # noqa: N818
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        retry = Retry(NoBackoff(), 0)  # retries hide the failure
        with undercroft.Redis(unix_socket_path=server_socket, retry=retry) as client:
            client.set("k", "v")
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupted):
                client.blpop("empty", 60)
            assert client.get("k") == b"v"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_call_keeps_its_socket_when_the_descriptor_is_reused() -> None:
    if undercroft.remote.connection.NATIVE is None:
        pytest.skip("only undercroft differs: redis-py reads from any file with that number")
    asked, gone = threading.Event(), threading.Event()

    def patient(connection: socket.socket) -> None:
        connection.recv(100)
        asked.set()
        gone.wait(60)
        connection.sendall(b"$5\r\nwhole\r\n")

    other, far = socket.socketpair()
    with scripted(patient) as address, plain(address, socket_timeout=60) as client, other, far:
        found: list[bytes] = []
        caller = threading.Thread(target=lambda: found.append(client.get("k")))
        caller.start()
        assert asked.wait(60)
        (connection,) = client.connection_pool._in_use_connections
        # Assign the descriptor's number to another socket, as can happen after a close.
        os.dup2(other.fileno(), connection._sock.fileno())
        far.sendall(b"$5\r\nwrong\r\n")
        gone.set()
        caller.join()
    assert found == [b"whole"]


def test_an_unreachable_server_raises_connection_error(path: str) -> None:
    with pytest.raises(redis.ConnectionError, match="No such file"):
        undercroft.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0)).ping()


def test_a_server_can_be_used_without_the_native_module(server_socket: str) -> None:
    program = f"""
import sys
sys.modules["undercroft._native"] = None
import undercroft
with undercroft.Redis.from_url("unix://{server_socket}", decode_responses=True) as r:
    print(r.set("k", "pure"), r.get("k"))
try:
    undercroft.Redis("undercroft://name")
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    first, second = done.stdout.splitlines()
    assert first == "True pure"
    assert second.startswith("stores in shared memory need undercroft's native module")
    assert Path(undercroft.__file__).name == "__init__.py"
