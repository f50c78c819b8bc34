"""Tests redis-py's own clients over connections whose commands run in this process."""

import asyncio
import inspect
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import undercroft
import undercroft.asyncio
from children import in_child
from conftest import Run
from sessions import SESSIONS, evaluate
from test_like_redis import Clients


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> Any:
    """Return the version of the RESP protocol that clients use."""
    return request.param


@pytest.fixture
def url(path: str) -> str:
    """Return the URL of a store that does not exist yet."""
    return f"undercroft://{path}"


@pytest.fixture
def p(url: str, protocol: int) -> Iterator[redis.Redis]:
    """Yield a redis-py client for a new store."""
    pool = undercroft.ConnectionPool.from_url(url, protocol=protocol)
    with redis.Redis(connection_pool=pool) as client:
        yield client
    pool.disconnect()


def asynchronously(url: str, protocol: int, **options: Any) -> redis.asyncio.Redis:
    """Return a redis-py asyncio client for a store."""
    pool = undercroft.asyncio.ConnectionPool.from_url(url, protocol=protocol, **options)
    return redis.asyncio.Redis(connection_pool=pool)


@pytest.fixture(params=[(2, False), (3, True)], ids=["resp2-bytes", "resp3-str"])
def pairs(
    request: pytest.FixtureRequest,
    url: str,
    server_socket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Clients]:
    # Disable hiredis, because the error texts differ if it packs the arguments.
    monkeypatch.setattr("redis.connection.HIREDIS_AVAILABLE", False)
    protocol, decode = request.param
    options: dict[str, Any] = {"protocol": protocol, "decode_responses": decode}
    theirs = redis.Redis(unix_socket_path=server_socket, single_connection_client=True, **options)
    theirs.flushall()
    ours = redis.Redis(
        connection_pool=undercroft.ConnectionPool.from_url(url, **options),
        single_connection_client=True,
    )
    with ours, theirs:
        yield Clients(ours, theirs)  # type: ignore[arg-type]
        theirs.select(0)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session[0])
def test_a_session_gives_the_same_results_as_a_server(pairs: Clients, session: list[str]) -> None:
    for expression in session:
        wanted = evaluate(expression, pairs.theirs)
        assert evaluate(expression, pairs.ours) == wanted, expression


def test_messages_arrive_in_the_same_order_as_from_a_server(pairs: Clients) -> None:
    def seen(client: Any) -> list[Any]:
        receiver = (
            client.pubsub()
            if client is pairs.ours
            else redis.Redis(connection_pool=client.connection_pool).pubsub()
        )
        receiver.subscribe("a", "b")
        receiver.psubscribe("a*")
        client.publish("a", "1")
        client.publish("b", "2")
        receiver.unsubscribe("a")
        messages = [receiver.get_message(timeout=60) for _ in range(7)]
        # A server may process the second connection's command before the first connection's.
        client.publish("a", "3")
        messages.append(receiver.get_message(timeout=60))
        assert receiver.get_message(timeout=0.01) is None
        receiver.close()
        return messages

    assert seen(pairs.ours) == seen(pairs.theirs)


def test_a_transaction_notices_a_change(p: redis.Redis) -> None:
    with p.pipeline() as pipe:
        pipe.watch("k")
        p.set("k", "changed")
        pipe.multi()
        pipe.set("k", "own")
        with pytest.raises(redis.WatchError):
            pipe.execute()

    def append(pipe: Any) -> None:
        pipe.multi()
        pipe.append("k", "!")

    assert p.transaction(append, "k") == [8]


def test_a_waiting_client_gets_an_item_another_client_pushes(p: redis.Redis) -> None:
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(p.blpop("k", timeout=30)))
    waiter.start()
    # The push works regardless of whether the other client is already waiting.
    p.rpush("k", "item")
    waiter.join()
    assert list(found[0]) == [b"k", b"item"]
    assert p.blpop("k", timeout=0.01) is None


