"""Tests the asyncio client: redis-py's results over one shared connection, despite cancellation."""

import asyncio
import gc
import inspect
import os
import random
import re
from typing import Any

import pytest
import redis
import redis.asyncio
import undercroft.asyncio
from asyncio_servers import answer_gets, plain
from conftest import Run
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from sessions import NAMESPACE, SESSIONS, VOLATILE

# Matches a client method call that contains no other such call.
CALL = re.compile(r"r\.\w+\(((?!\br\.).)*\)$")


@pytest.fixture
def url(server_socket: str) -> str:
    """Return the URL of a server without data."""
    with redis.Redis(unix_socket_path=server_socket) as client:
        client.flushall()
    return f"unix://{server_socket}"


async def evaluate(expression: str, client: Any) -> tuple[str, Any]:
    try:
        value = eval(expression, {**NAMESPACE, "r": client})
        if inspect.isawaitable(value):
            value = await value
    except Exception as error:
        return "raised", (type(error), str(error))
    return type(value).__name__, value


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("protocol", [2, 3])
def test_sessions_give_the_same_results_as_redis_py(
    url: str, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redis.connection.HIREDIS_AVAILABLE", False)

    async def main() -> None:
        for session in SESSIONS:
            calls = [line for line in session if CALL.match(line) and not VOLATILE.search(line)]
            results = []
            for kind in (redis.asyncio.Redis, undercroft.asyncio.Redis):
                client = kind.from_url(url, protocol=protocol, decode_responses=True)
                await client.flushall()
                results.append([await evaluate(call, client) for call in calls])
                await client.aclose()
            for call, theirs, ours in zip(calls, *results, strict=True):
                assert ours == theirs, call

    asyncio.run(main())


def test_an_idle_connection_is_checked_before_it_is_used(run: Run) -> None:
    heard: list[list[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine: list[bytes] = []
        heard.append(mine)
        while data := await reader.read(1 << 20):
            for word in (b"PING", b"GET"):
                mine += [word] * data.count(word)
            if mine[-1] == b"PING" and len(heard) == 1:
                break
            writer.write(b"+PONG\r\n" * data.count(b"PING") + b"$1\r\nv\r\n" * data.count(b"GET"))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, health_check_interval=3600)
        assert await asyncio.gather(*(client.get("k") for _ in range(3))) == [b"v"] * 3
        client._link._due = 0  # as if an hour had passed
        assert await asyncio.gather(*(client.get("k") for _ in range(3))) == [b"v"] * 3
        client._link._due = 0
        assert await client.pipeline(transaction=False).get("k").execute() == [b"v"]
        first, second = heard
        assert first == [b"GET"] * 3 + [b"PING"]
        assert second == [b"GET"] * 3 + [b"PING", b"GET"]
        await client.aclose()
        server.close()

    run(main())


def test_the_reply_to_a_cancelled_call_reaches_no_other_call(url: str, run: Run) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)

    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(url, decode_responses=True)
        answered = 0

        async def ask(number: int) -> None:
            nonlocal answered
            assert await client.echo(f"{number}") == f"{number}"
            answered += 1

        for _ in range(20):
            tasks = [asyncio.create_task(ask(number)) for number in range(500)]
            doomed = rng.sample(tasks, 250)
            for task in doomed[:50]:
                task.cancel()
            for task in doomed[50:]:
                if rng.random() < 0.05:
                    await asyncio.sleep(0)
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(
                result is None or isinstance(result, asyncio.CancelledError) for result in results
            ), results
        assert answered >= 20 * 250
        assert await client.echo("last") == "last"
        await client.aclose()

    run(main())


def test_calls_in_flight_fail_when_their_connection_is_lost(url: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(url, retry=Retry(NoBackoff(), 0))
        killer = redis.asyncio.Redis.from_url(url)
        await client.set("k", "v")
        slow = [asyncio.create_task(client.eval("return 1", 0)) for _ in range(3)]
        await asyncio.sleep(0)
        client._link.fail(redis.ConnectionError("Connection closed by server."))
        results = await asyncio.gather(*slow, return_exceptions=True)
        assert [type(result) for result in results] == [redis.ConnectionError] * 3
        assert len({id(result) for result in results}) == 3
        assert await client.get("k") == b"v"
        # The server closes the connection while no call is in flight.
        lost = client._link
        await killer.client_kill_filter(_type="normal", skipme=True)
        while lost.failure is None:
            await asyncio.sleep(0)
        assert await client.get("k") == b"v"
        await client.aclose()
        await killer.aclose()

    run(main())


def test_calls_are_retried_after_a_lost_connection(run: Run) -> None:
    times = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal times
        times += 1
        await reader.read(100)
        writer.write(b"$5\r\nwhole\r\n" if times == 3 else b"$10\r\nhal")
        await writer.drain()
        if times == 3:
            await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, 2, retry_on_error=[redis.ConnectionError])
        assert await client.get("k") == b"whole"
        assert times == 3
        await client.aclose()
        server.close()

    run(main())


def test_a_silent_server_causes_a_timeout_error(run: Run) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"$10\r\nhal")
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, socket_timeout=0.05)
        results = await asyncio.gather(client.get("a"), client.get("b"), return_exceptions=True)
        assert [type(result) for result in results] == [redis.TimeoutError] * 2
        await client.aclose()
        server.close()

    run(main())


