"""Finds the nodes of a cluster for calls that need no decision by redis-py.

Most commands have one key, their first argument, and go to the master of its slot. redis-py takes
several times the duration of such a call to select the node, because it also handles all other
commands. It still handles every other call, every lost connection, and redirections of threads'
calls.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    TryAgainError,
)

from undercroft.remote.replies import observability, untouched

if TYPE_CHECKING:
    from collections.abc import Callable

# Replies after which redis-py selects another node, or waits. The command did not run.
REDIRECTED = (AskError, ClusterDownError, MasterDownError, MovedError, TryAgainError)

# redis-py's methods that select nodes and that a program's class may override.
_SELECTING = (
    "_determine_nodes",
    "_determine_slot",
    "_internal_execute_command",
    "determine_slot",
    "get_nodes_from_slot",
    "keyslot",
)
# Commands that redis-py divides among nodes if they have several keys.
_SPLIT = frozenset({"DEL", "EXISTS", "TOUCH", "UNLINK"})
_NAMES_KEPT = 1024

# The kinds of commands: handled by redis-py, one key as the first argument, or the same if the
# command has no further argument.
_OTHER, _ONE_KEY, _ONLY_KEY = range(3)


class Routes:
    """The routes of one cluster client."""

    def __init__(self, cluster: Any, theirs: Any, ours: Any, client_of: Callable[..., Any]) -> None:
        """Create the routes of a client.

        ``theirs`` is redis-py's class and ``ours`` its subclass, whose methods a program's class
        must not override. ``client_of`` returns the client of a node, or None.
        """
        self._cluster, self._client_of = cluster, client_of
        self._kinds: dict[str, int] = {}
        kind = type(cluster)

        def same(name: str, base: Any) -> bool:
            return getattr(kind, name, None) is getattr(base, name, None)

        self._is_on = (
            all(same(name, theirs) for name in _SELECTING)
            and same("_execute_command", ours)
            and untouched(theirs.execute_command, sys.modules[theirs.__module__])
            and not getattr(cluster, "read_from_replicas", False)
            and getattr(cluster, "load_balancing_strategy", None) is None
        )

    def client(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the client of the node for a command, or None if redis-py must select the node."""
        name = args[0]
        kind = self._kinds.get(name) if type(name) is str else _OTHER
        if kind is None:
            kind = self._learned(name)
        if (
            kind == _OTHER
            or len(args) < 2
            or (kind == _ONLY_KEY and len(args) > 2)
            or "target_nodes" in options
            or observability._provider_manager is not None
        ):
            return None
        key = args[1]
        if type(key) is not bytes:
            key = self._cluster.encoder.encode(key)
        nodes = self._cluster.nodes_manager.slots_cache.get(key_slot(key))
        return self._client_of(nodes[0]) if nodes else None

    def _learned(self, name: str) -> int:
        """Return the kind of a command, according to the server's description of its keys."""
        cluster = self._cluster
        commands = cluster.commands_parser.commands
        if not self._is_on or not commands:
            # An asyncio client learns the commands with its first call.
            return _OTHER
        upper = name.upper()
        known = commands.get(name.lower()) or {}
        places = [known.get(f"{end}_key_pos") for end in ("first", "last")]
        is_plain = (
            "movablekeys" not in known.get("flags", ())
            and upper not in cluster.command_flags
            and upper not in getattr(cluster, "result_callbacks", ())
            and upper not in getattr(cluster, "cluster_response_callbacks", ())
        )
        kind = _OTHER
        if upper in _SPLIT:
            kind = _ONLY_KEY
        elif is_plain and places == [1, 1]:
            kind = _ONE_KEY
        if len(self._kinds) < _NAMES_KEPT:
            self._kinds[name] = kind
        return kind
