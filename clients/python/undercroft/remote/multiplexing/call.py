"""The awaitable result of a sent command, as returned by redis-py's methods."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Context

# The client that made the call, the command's arguments, and its options.
Request = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Call(asyncio.Future[Any]):
    """The result of a command that was sent when its method was called.

    Since a call is a future, neither ``await`` nor ``asyncio.gather`` needs a task for it. It also
    has a coroutine's methods, because ``asyncio.create_task`` and similar functions accept only
    coroutines.

    A plain future schedules its callbacks for the loop's next turn. This class stores the first
    callback separately, so that the link can call it as soon as the reply arrives.
    """

    __slots__ = ("_steps", "args", "decode", "request", "waiter")

    # The command, or the commands of a batch, for calls without a request. `decode` is whether the
    # reply to a single command may be decoded.
    args: Any
    decode: bool
    # The call's request, or None if the reply itself is the result.
    request: Request | None
    # The separately stored first callback and its context. None before a callback is added, and
    # False when callbacks are no longer stored separately.
    waiter: tuple[Callable[[Any], object], Context] | bool | None
    _steps: Generator[Any, None, Any]

    def add_done_callback(
        self, fn: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Register a function that is called when the result is set."""
        if self.waiter is None:
            self.waiter = (fn, copy_context() if context is None else context)
        else:
            # If there are several callbacks, leave all of them to the loop; only a single callback
            # is stored separately.
            self.join()
            super().add_done_callback(fn, context=context)

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        """Remove a callback; return how many times it was registered."""
        self.join()
        return super().remove_done_callback(fn)

    def join(self) -> None:
        """Hand the separately stored callback to the loop, like any other callback."""
        waiter, self.waiter = self.waiter, False
        if type(waiter) is tuple:
            super().add_done_callback(waiter[0], context=waiter[1])

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the call. Its reply is discarded when it arrives."""
        self.join()
        return super().cancel(msg)

    def set_result(self, result: Any, /) -> None:
        """Set the result; the loop calls the callbacks."""
        self.join()
        super().set_result(result)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Set an exception; the loop calls the callbacks."""
        self.join()
        super().set_exception(exception)

    def send(self, value: Any) -> Any:
        """Resume the call, as a coroutine's ``send`` does."""
        if value is None and not hasattr(self, "_steps"):
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception at the point where the coroutine is suspended."""
        if not hasattr(self, "_steps"):
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """Cancel the call, as a coroutine's ``close`` does."""
        self.cancel()


Coroutine.register(Call)


class Batch:
    """Consecutive commands whose replies together are the result of one call."""

    __slots__ = ("call", "missing", "replies")

    def __init__(self, call: Call, missing: int) -> None:
        """Create a batch that collects ``missing`` replies for a call."""
        self.call = call
        self.missing = missing
        self.replies: list[Any] = []

    def done(self) -> bool:
        """Return whether the call already has a result or was cancelled."""
        return self.call.done()

    def set_exception(self, error: Exception) -> None:
        """Fail the call with an error."""
        self.call.set_exception(error)
