"""Tests redis-py's cluster and Sentinel clients over this package's connections."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio.retry
import redis.asyncio.sentinel
import undercroft
import undercroft.asyncio
from clusters import server, spare_port
from conftest import Run
from redis.backoff import NoBackoff
from redis.retry import Retry


def test_calls_and_pipelines_on_a_cluster() -> None:
    with cluster() as port:
        url = f"redis+cluster://127.0.0.1:{port}"
        by_url = undercroft.Redis.from_url(url, decode_responses=True)
        by_name = undercroft.RedisCluster(host="127.0.0.1", port=port, decode_responses=True)
        for client in (by_url, by_name):
            assert isinstance(client, undercroft.RedisCluster)
            client.flushall()
            assert client.mset_nonatomic({f"key:{number}": number for number in range(100)})
            assert client.get("key:7") == "7"
            pipe = client.pipeline()
            assert pipe.incr("a").incr("b").get("key:1").execute() == [1, 1, "1"]
            with pytest.raises(redis.ResponseError):
                client.lpush("a", "x")
            (node,) = client.get_nodes()
            pool = node.redis_connection.connection_pool
            assert pool.connection_class is undercroft.Connection
            client.close()


@contextmanager
def cluster() -> Iterator[int]:
    """Run a cluster of one node during a test."""
    with server("--cluster-enabled", "yes") as port:
        with redis.Redis(port=port) as node:
            node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            while node.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                pass
        yield port


@contextmanager
def sentinels() -> Iterator[tuple[int, str]]:
    """Run a master and its Sentinel. The URL's first Sentinel host does not exist."""
    with server() as master, server("--sentinel") as port:
        with redis.Redis(port=port) as sentinel:
            assert sentinel.execute_command("SENTINEL MONITOR", "main", "127.0.0.1", master, 1)
        hosts = f"localhost:1,127.0.0.1:{port}"
        yield master, f"redis+sentinel://{hosts}/main/3?socket_timeout=5"


def test_a_master_is_found_by_sentinels() -> None:
    with sentinels() as (master, url):
        with undercroft.Redis.from_url(url, decode_responses=True) as client:
            assert isinstance(client, undercroft.RemoteRedis)
            assert client.set("k", 1)
            assert client.get("k") == "1"
            assert client.pipeline().incr("k").get("k").execute() == [2, "2"]
            assert client.client_info()["db"] == 3
        with redis.Redis(port=master, db=3) as direct:
            assert direct.get("k") == b"2"
        hosts = undercroft.remote.topology.Sentinels.of(url, redis.connection.parse_url).hosts
        watching = undercroft.Sentinel(hosts, decode_responses=True)
        with watching.master_for("main", db=3) as client:
            assert type(client) is undercroft.RemoteRedis
            assert client.get("k") == "2"
            (connection,) = client.connection_pool._available_connections
            assert type(connection) is undercroft.SentinelManagedConnection
        with watching.slave_for("main", ssl=True) as client:
            kind = client.connection_pool.connection_class
            assert kind is undercroft.SentinelManagedSSLConnection


def test_a_demoted_master_is_refused() -> None:
    demoted = pytest.raises(redis.ConnectionError, match="previous master is now a slave")
    with server() as master, server("--sentinel") as port, redis.Redis(port=master) as direct:
        with redis.Redis(port=port) as sentinel:
            assert sentinel.execute_command("SENTINEL MONITOR", "main", "127.0.0.1", master, 1)
        url = f"redis+sentinel://127.0.0.1:{port}/main"
        with undercroft.Redis.from_url(url, retry=Retry(NoBackoff(), 0)) as client:
            pipe = client.pipeline(False)
            assert pipe.get("k").set("k", 1).execute() == [None, True]
            direct.replicaof("127.0.0.1", spare_port())
            with demoted:
                pipe.get("k").set("k", 2).execute()
            direct.replicaof("NO", "ONE")
            assert pipe.get("k").set("k", 3).execute() == [b"1", True]

        async def main() -> None:
            retry = redis.asyncio.retry.Retry(NoBackoff(), 0)
            sentinels = redis.asyncio.sentinel.Sentinel([("127.0.0.1", port)])
            client: Any = sentinels.master_for(
                "main", redis_class=undercroft.asyncio.RemoteRedis, retry=retry
            )
            assert await client.get("k") == b"3"
            direct.replicaof("127.0.0.1", spare_port())
            for call in (client.set("k", 4), client.pipeline(False).get("k").set("k", 4).execute()):
                with demoted:
                    await call
            direct.replicaof("NO", "ONE")
            assert await client.set("k", 5)
            await client.aclose()

        asyncio.run(main())


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_cluster_on_asyncio(run: Run, protocol: int) -> None:
    async def main(port: int) -> None:
        url = f"redis+cluster://127.0.0.1:{port}"
        client = undercroft.asyncio.Redis.from_url(url, protocol=protocol, decode_responses=True)
        assert isinstance(client, undercroft.asyncio.RedisCluster)
        async with client:
            await client.flushall()
            calls = (client.set(f"key:{number}", number) for number in range(100))
            assert await asyncio.gather(*calls) == [True] * 100
            assert await client.get("key:7") == "7"
            pipe = client.pipeline()
            assert await pipe.incr("a").incr("b").get("key:1").execute() == [1, 1, "1"]
            with pytest.raises(redis.ResponseError):
                await client.lpush("a", "x")
            long = "v" * 200_000
            assert await client.set("long", long)
            assert await client.get("long") == long
            assert await client.hset("h", mapping={"f": "v"}) == 1
            assert await client.hgetall("h") == {"f": "v"}
            for node in client.get_nodes():
                kinds = {type(each) for each in node._connections}
                assert kinds == {undercroft.remote.async_connection.Connection}

    with cluster() as port:
        run(main(port))


def test_a_master_is_found_by_sentinels_on_asyncio(run: Run) -> None:
    async def main(master: int, url: str) -> None:
        async with undercroft.asyncio.Redis.from_url(url, decode_responses=True) as client:
            assert isinstance(client, undercroft.asyncio.RemoteRedis)
            assert await client.set("k", 1)
            assert await asyncio.gather(*(client.incr("k") for _ in range(3))) == [2, 3, 4]
            assert await client.pipeline().incr("k").get("k").execute() == [5, "5"]
            assert await client.blpop("none", timeout=0.01) is None
            assert (await client.client_info())["db"] == 3
        with redis.Redis(port=master, db=3) as direct:
            assert direct.get("k") == b"5"
        hosts = undercroft.remote.topology.Sentinels.of(url, redis.connection.parse_url).hosts
        watching = undercroft.asyncio.Sentinel(hosts, decode_responses=True)
        async with watching.master_for("main", db=3) as client:
            assert type(client) is undercroft.asyncio.RemoteRedis
            assert await client.get("k") == "5"
        async with watching.slave_for("main") as client:
            assert type(client) is undercroft.asyncio.RemoteRedis

    with sentinels() as (master, url):
        run(main(master, url))


@pytest.mark.parametrize("url", ["redis+sentinel://host", "redis+sentinel:///service"])
def test_a_sentinel_s_url_names_host_and_service(url: str) -> None:
    with pytest.raises(ValueError, match="expected redis\\+sentinel://host:port/service"):
        undercroft.Redis.from_url(url)
    with pytest.raises(ValueError, match="expected redis\\+sentinel://host:port/service"):
        undercroft.asyncio.Redis.from_url(url)
