"""A command that was sent, as what redis-py's methods give: something to await."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

    from undercroft.asyncio.link import Link

# Whose call it is, its arguments and its options.
Request = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Call(asyncio.Future[Any]):
    """The result of a command that was sent when its method was called.

    As a future it needs no task, neither where it is awaited nor in ``asyncio.gather``. It has a
    coroutine's methods as well, for ``asyncio.create_task`` and its like, which take nothing else.
    """

    __slots__ = ("_steps", "decode", "request")

    # Whether the reply may be decoded.
    decode: bool
    # None where the reply itself is the result.
    request: Request | None
    _steps: Generator[Any, None, Any]

    def send(self, value: Any) -> Any:
        """Go on as a coroutine."""
        if value is None and not hasattr(self, "_steps"):
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error where the coroutine stands."""
        if not hasattr(self, "_steps"):
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """End as a coroutine: nobody wants the result."""
        self.cancel()


class ToldCall(Call):
    """A call that tells by whom it was sent when somebody waits for it."""

    __slots__ = ("link",)

    link: Link

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the result."""
        self.link.awaited()
        return super().__await__()


Coroutine.register(Call)
