"""Methods that remove data from the store and return it, and restore it if interrupted.

The interpreter runs a signal handler immediately after a native call, before the caller receives
the call's result. Each of these methods is a Python frame around one native call, and the handler's
exception is raised in that frame. At that point the removed data is recorded in a list. A single
native call restores the data, and no handler can interrupt that call.

If the caller is a Python function, it receives the result without another check for signals. A
caller in C, such as ``functools.partial`` or ``map``, and a call of the form ``method(*arguments)``
check once more, about 50 nanoseconds later.
"""

from __future__ import annotations

import functools
from typing import Any

from undercroft._native import TAKING, TAKING_METHODS, Client

__all__ = ["Taker", "Taking", "others", "through", "through_async", "unusual", "xreadgroup"]

# The template for the methods that remove data. No signal handler runs between the start of the
# except clause and the call in it.
_SOURCE = '''
def {name}(self, {parameters}):
    """{does}"""
    taken = []
    try:
        return take(self, taken, {arguments})
    except BaseException:
        give_back(self, taken, "{command}", {arguments})
        raise
'''


def _method(name: str, taking: str) -> Any:
    """Return the Python method for a native method that removes data."""
    native = getattr(Client, name)
    # The signature has the form "($self, name, count=None)".
    parameters = native.__text_signature__.partition(", ")[2].rstrip(")")
    arguments = ", ".join(part.partition("=")[0] for part in parameters.split(", "))
    source = _SOURCE.format(
        name=name,
        parameters=parameters,
        arguments=arguments,
        does=native.__doc__,
        command=name.upper(),
    )
    made: dict[str, Any] = {"take": getattr(Client, taking), "give_back": Client._give_back}
    # Generate a separate signature for each method, so that a call costs one frame and does not
    # pack arguments.
    exec(source, made)
    method = made[name]
    method.__module__ = __name__
    method.__qualname__ = f"Taking.{name}"
    method.takes = True
    return method


class Taking:
    """A mixin with a store client's methods that remove data and return it."""


for _name, _taking in TAKING_METHODS:
    setattr(Taking, _name, _method(_name, _taking))


class Taker:
    """A client proxy for one call to a redis-py method, which records the removed items."""

    __slots__ = ("_client", "_taken")

    def __init__(self, client: Any, taken: list[Any]) -> None:
        """Record in the list ``taken`` the items that a call to the client removes."""
        self._client, self._taken = client, taken

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command, recording the items that it removes from the store."""
        return self._client._run_taking(self._taken, args, options)

    def __getattr__(self, name: str) -> Any:
        """Return the client's attribute."""
        return getattr(self._client, name)


def through(method: Any) -> Any:
    """Return a method that calls redis-py's method and restores removed items after an error."""

    def taking(self: Any, *args: Any, **options: Any) -> Any:
        taken: list[Any] = []
        try:
            return method(Taker(self, taken), *args, **options)
        except BaseException:
            self._give_back(taken)
            raise

    return _like(taking, method)


def _like(taking: Any, method: Any) -> Any:
    functools.update_wrapper(taking, method)
    taking.takes = True
    return taking


def through_async(method: Any) -> Any:
    """Return a coroutine function that calls ``method`` and undoes removals after an error."""

    async def taking(self: Any, *args: Any, **options: Any) -> Any:
        taken: list[Any] = []
        try:
            return await method(Taker(self, taken), *args, **options)
        except BaseException:
            self.store._give_back(taken)
            raise

    return _like(taking, method)


def unusual(method: Any) -> Any:
    """Return a method that calls redis-py's, for arguments that native methods do not support."""

    def taking(self: Any, taken: list[Any], *args: Any, **options: Any) -> Any:
        return method(Taker(self, taken), *args, **options)

    return taking


def others(redis_pys: Any, *, typed: bool = True) -> dict[str, Any]:
    """Return redis-py's methods for commands that remove data and have no native method."""
    known = {name for name, _ in TAKING_METHODS} | {"set"} | ({"xreadgroup"} if typed else set())
    names = [command.lower() for command in TAKING if command.lower() not in known]
    return {name: getattr(redis_pys, name) for name in names if hasattr(redis_pys, name)}


def xreadgroup(native: Any) -> Any:
    """Return the method for XREADGROUP, which calls the native method."""

    def xreadgroup(
        self: Any,
        groupname: Any,
        consumername: Any,
        streams: Any,
        count: Any = None,
        block: Any = None,
        noack: Any = False,
        *args: Any,
        **options: Any,
    ) -> Any:
        """Return the next stream entries for a consumer in a group."""
        taken: list[Any] = []
        try:
            if args or options:
                given = (groupname, consumername, streams, count, block, noack, *args)
                return native(self, taken, *given, **options)
            return native(self, taken, groupname, consumername, streams, count, block, noack)
        except BaseException:
            self._give_back(taken)
            raise

    xreadgroup.takes = True  # type: ignore[attr-defined]
    return xreadgroup
