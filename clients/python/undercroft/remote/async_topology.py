"""Asyncio clients for a Redis Cluster, and for the master that Sentinels name.

redis-py selects the node of a call that is redirected, or whose node is not obvious. Calls to a
node share one connection, as calls to any server do.
"""

from __future__ import annotations

from typing import Any, Self

import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
from redis.asyncio.connection import parse_url
from redis.exceptions import ConnectionError, TimeoutError

from undercroft.remote.async_client import RemoteRedis
from undercroft.remote.async_cluster import ClusterPipeline, NodeClients, run
from undercroft.remote.async_connection import Connection, SSLConnection
from undercroft.remote.at_most_once import once_in_cluster
from undercroft.remote.cluster_routes import Routes
from undercroft.remote.topology import CLUSTER, Sentinels

_CONNECTIONS: dict[Any, type[Any]] = {
    redis.asyncio.Connection: Connection,
    redis.asyncio.SSLConnection: SSLConnection,
}


class RedisCluster(redis.asyncio.RedisCluster):
    """redis-py's asyncio client for a Redis Cluster or Valkey Cluster."""

    # None until the client is complete.
    _routes: Routes | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a client with redis-py's arguments."""
        super().__init__(*args, **kwargs)
        # Nodes that are discovered later use these settings. The startup nodes already exist and
        # are changed below.
        settings = self.connection_kwargs
        kind = settings["connection_class"]
        settings["connection_class"] = _CONNECTIONS.get(kind, kind)
        for node in self.nodes_manager.startup_nodes.values():
            node.connection_class = _CONNECTIONS.get(node.connection_class, node.connection_class)
        self._node_clients = NodeClients()
        self._routes = Routes(self, redis.asyncio.RedisCluster, RedisCluster, self._node_clients.of)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a client for the cluster that includes the node at a URL.

        ``redis+cluster://`` and ``rediss+cluster://`` correspond to redis-py's ``redis://`` and
        ``rediss://``.
        """
        made: Any = super().from_url
        client: Self = made(url.replace("+cluster://", "://", 1), **options)
        return client

    def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        """Run any command and return an awaitable reply, as redis-py converts it."""
        if self._initialize:
            return self._initialized(args, kwargs)
        return self._routed(args, kwargs)

    async def _initialized(self, args: Any, kwargs: Any) -> Any:
        """Run a command after the first look for the nodes, or after a node has failed."""
        await self.initialize()
        return await self._routed(args, kwargs)

    def _routed(self, args: Any, kwargs: Any) -> Any:
        routes, slowly = self._routes, super().execute_command
        client = None if routes is None else routes.client(args, kwargs)
        if client is None:
            return slowly(*args, **kwargs)
        return run(self, client, slowly, args, kwargs)

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> Any:
        """Return a pipeline: a queue of commands that are sent to all nodes together."""
        pipeline: Any = super().pipeline(transaction, shard_hint)
        if type(pipeline) is redis.asyncio.cluster.ClusterPipeline:
            kind: Any = ClusterPipeline
            pipeline.__class__ = kind
        return pipeline

    async def initialize(self, *args: Any, **kwargs: Any) -> Any:
        """Get the nodes and their slots, as redis-py does."""
        found: Any = await super().initialize(*args, **kwargs)
        await self._node_clients.keep(self.nodes_manager.nodes_cache)
        return found

    async def aclose(self) -> None:
        """Close all connections. Using the client again opens new connections."""
        await self._node_clients.keep(())
        await super().aclose()

    async def _execute_command(self, target_node: Any, *args: Any, **kwargs: Any) -> Any:
        run: Any = super()._execute_command
        try:
            return await run(target_node, *args, **kwargs)
        except (ConnectionError, TimeoutError) as error:
            raise once_in_cluster(error) from error


class Sentinel(redis.asyncio.sentinel.Sentinel):
    """redis-py's Sentinels, whose service clients are instances of this package's classes."""

    def master_for(
        self, service_name: str, redis_class: Any = RemoteRedis, *more: Any, **kwargs: Any
    ) -> Any:
        """Return a client for a service's master."""
        found: Any = super().master_for
        return found(service_name, redis_class, *more, **kwargs)

    def slave_for(
        self, service_name: str, redis_class: Any = RemoteRedis, *more: Any, **kwargs: Any
    ) -> Any:
        """Return a client for a service's replicas."""
        found: Any = super().slave_for
        return found(service_name, redis_class, *more, **kwargs)


def from_sentinel_url(url: str, **options: Any) -> RemoteRedis:
    """Return a client for the master that the Sentinels at a URL name."""
    hosts, service, settings, tls = Sentinels.of(url, parse_url)
    made: Any = Sentinel
    client: RemoteRedis = made(hosts, **(options | settings)).master_for(service, ssl=tls)
    return client


def from_url(url: str, **options: Any) -> Any:
    """Return a client for the cluster, or for the Sentinels' master, that a URL names."""
    if url.partition("://")[0] in CLUSTER:
        return RedisCluster.from_url(url, **options)
    return from_sentinel_url(url, **options)
