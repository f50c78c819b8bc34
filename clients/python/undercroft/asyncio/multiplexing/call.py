"""A command that was sent, as what redis-py's methods give: something to await."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Context

    from undercroft.asyncio.multiplexing.link import Link

# Whose call it is, its arguments and its options.
Request = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Call(asyncio.Future[Any]):
    """The result of a command that was sent when its method was called.

    As a future it needs no task, neither where it is awaited nor in ``asyncio.gather``. It has a
    coroutine's methods as well, for ``asyncio.create_task`` and its like, which take nothing else.

    A future lets the loop call in its next turn whoever waits for it. Here the first who waits
    is kept apart, for the link to call as soon as it has the reply.
    """

    __slots__ = ("_steps", "args", "decode", "request", "waiter")

    # The command of a call without a request, or the commands of a batch, and whether the reply
    # to the one command may be decoded.
    args: Any
    decode: bool
    # None where the reply itself is the result.
    request: Request | None
    # Who is to be called with this first, in which context; None while there is nobody, and
    # False from when on nobody is kept apart.
    waiter: tuple[Callable[[Any], object], Context] | bool | None
    _steps: Generator[Any, None, Any]

    def add_done_callback(
        self, fn: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Let a function be called when there is a result."""
        if self.waiter is None:
            self.waiter = (fn, copy_context() if context is None else context)
        else:
            # Where several wait, the loop calls all of them: who is kept apart is the only one.
            self.join()
            super().add_done_callback(fn, context=context)

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        """Let a function not be called; return how many times it would have been."""
        self.join()
        return super().remove_done_callback(fn)

    def join(self) -> None:
        """Let whoever was kept apart be called by the loop, as others are."""
        waiter, self.waiter = self.waiter, False
        if type(waiter) is tuple:
            super().add_done_callback(waiter[0], context=waiter[1])

    def cancel(self, msg: Any | None = None) -> bool:
        """Give up; the reply is nobody's then."""
        self.join()
        return super().cancel(msg)

    def set_result(self, result: Any, /) -> None:
        """Let the loop call who waits."""
        self.join()
        super().set_result(result)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Let the loop call who waits."""
        self.join()
        super().set_exception(exception)

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


class FirstCall(Call):
    """The first call of a turn, which tells by whom it was sent when somebody waits for it."""

    __slots__ = ("link",)

    link: Link

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the result."""
        self.link.awaited()
        return super().__await__()


Coroutine.register(Call)


class Batch:
    """Several commands in a row, whose replies are given together."""

    __slots__ = ("call", "missing", "replies")

    def __init__(self, call: Call, missing: int) -> None:
        """Expect so many replies."""
        self.call = call
        self.missing = missing
        self.replies: list[Any] = []

    def done(self) -> bool:
        """Return whether nobody waits for the replies any more."""
        return self.call.done()

    def set_exception(self, error: Exception) -> None:
        """Let who waits for the replies have an error."""
        self.call.set_exception(error)
