"""Tests calls to a real cluster whose nodes the client finds by itself."""

import asyncio
import os
from typing import Any

import pytest
import redis
import redis.asyncio
import undercroft
import undercroft.asyncio
from clusters import Cluster, cluster
from conftest import Run
from redis.crc import key_slot


def value_of(number: int, turn: int) -> bytes:
    """Return a value that names its key, so that another key's reply is noticed."""
    return b"%d:%d:" % (number, turn) * 3


def is_of(number: int, value: bytes) -> bool:
    return value.startswith(b"%d:" % number)


def test_calls_give_the_same_results_as_redis_py() -> None:
    with cluster() as whole:
        ours = undercroft.Redis.from_url(whole.url)
        theirs = redis.RedisCluster(host="127.0.0.1", port=whole.ports[0])
        assert isinstance(ours, redis.RedisCluster)
        calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
            ("set", ("a", "1"), {"ex": 100}),
            ("get", ("a",), {}),
            ("get", (b"a",), {}),
            ("incrby", ("a", 5), {}),
            ("hset", ("h", "f", "v"), {}),
            ("hgetall", ("h",), {}),
            ("zadd", ("z", {"m": 1.5}), {}),
            ("zrange", ("z", 0, -1), {"withscores": True}),
            ("zscore", ("z", "m"), {}),
            ("lpush", ("a", "x"), {}),
            ("expire", ("h", 100), {"nx": True}),
            ("type", ("z",), {}),
            ("sadd", ("{tag}s", "x"), {}),
            ("smembers", ("{tag}s",), {}),
            ("exists", ("a",), {}),
            ("exists", ("a", "h", "none"), {}),
            ("mget", ("{tag}1", "{tag}2"), {}),
            ("mget", ("a", "b"), {}),
            ("delete", ("h",), {}),
            ("delete", ("a", "z"), {}),
            ("xadd", ("stream", {"f": "v"}, "1-1"), {}),
            ("xrange", ("stream",), {}),
            ("eval", ("return KEYS[1]", 1, "k"), {}),
            ("object", ("ENCODING", "stream"), {}),
            ("dbsize", (), {}),
            ("get", (), {}),
        ]
        results = []
        for client in (ours, theirs):
            client.flushall()
            found: list[Any] = []
            for name, args, options in calls:
                try:
                    found.append(getattr(client, name)(*args, **options))
                except Exception as error:
                    found.append((type(error), str(error)))
            results.append(found)
        for call, mine, other in zip(calls, *results, strict=True):
            assert mine == other, call
        ours.close()
        theirs.close()


@pytest.mark.parametrize("raise_on_error", [True, False])
def test_pipelines_give_the_same_results_as_redis_py(raise_on_error: bool) -> None:
    with cluster() as whole:
        ours = undercroft.RedisCluster.from_url(whole.url)
        theirs = redis.RedisCluster(host="127.0.0.1", port=whole.ports[0])
        results: list[Any] = []
        for client in (ours, theirs):
            client.flushall()
            pipe = client.pipeline()
            for number in range(50):
                pipe.set(f"key:{number}", number).incr(f"key:{number}").hset(f"h:{number}", "f", 1)
            pipe.lpush("key:7", "x").hgetall("h:3").get("key:8")
            try:
                results.append(pipe.execute(raise_on_error))
            except redis.ResponseError as error:
                results.append(str(error))
            assert len(pipe) == 0
            # The key of the failed command is as before, and all others were set.
            results.append([client.get(f"key:{number}") for number in range(50)])
        if not raise_on_error:
            for found in (results[0], results[2]):
                found[150] = str(found[150])
        assert results[:2] == results[2:]
        ours.close()
        theirs.close()


def test_pipelines_that_redis_py_encodes_have_the_same_results() -> None:
    with cluster() as whole:
        options = {"health_check_interval": 30, "decode_responses": True}
        ours = undercroft.RedisCluster.from_url(whole.url, **options)
        theirs = redis.RedisCluster(host="127.0.0.1", port=whole.ports[0], **options)
        results = []
        for client in (ours, theirs):
            client.flushall()
            pipe = client.pipeline()
            # The reply to DUMP is not text.
            pipe.set("a", 1).set("b", 2).incr("c").dump("a").get("b").lpush("c", "x").get("c")
            found = pipe.execute(raise_on_error=False)
            results.append(
                [each if not isinstance(each, Exception) else str(each) for each in found]
            )
        assert results[0] == results[1]
        assert results[0][3].startswith(b"\x00")
        ours.close()
        theirs.close()


def moving(whole: Cluster, key: str) -> tuple[int, int, int]:
    """Return the slot of a key, its master, and another master."""
    slot = key_slot(key.encode())
    source = whole.owner(slot)
    return slot, source, next(port for port in whole.ports if port != source)