def test_replies_to_cancelled_calls_count_as_signs_of_life(run: Run) -> None:
    peers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer)
        await reader.read()
        writer.close()

    def come(line: Any) -> int:
        # Counts the replies that have arrived, for the batch of 20 calls and the call after it.
        return len(line.first.replies) if len(line) == 2 else 21 - len(line)

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, socket_timeout=1000)
        pipe = client.pipeline(False)
        for number in range(20):
            pipe.get(number)
        batch = asyncio.create_task(pipe.execute())
        other = asyncio.create_task(client.get("k"))
        while not peers or client._link is None or len(client._link._line) < 2:
            await asyncio.sleep(0)
        batch.cancel()
        for answered in range(1, 22):
            client._link._look()
            assert client._link.failure is None
            peers[0].write(b"$1\r\nv\r\n")
            while come(client._link._line) < answered:
                await asyncio.sleep(0)
        assert await other == b"v"
        await client.aclose()
        server.close()

    run(main())


def test_callers_wait_while_the_server_does_not_read(run: Run) -> None:
    reads = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        while data := await reader.read(1 << 20):
            writer.write(b"+OK\r\n" * data.count(b"SET"))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, socket_timeout=None)
        value = b"x" * 100_000
        tasks = [asyncio.create_task(client.set("k", value)) for _ in range(100)]
        while client._link is None or not client._link.full:
            await asyncio.sleep(0)
        late = asyncio.create_task(client.set("k", "late"))
        await asyncio.sleep(0)
        assert len(client._link._line) == 100  # the late call has not been sent
        reads.set()
        assert await asyncio.gather(*tasks, late) == [True] * 101
        await client.aclose()
        server.close()

    run(main())


def test_a_call_is_a_future_and_a_coroutine(url: str, run: Run) -> None:
    def from_afar(client: Any, loop: asyncio.AbstractEventLoop) -> Any:
        return asyncio.run_coroutine_threadsafe(client.get("k"), loop).result()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with undercroft.asyncio.Redis.from_url(url) as client:
            # Alternate between calls that are sent immediately and calls that are deferred.
            for _ in range(3):
                assert await client.set("k", "v")
                assert await asyncio.create_task(client.get("k")) == b"v"
                assert await asyncio.wait_for(client.get("k"), 10) == b"v"
                assert await asyncio.gather(client.get("k"), client.get("n")) == [b"v", None]
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(client.exists("k")) for _ in range(3)]
                assert [task.result() for task in tasks] == [1, 1, 1]
                assert await asyncio.to_thread(from_afar, client, loop) == b"v"
                for call in (client.lpop("k"), asyncio.create_task(client.lpop("k"))):
                    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
                        await call
                with pytest.raises(redis.DataError):
                    await client.set("k", object())
                cancelled = asyncio.create_task(client.get("k"))
                await asyncio.sleep(0)
                cancelled.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await cancelled
                client.get("k").close()
                before = client.set("k", "w")
                assert await client.get("k") == b"w"
                assert await before

    run(main())


