"""Converts replies to the results of redis-py's methods."""

from __future__ import annotations

from contextlib import suppress
from types import FunctionType
from typing import Any

from redis.client import EMPTY_RESPONSE, NEVER_DECODE
from redis.exceptions import ConnectionError, ResponseError

from undercroft.remote.connection import NATIVE

__all__ = [
    "EMPTY_RESPONSE",
    "NEVER_DECODE",
    "observability",
    "shape_all",
    "shaped",
    "untouched",
]


class _Unmeasured:
    """A stand-in for redis-py's OpenTelemetry instance, which exists from version 7 on."""

    _provider_manager: Any = None


# redis-py's OpenTelemetry instance, which records commands if the program has configured it.
observability: Any = _Unmeasured
with suppress(ImportError):
    from redis.observability.providers import get_observability_instance

    observability = get_observability_instance()


def untouched(method: Any, home: Any) -> bool:
    """Return whether a method is redis-py's original rather than a tracing wrapper."""
    return type(method) is FunctionType and method.__globals__ is vars(home)


def shaped(callbacks: Any, name: Any, reply: Any, options: dict[str, Any]) -> Any:
    """Return a command's reply as redis-py's callback converts it."""
    callback = dict.get(callbacks, name)
    # redis-py writes command names in upper case, but programs may use lower case.
    if callback is None and not name.isupper():
        callback = callbacks.get(name)
    if callback is None:
        return reply
    if options:
        # Omit the options that affect only the sending of the command.
        asked = (NEVER_DECODE, EMPTY_RESPONSE, "keys")
        return callback(reply, **{key: options[key] for key in options if key not in asked})
    return callback(reply)


def shape_all(callbacks: Any, commands: list[Any], replies: list[Any]) -> bool:
    """Convert each reply in a pipeline to its command's result, in place.

    Returns whether the list contains errors.
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
