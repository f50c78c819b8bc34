"""From a reply to what a method of redis-py's returns."""

from __future__ import annotations

from contextlib import suppress
from types import FunctionType
from typing import Any

from redis.client import EMPTY_RESPONSE, NEVER_DECODE
from redis.exceptions import ConnectionError, ResponseError

from undercroft.connection import NATIVE

__all__ = [
    "EMPTY_RESPONSE",
    "NEVER_DECODE",
    "observability",
    "shape_all",
    "shaped",
    "untouched",
]


class _Unmeasured:
    """What redis-py before 7 knows of OpenTelemetry."""

    _provider_manager: Any = None


# Where redis-py keeps what counts and times commands for OpenTelemetry, if anything does.
observability: Any = _Unmeasured
with suppress(ImportError):
    from redis.observability.providers import get_observability_instance

    observability = get_observability_instance()


def untouched(method: Any, home: Any) -> bool:
    """Return whether a method is what redis-py's module made it: programs that trace wrap it."""
    return type(method) is FunctionType and method.__globals__ is vars(home)


def shaped(callbacks: Any, name: Any, reply: Any, options: dict[str, Any]) -> Any:
    """Return the result that redis-py makes of a command's reply."""
    callback = dict.get(callbacks, name)
    # Names are written in capitals by redis-py, by others as they like.
    if callback is None and not name.isupper():
        callback = callbacks.get(name)
    if callback is None:
        return reply
    if options:
        # These say how to ask, not what to make of the answer.
        asked = (NEVER_DECODE, EMPTY_RESPONSE, "keys")
        return callback(reply, **{key: options[key] for key in options if key not in asked})
    return callback(reply)


def shape_all(callbacks: Any, commands: list[Any], replies: list[Any]) -> bool:
    """Make the replies to a pipeline's commands into their results.

    Returns whether there are errors among them.
    """
    failed = False
    places: Any = range(len(replies))
    if NATIVE is not None:
        places = NATIVE.unusual(callbacks, commands, replies)
    for place in places:
        reply = replies[place]
        args, options = commands[place]
        if not isinstance(reply, Exception):
            reply = replies[place] = shaped(callbacks, args[0], reply, options)
        elif isinstance(reply, ConnectionError):
            raise reply
        elif EMPTY_RESPONSE in options and isinstance(reply, ResponseError):
            reply = replies[place] = options[EMPTY_RESPONSE]
        failed = failed or isinstance(reply, Exception)
    return failed
