"""Clients for a Redis Cluster, and for the master that Sentinels name.

redis-py selects the node of a call that is redirected, or whose node is not obvious. Connections
to nodes use this package's classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import redis
import redis.cluster
import redis.sentinel
from redis.connection import parse_url
from redis.exceptions import ConnectionError, ReadOnlyError, TimeoutError

from undercroft.remote.at_most_once import once_in_cluster
from undercroft.remote.client import RemoteRedis
from undercroft.remote.cluster_pipeline import ClusterPipeline
from undercroft.remote.cluster_routes import REDIRECTED, Routes
from undercroft.remote.command_kinds import is_repeatable
from undercroft.remote.connection import (
    DEMOTED,
    Connection,
    ConnectionPool,
    SSLConnection,
    _Plugged,
    is_refusal,
)

if TYPE_CHECKING:
    from typing import Self

CLUSTER = "redis+cluster", "rediss+cluster"
SENTINEL = "redis+sentinel", "rediss+sentinel"
_PORT_OF_SENTINELS = 26379


class RedisCluster(redis.RedisCluster):
    """redis-py's client for a Redis Cluster or Valkey Cluster."""

    # None until the client is complete.
    _routes: Routes | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a client with redis-py's arguments."""
        super().__init__(*args, **_by_url(kwargs))
        self._routes = Routes(self, redis.RedisCluster, RedisCluster, _client_of)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a client for the cluster that includes the node at a URL.

        ``redis+cluster://`` and ``rediss+cluster://`` correspond to redis-py's ``redis://`` and
        ``rediss://``.
        """
        return cls(url=url.replace("+cluster://", "://", 1), **options)

    def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        """Run any command and return its reply as redis-py converts it."""
        routes = self._routes
        client = None if routes is None else routes.client(args, kwargs)
        if client is not None:
            try:
                return client.execute_command(*args, **kwargs)
            except REDIRECTED:
                # The command did not run. redis-py follows the redirection.
                pass
            except (ConnectionError, TimeoutError) as error:
                may_have_run = hasattr(error, "may_have_run") and not is_refusal(error)
                if may_have_run and not is_repeatable(args):
                    raise once_in_cluster(error) from error
        return super().execute_command(*args, **kwargs)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> Any:
        """Return a pipeline: a queue of commands that are sent to all nodes together."""
        pipeline: Any = super().pipeline(transaction, shard_hint)  # type: ignore[no-untyped-call]
        if type(pipeline) is redis.cluster.ClusterPipeline:
            ClusterPipeline.adopt(pipeline, self, self._routes)
        return pipeline

    def _execute_command(self, target_node: Any, *args: Any, **kwargs: Any) -> Any:
        run: Any = super()._execute_command
        try:
            return run(target_node, *args, **kwargs)
        except (ConnectionError, TimeoutError) as error:
            raise once_in_cluster(error) from error


def _client_of(node: Any) -> Any:
    """Return this package's client for a node, or None if redis-py must run the node's calls."""
    connection = node.redis_connection
    known, client = getattr(node, "_undercroft", (None, None))
    if connection is None or known is connection:
        return client if connection is not None else None
    pool = connection.connection_pool
    if type(pool) is ConnectionPool:
        client = RemoteRedis(connection_pool=pool)
        client = client if client._short else None
    else:
        client = None
    node._undercroft = (connection, client)
    return client


def _by_url(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a cluster's arguments with a URL from which redis-py picks a connection class."""
    url = kwargs.get("url")
    if url is None:
        nodes = kwargs.get("startup_nodes") or ()
        host, port = kwargs.pop("host", None), kwargs.pop("port", None)
        if host is None and nodes:
            host, port = nodes[0].host, nodes[0].port
        if host is None:
            return kwargs
        scheme = "rediss" if kwargs.pop("ssl", False) else "redis"
        name = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{name}:{port or 6379}"
    tls = url.startswith("rediss://")
    plugged = {
        "url": url,
        "connection_class": SSLConnection if tls else Connection,
        "connection_pool_class": ConnectionPool,
    }
    return plugged | kwargs | {"url": url}


class _Managed(_Plugged):
    """The common base class of connections to the node that Sentinels name."""

    # This attribute belongs to redis-py's connections.
    connection_pool: Any

    def _checked(self, replies: list[Any]) -> list[Any]:
        demoted = any(isinstance(reply, ReadOnlyError) for reply in replies)
        if demoted and self.connection_pool.is_master:
            # Raise ConnectionError, as redis-py does for a single reply. The next attempt then asks
            # the Sentinels again.
            raise ConnectionError(DEMOTED)
        return replies


class SentinelManagedConnection(_Managed, redis.sentinel.SentinelManagedConnection):
    """A TCP connection to the node that Sentinels name."""


class SentinelManagedSSLConnection(_Managed, redis.sentinel.SentinelManagedSSLConnection):
    """A TLS connection to the node that Sentinels name."""


class Sentinel(redis.sentinel.Sentinel):
    """redis-py's Sentinels, whose service clients are instances of this package's classes."""

    def master_for(
        self, service_name: str, redis_class: Any = RemoteRedis, *more: Any, **kwargs: Any
    ) -> Any:
        """Return a client for a service's master."""
        found: Any = super().master_for
        return found(service_name, redis_class, *more, **self._plugged(kwargs))

    def slave_for(
        self, service_name: str, redis_class: Any = RemoteRedis, *more: Any, **kwargs: Any
    ) -> Any:
        """Return a client for a service's replicas."""
        found: Any = super().slave_for
        return found(service_name, redis_class, *more, **self._plugged(kwargs))

    def _plugged(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        settings = self.connection_kwargs | kwargs
        tls = settings.get("ssl", False)
        kind = SentinelManagedSSLConnection if tls else SentinelManagedConnection
        return kwargs | {"connection_class": settings.get("connection_class", kind)}


class Sentinels(NamedTuple):
    """The parsed URL of a service that Sentinels manage."""

    hosts: list[tuple[str, int]]
    service: str
    # The settings for connections to the service, by redis-py's names.
    settings: dict[str, Any]
    tls: bool

    @classmethod
    def of(cls, url: str, parse: Any) -> Sentinels:
        """Parse a URL with redis-py's function for server URLs.

        The URL is ``redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/db]``,
        followed by redis-py's options. The user and password apply to the master.
        """
        scheme, _, rest = url.partition("://")
        place, question, query = rest.partition("?")
        place, _, path = place.partition("/")
        user, at, names = place.rpartition("@")
        service, _, database = path.partition("/")
        if not names or not service:
            raise ValueError(f"expected redis+sentinel://host:port/service, got {url!r}")
        hosts = []
        for each in names.split(","):
            host, colon, port = each.rpartition(":")
            if not colon or port.endswith("]"):
                host, port = each, str(_PORT_OF_SENTINELS)
            hosts.append((host.strip("[]"), int(port)))
        settings = parse(f"redis://{user}{at}host/{database}{question}{query}")
        settings.pop("host")
        return cls(hosts, unquote(service), settings, scheme.startswith("rediss"))


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