def test_an_undecodable_reply_fails_only_its_own_call(url: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(url, decode_responses=True)
        await client.set("bad", b"\xff")
        await client.rpush("list", "a", b"\xff", "b")
        results = await asyncio.gather(
            client.get("bad"),
            client.ping(),
            client.lrange("list", 0, -1),
            client.dump("list"),
            client.echo("x"),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [
            UnicodeDecodeError, bool, UnicodeDecodeError, bytes, str
        ]  # fmt: skip
        pipe = client.pipeline(transaction=False)
        pipe.get("bad").ping().lrange("list", 0, -1).echo("x")
        results = await pipe.execute(raise_on_error=False)
        assert [type(result) for result in results] == [
            UnicodeDecodeError, bool, UnicodeDecodeError, str
        ]  # fmt: skip
        for transaction in (False, True):
            with pytest.raises(UnicodeDecodeError):
                await client.pipeline(transaction).lpush("bad", 1).get("bad").execute()
        await client.aclose()

    run(main())


def test_unsolicited_push_messages_are_delivered(run: Run) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            writer.write(b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n$1\r\nv\r\n")
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server)
        assert await client.get("k") == b"v"
        told: list[Any] = []
        parser = client._link.connection._parser
        # redis-py's parser class, and hence the name of its push handler, depends on the
        # installation.
        parser.handle_push_response = lambda message, *_: told.append(message)
        assert await client.get("k") == b"v"
        assert told == [[b"invalidate", [b"k"]]]
        # A TypeError raised by the handler is not mistaken for a handler with another signature.
        parser.handle_push_response = lambda message, *_: told.append(message) or len(None)
        with pytest.raises(TypeError, match="NoneType"):
            await client.get("k")
        assert len(told) == 2
        await client.aclose()
        server.close()

    run(main())


def test_an_undecodable_push_message_fails_no_call(run: Run) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        push = b">2\r\n+x\r\n$1\r\n\xff\r\n"
        while await reader.read(100):
            writer.write(push + b"$1\r\nv\r\n" + push)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, decode_responses=True)
        assert await client.get("k") == "v"
        link = client._link
        told: list[Any] = []
        link.connection._parser.handle_push_response = lambda message, *_: told.append(message)
        assert await client.get("k") == "v"
        assert client._link is link
        assert told[0] == ["x", b"\xff"]
        await client.aclose()
        server.close()

    run(main())


def test_pipelines_share_the_connection(url: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(
            url, decode_responses=True, client_name="pipelines"
        )

        async def work(name: str, transaction: bool) -> None:
            for number in range(20):
                pipe = client.pipeline(transaction)
                pipe.set(name, number).incr(name).get(name).echo(name)
                results = await pipe.execute()
                assert results == [True, number + 1, str(number + 1), name]
                assert await client.get(name) == str(number + 1)

        await asyncio.gather(*(work(f"key:{number}", number % 2 == 0) for number in range(10)))
        with redis.Redis.from_url(url) as other:
            names = [each["name"] for each in other.client_list()]
        assert names.count("pipelines") == 1

        for transaction in (False, True):
            pipe = client.pipeline(transaction)
            results = await pipe.set("k", 1).lpush("k", 2).get("k").execute(raise_on_error=False)
            assert results[0] is True
            assert isinstance(results[1], redis.ResponseError)
            assert results[2] == "1"
            with pytest.raises(redis.ResponseError, match=r"Command # 2 \(LPUSH k 2\)"):
                await pipe.get("k").lpush("k", 2).execute()
            with pytest.raises(redis.ResponseError, match=r"Command # 1 \(NO SUCH\)"):
                await pipe.execute_command("NO", "SUCH").execute()
            task = asyncio.create_task(pipe.echo("nobody's").echo("neither").execute())
            await asyncio.sleep(0)
            task.cancel()
            assert await client.echo("mine") == "mine"
        pipe = client.pipeline(False)
        results = await pipe.get("k").dump("k").get("k").execute()
        assert (results[0], type(results[1])) == ("1", bytes)
        client._link.fail(redis.ConnectionError("gone"))
        assert await pipe.get("k").execute() == ["1"]
        await client.aclose()

    run(main())


def test_blocking_commands_and_messages_delay_no_other_call(url: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(url, decode_responses=True)
        waiting = asyncio.create_task(client.blpop(["queue"], timeout=30))
        async with client.pubsub() as messages:
            await messages.subscribe("news")
            assert (await messages.get_message(timeout=60))["type"] == "subscribe"
            assert await client.get("k") is None
            assert await client.publish("news", "hello") == 1
            assert (await messages.get_message(timeout=60))["data"] == "hello"
        assert not waiting.done()
        await client.rpush("queue", "x")
        assert tuple(await waiting) == ("queue", "x")
        async with client.lock("lock", timeout=30):
            assert await client.exists("lock") == 1
        async with client.pipeline(transaction=True) as pipe:
            assert await pipe.set("k", 1).incr("k").execute() == [True, 2]
        assert await client.execute_command("client", "setname", "mine")
        assert await client.execute_command("SELECT", 1)
        assert await client.get("k") == "2"
        assert [key async for key in client.scan_iter("k")] == ["k"]
        await client.aclose()

    run(main())


def test_client_name_and_user_apply_to_the_shared_connection(url: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Redis.from_url(url, decode_responses=True) as client:
            assert await client.client_setname("mine")
            assert await client.client_getname() == "mine"
            rules = {"enabled": True, "passwords": "+word", "categories": ["+@all"]}
            assert await client.acl_setuser("guest", **rules)
            try:
                assert await client.auth("word", "guest")
                assert await client.acl_whoami() == "guest"
            finally:
                with redis.Redis.from_url(url) as other:
                    other.acl_deluser("guest")

    run(main())


def test_a_transaction_on_a_loading_server_raises_busy_loading(run: Run) -> None:
    async def load(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"EXEC\r\n")
        writer.write(b"+OK\r\n+QUEUED\r\n*1\r\n-LOADING its data\r\n")
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(load, "127.0.0.1", 0)
        async with plain(server) as client:
            with pytest.raises(redis.BusyLoadingError, match="its data"):
                await client.pipeline().get("k").execute(raise_on_error=False)
        server.close()

    run(main())


def test_client_reply_skip_does_not_mute_other_calls(url: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(url, decode_responses=True)
        assert await client.execute_command("client", "id")
        # The server answers neither this command nor the next command on the same connection.
        muted = asyncio.create_task(client.execute_command("client", "reply", "skip"))
        names = ["a", "b", "c"]
        calls = asyncio.gather(*(client.echo(name) for name in names))
        assert await asyncio.wait_for(calls, 60) == names
        assert not muted.done()
        muted.cancel()
        await asyncio.wait([muted])
        await client.aclose()

    run(main())


def test_a_closed_client_stops_connecting(run: Run) -> None:
    greeted, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        greeted.set()
        await reader.read()
        gone.set()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, password="secret")
        first, second = (asyncio.create_task(client.get("k")) for _ in range(2))
        await greeted.wait()
        first.cancel()
        await client.aclose()
        await asyncio.wait_for(gone.wait(), 60)
        assert client._link is None
        with pytest.raises(redis.ConnectionError, match="closed by its client"):
            await second
        assert first.cancelled()
        server.close()

    run(main())


def test_a_custom_connection_class_is_used_unchanged(url: str, run: Run) -> None:
    class Own:
        def __init__(self, **options: Any) -> None:
            self.inner = redis.asyncio.UnixDomainSocketConnection(**options)

        def __getattr__(self, name: str) -> Any:
            if name in ("_reader", "_writer"):
                raise AttributeError(name)
            return getattr(self.inner, name)

    async def main() -> None:
        kind: Any = Own
        path = url.removeprefix("unix://")
        pool = redis.asyncio.ConnectionPool(connection_class=kind, path=path)
        client = undercroft.asyncio.Redis(connection_pool=pool)
        assert await client.set("k", "v")
        assert await client.pipeline().get("k").execute() == [b"v"]
        await client.aclose()
        await pool.disconnect()

    run(main())


def test_a_client_works_in_one_loop_after_another(url: str, run: Run) -> None:
    client = undercroft.asyncio.Redis.from_url(url)

    async def main(number: int) -> Any:
        return await client.set("k", number) and await client.get("k")

    assert [run(main(number)) for number in range(3)] == [b"0", b"1", b"2"]
    run(client.aclose())


def test_every_caller_learns_that_the_server_is_unreachable(path: str, run: Run) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0))
        for _ in range(3):
            results = await asyncio.gather(
                *(client.ping() for _ in range(5)), return_exceptions=True
            )
            assert [type(result) for result in results] == [redis.ConnectionError] * 5
        await client.aclose()

    run(main())


def test_a_garbage_collected_client_closes_its_connection(run: Run) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            writer.write(b"+PONG\r\n")
        ended.set()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server)
        assert await client.ping()
        del client
        gc.collect()
        await asyncio.wait_for(ended.wait(), 60)
        server.close()

    run(main())


def test_a_forked_child_does_not_touch_its_parent_s_connection(url: str) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(url)
        before = await client.client_id()
        child = os.fork()
        if child == 0:
            # The child has no running loop, and its exit closes none of the parent's connections.
            os._exit(0 if client._link.failure is not None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert await client.client_id() == before
        await client.aclose()

    asyncio.run(main())


def test_each_loop_has_its_own_connection(run: Run) -> None:
    met: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(writer)
        await answer_gets(reader, writer)

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server)

        async def elsewhere() -> None:
            assert await client.get("k") == b"v"
            assert await client.get("k") == b"v"

        await elsewhere()
        # Use another loop in another thread while this loop is running and has a connection.
        await asyncio.to_thread(run, elsewhere())
        await elsewhere()
        assert len(met) == 2
        await client.aclose()
        server.close()

    run(main())
