"""The asyncio calls and pipelines of a cluster that share one connection for each node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import redis.asyncio
import redis.asyncio.cluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AskError, ConnectionError, MovedError, RedisError, TimeoutError

from undercroft.remote.async_client import RemoteRedis
from undercroft.remote.at_most_once import once_in_cluster
from undercroft.remote.cluster_pipeline import grouped, is_to_repeat
from undercroft.remote.cluster_routes import REDIRECTED
from undercroft.remote.command_kinds import is_repeatable
from undercroft.remote.connection import is_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# redis-py's queue of a pipeline that is not a transaction. Versions before 6 have only this kind.
_PLAIN: Any = getattr(redis.asyncio.cluster, "PipelineStrategy", None)
# The maximum number of redirections of one call, as in redis-py.
_REDIRECTIONS_MAX = 16


class NodeClients:
    """The clients of a cluster's nodes, each of which shares one connection among all tasks."""

    def __init__(self) -> None:
        """Create no client yet."""
        self._clients: dict[str, RemoteRedis | None] = {}

    def of(self, node: Any) -> RemoteRedis | None:
        """Return the client of a node, or None if redis-py must run the node's calls."""
        # redis-py creates other objects for the same nodes each time it looks for the nodes.
        if node.name not in self._clients:
            self._clients[node.name] = _client(node)
        return self._clients[node.name]

    def asked(self, cluster: Any, error: AskError) -> RemoteRedis | None:
        """Return the client of the node that a redirection names, if the node is known."""
        node = cluster.nodes_manager.get_node(host=error.host, port=error.port)
        return None if node is None else self.of(node)

    async def keep(self, nodes: Any) -> None:
        """Close the clients of all other nodes once their calls have ended."""
        left = [name for name in self._clients if name not in nodes]
        for name in left:
            client = self._clients.pop(name)
            if client is not None:
                await client.retire()


def _client(node: Any) -> RemoteRedis | None:
    # redis-py's cluster repeats calls itself, after it has looked for the slot's new node.
    settings = node.connection_kwargs | {"retry": Retry(NoBackoff(), 0)}
    pool: Any = redis.asyncio.ConnectionPool(
        connection_class=node.connection_class, max_connections=node.max_connections, **settings
    )
    client = RemoteRedis(connection_pool=pool)
    client.response_callbacks = node.response_callbacks
    return client if client._short else None


async def run(
    cluster: Any,
    client: RemoteRedis,
    slowly: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Run a command on a node, and follow redirections to nodes that are known.

    ``slowly`` is redis-py's method, for all other cases. It sends ASKING and the command over
    different connections, so while a slot is being moved, the nodes redirect its commands again and
    again. It also closes all connections after some redirections, which fails other calls.
    """
    clients: NodeClients = cluster._node_clients
    next_client: RemoteRedis | None = client
    for _ in range(_REDIRECTIONS_MAX):
        if next_client is None:
            break
        try:
            return await next_client.execute_command(*args, **options)
        except MovedError as error:
            next_client = await _moved(cluster, error, args, options)
        except AskError as error:
            asked = clients.asked(cluster, error)
            if asked is None:
                break
            pipeline = asked.pipeline(transaction=False)
            pipeline.command_stack = [(("ASKING",), {}), (args, options)]
            _, reply = await pipeline.execute(raise_on_error=False)
            if not isinstance(reply, Exception):
                return reply
            if not isinstance(reply, REDIRECTED):
                raise reply from None
        except REDIRECTED:
            # The command did not run.
            break
        except (ConnectionError, TimeoutError) as error:
            may_have_run = hasattr(error, "may_have_run") and not is_refusal(error)
            if may_have_run and not is_repeatable(args):
                raise once_in_cluster(error) from error
            break
    return await slowly(*args, **options)


async def _moved(cluster: Any, error: MovedError, args: Any, options: Any) -> RemoteRedis | None:
    """Note the new node of a slot, and return its client, or None if it is not known."""
    move_slot = getattr(cluster.nodes_manager, "move_slot", None)
    if move_slot is None:
        # redis-py before version 7.
        return None
    await move_slot(error)
    cluster.reinitialize_counter += 1
    if cluster.reinitialize_steps and cluster.reinitialize_counter >= cluster.reinitialize_steps:
        cluster.reinitialize_counter = 0
        # Other slots have probably moved as well.
        cluster._initialize = True
        await cluster.initialize()
    found: RemoteRedis | None = cluster._routes.client(args, options)
    return found


class ClusterPipeline(redis.asyncio.cluster.ClusterPipeline):
    """redis-py's pipeline of a cluster, which sends commands to all nodes at once.

    redis-py runs transactions, and pipelines with a command whose node is not obvious.
    """

    __slots__ = ()

    async def execute(
        self, raise_on_error: bool = True, allow_redirections: bool = True
    ) -> list[Any]:
        """Run all queued commands and return their results."""
        strategy: Any = getattr(self, "_execution_strategy", None)
        cluster: Any = getattr(self, "cluster_client", None)
        is_plain = _PLAIN is not None and type(strategy) is _PLAIN and allow_redirections
        if is_plain and not cluster._initialize:
            commands = [(each.args, each.kwargs) for each in strategy._command_queue]
            parts = grouped(cluster._routes, commands)
            if parts:
                try:
                    return await _at_once(strategy, cluster, (parts, commands), raise_on_error)
                finally:
                    reset: Any = self.reset
                    await reset()
        whole: Any = super().execute
        found: list[Any] = await whole(raise_on_error, allow_redirections)
        return found


async def _at_once(strategy: Any, cluster: Any, work: Any, raise_on_error: bool) -> list[Any]:
    parts, commands = work
    results: list[Any] = [None] * len(commands)

    async def ask(client: RemoteRedis, places: list[int]) -> None:
        pipeline = client.pipeline(transaction=False)
        pipeline.command_stack = [commands[place] for place in places]
        try:
            replies = await pipeline.execute(raise_on_error=False)
        except (ConnectionError, TimeoutError) as error:
            replies = [error] * len(places)
        for place, reply in zip(places, replies, strict=True):
            results[place] = reply

    await asyncio.gather(*(ask(client, places) for client, places in parts.items()))
    for place, (args, options) in enumerate(commands):
        if is_to_repeat(args, results[place]):
            try:
                results[place] = await cluster.execute_command(*args, **options)
            except RedisError as error:
                results[place] = error
    if raise_on_error:
        for place, (args, _) in enumerate(commands):
            if isinstance(results[place], Exception):
                strategy.annotate_exception(results[place], place + 1, args)
                raise results[place]
    return results