def test_commands_after_a_blocking_command_run_after_its_wait(p: redis.Redis) -> None:
    pipe = p.pipeline(transaction=False).blpop("none", timeout=0.05).set("k", "v").get("k")
    assert pipe.execute() == [None, True, b"v"]


def test_a_receiver_times_out_as_over_a_socket(url: str) -> None:
    pool = undercroft.ConnectionPool.from_url(url)
    connection = pool.get_connection(*undercroft.remote.connection.NAME)
    connection.send_command("BLPOP", "none", 0)
    connection._sock.settimeout(0.05)
    with pytest.raises(redis.TimeoutError):
        connection.read_response()
    pool.release(connection)
    client = redis.Redis(connection_pool=pool)
    client.rpush("none", "left")
    # No waiter remains, because the connection was discarded together with its place in the queue.
    assert client.lpop("none") == b"left"


def test_a_signal_interrupts_a_waiting_client(p: redis.Redis) -> None:
    class EnoughError(Exception):
        pass

    def stop(*_: Any) -> None:
        raise EnoughError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(EnoughError):
            p.blpop("k", timeout=0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    p.rpush("k", "item")
    assert p.lpop("k") == b"item"


def test_a_forked_child_has_its_own_connections(p: redis.Redis) -> None:
    p.set("k", "parent")
    receiver = p.pubsub()
    receiver.subscribe("news")
    assert receiver.get_message(timeout=60)

    def child() -> None:
        assert p.get("k") == b"parent"
        p.set("k", "child")
        assert p.publish("news", "from the child") == 1

    assert in_child(child) == 0
    assert p.get("k") == b"child"
    message = receiver.get_message(timeout=60)
    assert message is not None
    assert message["data"] == b"from the child"
    receiver.close()


def test_threads_share_a_pool_of_limited_size(url: str, protocol: int) -> None:
    pool = undercroft.BlockingConnectionPool.from_url(
        url, protocol=protocol, max_connections=2, timeout=30
    )
    client = redis.Redis(connection_pool=pool)

    def count() -> None:
        for _ in range(200):
            client.incr("n")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("n") == b"800"
    pool.disconnect()
    limited = redis.Redis(
        connection_pool=undercroft.ConnectionPool.from_url(url, max_connections=1)
    )
    with limited.pipeline() as pipe:
        pipe.watch("n")
        with pytest.raises(redis.ConnectionError, match="Too many connections"):
            limited.get("n")


def test_a_closed_connection_reconnects(p: redis.Redis) -> None:
    p.set("k", "v")
    p.connection_pool.disconnect()
    assert p.get("k") == b"v"
    connection = p.connection_pool.get_connection(*undercroft.remote.connection.NAME)
    connection.send_command("QUIT")
    assert connection.read_response() == b"OK"
    with pytest.raises(redis.ConnectionError):
        connection.read_response()
    p.connection_pool.release(connection)
    assert p.get("k") == b"v"


def test_another_thread_can_close_a_waiting_connection(p: redis.Redis) -> None:
    connection = p.connection_pool.get_connection(*undercroft.remote.connection.NAME)
    connection.send_command("BLPOP", "none", 0)
    peer = connection._sock.peer
    threading.Timer(0.05, peer.close).start()
    with pytest.raises(redis.ConnectionError):
        connection.read_response()


def test_health_checks_and_client_names_work_as_on_a_server(url: str, protocol: int) -> None:
    pool = undercroft.ConnectionPool.from_url(
        f"{url}?health_check_interval=1&db=3&client_name=me", protocol=protocol
    )
    client = redis.Redis(connection_pool=pool)
    assert client.client_getname() in ("me", b"me")
    client.set("k", "v")
    for connection in pool._available_connections:
        connection.next_health_check = time.monotonic() - 1
    assert client.get("k") == b"v"
    assert undercroft.Redis(url, db=3).get("k") == b"v"
    assert undercroft.Redis(url).get("k") is None


def test_malformed_commands_close_the_connection(url: str) -> None:
    from undercroft._native import Client, Peer

    peer = Peer(Client(url.removeprefix("undercroft://")))
    peer.send(b"PING\r\n*1\r\n$4\r\nPI")
    assert peer.take() == b"+PONG\r\n"
    assert peer.take() is None
    peer.send(bytearray(b"NG\r\n*1\r\n$x\r\n"))
    assert peer.take() == b"+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"
    assert peer.take() == b""


def test_a_removed_store_raises_an_error_that_says_so(p: redis.Redis, path: str) -> None:
    connection = p.connection_pool.get_connection(*undercroft.remote.connection.NAME)
    Path(path).unlink()

    def write_on() -> None:
        # The client notices the removal within a second.
        while True:
            connection.send_command("SET", "k", "v")
            connection.read_response()

    with pytest.raises(redis.ConnectionError, match="removed"):
        write_on()


def test_url_schemes_can_be_registered_and_unregistered(url: str) -> None:
    def refused(make: Callable[..., Any]) -> bool:
        try:
            make(url)
        except ValueError:
            return True
        return False

    makers: list[Callable[..., Any]] = [
        redis.from_url,
        redis.Redis.from_url,
        redis.ConnectionPool.from_url,
        redis.BlockingConnectionPool.from_url,
        redis.asyncio.from_url,
        redis.asyncio.ConnectionPool.from_url,
    ]
    assert all(map(refused, makers))
    undercroft.register_scheme()
    undercroft.register_scheme()
    try:
        assert not any(map(refused, makers))
        client = redis.from_url(f"{url}?db=2", decode_responses=True)
        client.set("k", "v")
        assert client.get("k") == "v"
        assert redis.from_url("redis://localhost").connection_pool.connection_kwargs["host"]
    finally:
        undercroft.unregister_scheme()
    assert all(map(refused, makers))
    # Clients created before the scheme was unregistered still work.
    client.connection_pool.disconnect()
    assert client.get("k") == "v"


def test_a_wrong_url_raises_an_error_that_says_what_is_expected(path: str) -> None:
    with pytest.raises(ValueError, match="invalid value for 'db'"):
        undercroft.ConnectionPool.from_url(f"undercroft://{path}?db=x")
    pool = undercroft.ConnectionPool.from_url(f"undercroft://{path}?maxmemory=1mb")
    with pytest.raises(ValueError, match="a database below 16"):
        redis.Redis(connection_pool=undercroft.ConnectionPool.from_url("undercroft://a/b/c")).ping()
    with pytest.raises(TypeError):
        redis.Redis(connection_pool=undercroft.ConnectionPool(store=path, what=1)).ping()
    assert redis.Redis(connection_pool=pool).config_get("maxmemory") == {"maxmemory": "1048576"}


def test_an_embedded_client_is_an_instance_of_redis_py_s_class(path: str) -> None:
    client = undercroft.Redis(path, db=1, decode_responses=True)
    assert isinstance(client, redis.Redis)
    client.set("k", "v")
    other = redis.Redis(connection_pool=client.connection_pool)
    assert other.get("k") == "v"
    assert client.connection_pool is client.connection_pool
    with client.client() as single:
        assert single.get("k") == "v"
    kwargs = client.connection_pool.connection_kwargs
    again = type(client.connection_pool)(**kwargs)
    assert redis.Redis(connection_pool=again).get("k") == "v"

    class Own(undercroft.EmbeddedRedis):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.mine = True

    assert Own(path).mine


def test_networked_methods_of_redis_py_are_overridden() -> None:
    # This package overrides every public method that communicates with a server.
    networked = {
        name
        for name, value in vars(redis.Redis).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    ours = {
        name
        for kind in undercroft.EmbeddedRedis.__mro__
        for name in vars(kind)
        if kind.__module__.startswith(("undercroft", "builtins"))
    }
    assert networked - ours <= {
        "get_cache",
        "get_retry",
        "himport_discard",
        "himport_discard_all",
        "himport_prepare",
        "keyspace_notifications",
        "set_retry",
        "load_external_module",
        "monitor",
        "parse_response",
    }


async def _work(url: str, protocol: int) -> None:
    client = asynchronously(url, protocol, decode_responses=True)
    assert isinstance(client, redis.asyncio.Redis)
    assert await client.set("k", "v")
    assert await client.get("k") == "v"
    pipe = client.pipeline().incr("n").hset("h", mapping={"a": "1"}).hgetall("h")
    assert await pipe.execute() == [1, 1, {"a": "1"}]
    async with client.pipeline() as pipe:
        await pipe.watch("n")
        await client.incr("n")
        pipe.multi()
        pipe.incr("n")
        with pytest.raises(redis.WatchError):
            await pipe.execute()
    assert await client.blpop("none", timeout=0.02) is None
    waiter = asyncio.ensure_future(client.blpop("list", timeout=30))
    await asyncio.sleep(0)
    await client.rpush("list", "item")
    assert list(await waiter) == ["list", "item"]
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        await client.incr("h")
    names = {key async for key in client.scan_iter("*")}
    assert names == {"k", "n", "h"}
    large = "x" * 3_000_000
    await client.set("large", large)
    assert await client.get("large") == large
    await client.aclose()
    await client.connection_pool.aclose()


def test_an_asyncio_client_of_redis_py_works_within(url: str, protocol: int, run: Run) -> None:
    run(_work(url, protocol))


async def _messages(url: str, protocol: int) -> None:
    client = asynchronously(url, protocol)
    receiver = client.pubsub()
    await receiver.subscribe("a")
    await receiver.psubscribe("a*")
    for number in range(200):
        assert await client.publish("a", number) == 2
    found = [await receiver.get_message(timeout=60) for _ in range(402)]
    assert [each["type"] for each in found[:4]] == [
        "subscribe",
        "psubscribe",
        "message",
        "pmessage",
    ]
    assert [int(each["data"]) for each in found[2:]] == [n for n in range(200) for _ in "ab"]
    assert await receiver.get_message(timeout=0.01) is None
    await receiver.aclose()
    await client.connection_pool.aclose()


def test_messages_reach_asyncio_clients_of_redis_py(url: str, protocol: int, run: Run) -> None:
    run(_messages(url, protocol))


async def _cancelled(url: str, protocol: int) -> None:
    client = asynchronously(url, protocol)
    waiter = asyncio.ensure_future(client.blpop("k", timeout=0))
    in_use = client.connection_pool._in_use_connections
    # Wait until the task reads. Before that, wait_for() in older Python versions can swallow the
    # cancellation.
    while not any(each._reader is not None and each._reader._waiter for each in in_use):
        await asyncio.sleep(0.001)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await client.rpush("k", "item")
    assert await client.lpop("k") == b"item"
    await client.connection_pool.aclose()


def test_a_cancelled_wait_leaves_the_item(url: str, protocol: int, run: Run) -> None:
    run(_cancelled(url, protocol))


async def _embedded(path: str) -> None:
    client = undercroft.asyncio.Redis(path)
    assert isinstance(client, redis.asyncio.Redis)
    await client.set("k", "v")
    assert await redis.asyncio.Redis(connection_pool=client.connection_pool).get("k") == b"v"
    await client.connection_pool.aclose()
    pool = undercroft.asyncio.ConnectionPool.from_url(f"undercroft://{path}")
    remote = undercroft.asyncio.Redis(connection_pool=pool)
    assert await remote.get("k") == b"v"
    await remote.aclose()
    await pool.aclose()
    await client.aclose()


def test_an_embedded_asyncio_client_is_an_instance_of_redis_py_s_class(path: str, run: Run) -> None:
    run(_embedded(path))


def test_redis_py_is_not_imported_for_a_store_alone(path: str) -> None:
    code = (
        f"import undercroft, sys; undercroft.Store({path!r}).set('k', 1); "
        "assert 'redis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