def test_redirections_are_followed_and_remembered() -> None:
    with cluster() as whole:
        client = undercroft.RedisCluster.from_url(whole.url)
        keys = [f"{{tag}}{number}" for number in range(20)]
        for number, key in enumerate(keys):
            client.set(key, value_of(number, 0))
        slot, source, target = moving(whole, "{tag}")
        whole.begin_move(slot, source, target)
        whole.move_keys(slot, source, target, 10)
        # Some keys are on the new node already (ASK), and some are not.
        assert all(is_of(number, client.get(key)) for number, key in enumerate(keys))
        pipe = client.pipeline()
        for key in keys:
            pipe.get(key)
        assert all(is_of(*each) for each in enumerate(pipe.execute()))
        whole.move_keys(slot, source, target)
        whole.end_move(slot, target)
        assert all(is_of(number, client.get(key)) for number, key in enumerate(keys))
        pipe = client.pipeline()
        for key in keys:
            pipe.append(key, "more")
        assert pipe.execute() == [len(value_of(number, 0)) + 4 for number in range(20)]
        (master, *_) = client.nodes_manager.slots_cache[slot]
        assert master.port == target
        # From now on, no call is redirected.
        before = whole.nodes[source].execute_command("INFO", "errorstats")
        client.get(keys[0])
        assert whole.nodes[source].execute_command("INFO", "errorstats") == before
        client.close()


def test_many_tasks_share_one_connection_per_node(run: Run) -> None:
    count = 10_000

    async def main(whole: Cluster) -> None:
        async with undercroft.asyncio.RedisCluster.from_url(whole.url) as client:

            async def use(number: int) -> None:
                key = f"task:{number}"
                await client.set(key, value_of(number, 1))
                assert await client.get(key) == value_of(number, 1)

            await asyncio.gather(*(use(number) for number in range(count)))
            # Some calls are cancelled at a random moment; no other call gets their replies.
            tasks = [asyncio.ensure_future(client.get(f"task:{n}")) for n in range(1000)]
            for each in tasks[::3]:
                each.cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            for number, value in enumerate(found):
                if number % 3:
                    assert value == value_of(number, 1)
                else:
                    assert isinstance(value, asyncio.CancelledError)
            for port in whole.ports:
                text = whole.nodes[port].execute_command("CLIENT LIST")
                users = [line for line in text.splitlines() if "cmd=get" in line]
                assert len(users) <= 1

    with cluster() as whole:
        run(main(whole))


def test_a_replica_replaces_a_killed_master(run: Run) -> None:
    with cluster(1, "--cluster-replica-validity-factor", "0") as whole:
        victim = whole.ports[2]
        (replica,) = whole.nodes.keys() - set(whole.ports)
        key = next(f"k{n}" for n in range(100) if whole.owner(key_slot(b"k%d" % n)) == victim)
        client = undercroft.RedisCluster.from_url(whole.url)
        client.set(key, "before")
        whole.wait_for(lambda: whole.nodes[replica].execute_command("DBSIZE") == 1)

        async def main() -> None:
            async with undercroft.asyncio.RedisCluster.from_url(whole.url) as tasks:
                assert await tasks.get(key) == b"before"
                process = whole.nodes[victim].execute_command("INFO", "server")
                lines = process.splitlines()
                pid = next(line for line in lines if line.startswith("process_id:"))
                os.kill(int(pid.partition(":")[2]), 9)
                # A call fails, or ends once the replica has taken over.
                for call in (lambda: client.get(key), lambda: tasks.get(key)):
                    while True:
                        try:
                            found: Any = call()
                            found = found if isinstance(found, bytes) else await found
                        except (redis.RedisError, OSError):
                            continue
                        assert found == b"before"
                        break

        run(main())
        client.close()


def test_a_forked_child_has_its_own_connections() -> None:
    with cluster() as whole:
        client = undercroft.RedisCluster.from_url(whole.url)
        for number in range(30):
            client.set(f"fork:{number}", value_of(number, 0))

        def check() -> None:
            for number in range(30):
                assert client.get(f"fork:{number}") == value_of(number, 0)
            pipe = client.pipeline()
            for number in range(30):
                pipe.get(f"fork:{number}")
            assert pipe.execute() == [value_of(number, 0) for number in range(30)]

        child = os.fork()
        if child == 0:
            status = 1
            try:
                for _ in range(20):
                    check()
                status = 0
            finally:
                os._exit(status)
        for _ in range(20):
            check()
        assert os.waitpid(child, 0)[1] == 0
        client.close()


def test_classes_that_select_nodes_themselves_are_asked() -> None:
    asked: list[Any] = []

    class Own(undercroft.RedisCluster):
        def _execute_command(self, target_node: Any, *args: Any, **kwargs: Any) -> Any:
            asked.append(args)
            return super()._execute_command(target_node, *args, **kwargs)

    with cluster() as whole:
        with Own.from_url(whole.url) as client:
            client.set("a", 1)
            assert ("SET", "a", 1) in asked
        from redis.cluster import LoadBalancingStrategy

        options = {"load_balancing_strategy": LoadBalancingStrategy.ROUND_ROBIN}
        with undercroft.RedisCluster.from_url(whole.url, **options) as client:
            assert client._routes is not None
            assert client._routes.client(("GET", "a"), {}) is None
