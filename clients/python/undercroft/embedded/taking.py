"""Methods that take something out of the store and return it: it arrives, or it goes back.

The interpreter runs the handler of a signal right behind a call of native code, before the result
of that has reached anybody. Each of these methods is a frame of Python's around one native call, in
which the handler's exception arises: what was taken is on a list then, and is given back in one
call, which no handler interrupts. Its own caller, a function in Python, gets the result without
another look at signals. What is called from C, as by ``functools.partial`` or ``map``, or by
``method(*arguments)``, has such a look behind it, some 50 nanoseconds later.
"""

from __future__ import annotations

import functools
from typing import Any

from undercroft._native import TAKING, TAKING_METHODS, Client

__all__ = ["Taker", "Taking", "others", "through", "through_async", "unusual", "xreadgroup"]

# What the methods of rows are made of. No handler runs between the beginning of the except clause
# and the call in it.
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
    """Return the method that a row of the table is called by."""
    native = getattr(Client, name)
    # As in "($self, name, count=None)".
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
    # A signature of its own, so that a call costs one frame and no packing of arguments.
    exec(source, made)
    method = made[name]
    method.__module__ = __name__
    method.__qualname__ = f"Taking.{name}"
    method.takes = True
    return method


class Taking:
    """The methods of a store's client that take something out of it."""


for _name, _taking in TAKING_METHODS:
    setattr(Taking, _name, _method(_name, _taking))


class Taker:
    """A client as redis-py's methods see it, for one call: what that takes is kept on a list."""

    __slots__ = ("_client", "_taken")

    def __init__(self, client: Any, taken: list[Any]) -> None:
        """Keep what a client's call takes."""
        self._client, self._taken = client, taken

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command, and keep what it takes."""
        return self._client._run_taking(self._taken, args, options)

    def __getattr__(self, name: str) -> Any:
        """Return what the client has."""
        return getattr(self._client, name)


def through(method: Any) -> Any:
    """Return a method that calls one of redis-py's, which takes something."""

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
    """Return the same of a method to be awaited."""

    async def taking(self: Any, *args: Any, **options: Any) -> Any:
        taken: list[Any] = []
        try:
            return await method(Taker(self, taken), *args, **options)
        except BaseException:
            self.store._give_back(taken)
            raise

    return _like(taking, method)


def unusual(method: Any) -> Any:
    """Return what calls redis-py's method where a native one does not know the arguments."""

    def taking(self: Any, taken: list[Any], *args: Any, **options: Any) -> Any:
        return method(Taker(self, taken), *args, **options)

    return taking


def others(redis_pys: Any, *, typed: bool = True) -> dict[str, Any]:
    """Return redis-py's methods for what takes something and is none of the table's."""
    known = {name for name, _ in TAKING_METHODS} | {"set"} | ({"xreadgroup"} if typed else set())
    names = [command.lower() for command in TAKING if command.lower() not in known]
    return {name: getattr(redis_pys, name) for name in names if hasattr(redis_pys, name)}


def xreadgroup(native: Any) -> Any:
    """Return the method for XREADGROUP, around its typed call."""

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
        """Return the next entries of streams for a consumer of a group."""
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
