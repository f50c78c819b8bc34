"""Pipelines of a cluster whose commands are sent to all nodes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis.cluster
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from undercroft.remote.at_most_once import once_in_cluster
from undercroft.remote.cluster_routes import REDIRECTED
from undercroft.remote.command_kinds import is_repeatable
from undercroft.remote.replies import NEVER_DECODE, shape_all

if TYPE_CHECKING:
    from undercroft.remote.cluster_routes import Routes

# redis-py's queue of a pipeline that is not a transaction. Versions before 6 have only this kind.
_PLAIN: Any = getattr(redis.cluster, "PipelineStrategy", None)

# A command and its options.
Command = tuple[tuple[Any, ...], dict[str, Any]]


def grouped(routes: Routes, commands: list[Command]) -> dict[Any, list[int]] | None:
    """Return the places of the commands of each node's client, or None if redis-py must decide."""
    found: dict[Any, list[int]] = {}
    for place, (args, options) in enumerate(commands):
        client = routes.client(args, options)
        if client is None:
            return None
        found.setdefault(client, []).append(place)
    return found


def is_to_repeat(args: tuple[Any, ...], reply: Any) -> bool:
    """Return whether a command did not run, or may run again, and redis-py can select its node."""
    if isinstance(reply, REDIRECTED):
        return True
    is_lost = isinstance(reply, (ConnectionError, TimeoutError))
    return is_lost and (not hasattr(reply, "may_have_run") or is_repeatable(args))


class _Queued:
    """A queued command, as redis-py's queue contains it."""

    result = node = command_policies = None
    asking = False

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any], position: int) -> None:
        self.args, self.options, self.position = args, options, position


class ClusterPipeline(redis.cluster.ClusterPipeline):
    """redis-py's pipeline of a cluster, which sends commands to all nodes at once.

    redis-py runs transactions, and pipelines with a command whose node is not obvious.
    """

    # The client whose pipeline this is, and its routes.
    _cluster: Any = None
    _routes: Any = None

    @classmethod
    def adopt(cls, pipeline: Any, cluster: Any, routes: Routes | None) -> None:
        """Convert a new redis-py pipeline of a client to this class."""
        pipeline.__class__ = cls
        pipeline._cluster, pipeline._routes = cluster, routes

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue a command."""
        strategy: Any = getattr(self, "_execution_strategy", None)
        if _PLAIN is None or type(strategy) is not _PLAIN:
            queue: Any = super().execute_command
            return queue(*args, **options)
        queued: list[Any] = strategy._command_queue
        queued.append(_Queued(args, options, len(queued)))
        return self

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run all queued commands and return their results."""
        strategy: Any = getattr(self, "_execution_strategy", None)
        if self._routes is not None and _PLAIN is not None and type(strategy) is _PLAIN:
            commands = [(each.args, each.options) for each in strategy.command_queue]
            parts = grouped(self._routes, commands)
            if parts:
                try:
                    return self._at_once(parts, commands, raise_on_error)
                finally:
                    self.reset()  # type: ignore[no-untyped-call]
        found: list[Any] = super().execute(raise_on_error)
        return found

    def _at_once(
        self, parts: dict[Any, list[int]], commands: list[Command], raise_on_error: bool
    ) -> list[Any]:
        results: list[Any] = [None] * len(commands)
        begun: list[tuple[Any, Any, list[Command], list[int]]] = []
        try:
            for client, places in parts.items():
                some = [commands[place] for place in places]
                try:
                    connection = client.connection_pool.take()
                except (ConnectionError, TimeoutError) as error:
                    # Nothing was sent, so the commands can be repeated.
                    for place in places:
                        results[place] = error
                    continue
                begun.append((client, connection, some, places))
                try:
                    if not connection.begin_exchange(some):
                        # The commands need redis-py's own encoding.
                        packed = connection.pack_commands([args for args, _ in some])
                        connection.send_packed_command(packed)
                        begun[-1] = (client, connection, [], places)
                except (ConnectionError, TimeoutError) as error:
                    # The server may have received some of the commands.
                    connection.disconnect()
                    begun.pop()
                    client.connection_pool.give(connection)
                    lost = _lost(error)
                    for place in places:
                        results[place] = lost
            while begun:
                client, connection, some, places = begun[0]
                self._received(client, connection, (some, places), commands, results)
                begun.pop(0)
                client.connection_pool.give(connection)
        finally:
            for client, connection, _, _ in begun:
                # The replies of this pipeline must not become those of the next call.
                connection.disconnect()
                client.connection_pool.give(connection)
        for place, (args, options) in enumerate(commands):
            if is_to_repeat(args, results[place]):
                try:
                    results[place] = self._cluster.execute_command(*args, **options)
                except RedisError as error:
                    results[place] = error
        if raise_on_error:
            for place, (args, _) in enumerate(commands):
                if isinstance(results[place], Exception):
                    annotate: Any = self.annotate_exception
                    annotate(results[place], place + 1, args)
                    raise results[place]
        return results

    def _received(
        self,
        client: Any,
        connection: Any,
        part: tuple[list[Command], list[int]],
        commands: list[Command],
        results: list[Any],
    ) -> None:
        """Store the results of the commands of one node."""
        some, places = part
        try:
            if some:
                replies = connection.end_exchange()
            else:
                some = [commands[place] for place in places]
                replies = [connection._next(NEVER_DECODE not in more) for _, more in some]
            shape_all(client.response_callbacks, some, replies)
        except (ConnectionError, TimeoutError) as error:
            connection.disconnect()
            replies = [_lost(error)] * len(places)
        for place, reply in zip(places, replies, strict=True):
            results[place] = reply


def _lost(error: ConnectionError | TimeoutError) -> Exception:
    """Return the error of commands that may have run."""
    error.may_have_run = True  # type: ignore[union-attr]
    lost = once_in_cluster(error)
    lost.may_have_run = True  # type: ignore[attr-defined]
    return lost
