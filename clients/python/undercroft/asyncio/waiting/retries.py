"""Calls that meet a lock of a store: their tasks wait in the event loop, and try again.

A call of a client for asyncio waits for locks for a millisecond at most. While others of the
process are parked only the first try of each round does. Then it raises ``Locked``, and has changed
nothing. What a call leaves to be done behind its commit is done later in the same way.

A call whose script takes longer than 5 milliseconds raises ``TakesLong``, and has changed nothing
either. A thread makes it again, beside the loop.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

from undercroft._native import Beside, Locked, Parked, TakesLong

if TYPE_CHECKING:
    from collections.abc import Callable

    from undercroft._native import Backlog, Client

# Seconds between two rounds of tries: at first, and at most.
_FIRST = 0.001
_LAST = 0.016
# Seconds that the tries of one round may take behind the first one.
_ROUND = 0.001


async def patiently(client: Client, call: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Return what a call returns, once no lock is in its way."""
    try:
        return call(*args, **options)
    except Locked as refused:
        return await parked(client, refused, call, *args, **options)


async def parked(
    client: Client, refused: Locked, call: Callable[..., Any], /, *args: Any, **options: Any
) -> Any:
    """Return what a call returns that was refused, once no lock is in its way."""
    if not isinstance(refused, TakesLong):
        try:
            return await _lot().run(client, refused.args, call, args, options)
        except TakesLong:
            pass
    return await _beside(call, args, options)


async def _beside(call: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return what a call returns that takes long: a thread makes it.

    Cancelled, it ends a script that has changed nothing, and waits for the end of one that has.
    """
    beside = Beside()
    made = asyncio.get_running_loop().run_in_executor(None, beside.make, call, args, options)
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:
        beside.stop()
        await asyncio.wait([made])
        if not made.cancelled():
            # Nobody asks for what it raised.
            made.exception()
        raise


def left(backlog: Backlog) -> None:
    """Let the loop do what the call left that it runs; without a loop the next call does it."""
    try:
        lot = _lot()
    except RuntimeError:
        return
    lot.settle(backlog)


async def settled(client: Client) -> None:
    """Wait until all is done that calls left, or the client's patience ends."""
    backlog = client._backlog()
    if backlog is None:
        return
    loop = asyncio.get_running_loop()
    until, delay = loop.time() + client._patience(), _FIRST
    while not backlog.settle() and loop.time() < until:
        await asyncio.sleep(delay)
        delay = min(2 * delay, _LAST)


class Lot:
    """What is parked in one event loop.

    The tasks and the loop hold it, and nothing else does: so a loop that is closed takes its
    tasks along. Who has waited longest tries first; who is refused again goes to the end of the
    line. Between two tries the other tasks of the loop have a turn.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let nothing be parked."""
        self._loop = loop
        self._line: dict[asyncio.Future[None], None] = {}
        self._backlog: dict[int, Backlog] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._delay = _FIRST
        # While a round goes on: whether nobody has tried yet, how many may, what the tries took,
        # whether any had success.
        self._in_round = False
        self._is_first = False
        self._to_try = 0
        self._spent = 0.0
        self._moved = False

    async def run(
        self,
        client: Client,
        reason: tuple[Any, ...],
        call: Callable[..., Any],
        args: tuple[Any, ...],
        options: dict[str, Any],
    ) -> Any:
        """Make a call that was refused for a reason again, until it returns or time is up."""
        until = self._loop.time() + client._patience()
        if not self._line and self._timer is not None:
            # What calls left may have waited for long, and comes at long intervals.
            self._timer.cancel()
            self._timer, self._delay = None, _FIRST
        # While it lives, no other call of this process waits for a lock in place.
        mark = Parked()
        try:
            while self._loop.time() < until:
                await self._turn()
                begun, refused = self._loop.time(), False
                first, self._is_first = self._is_first, False
                try:
                    # Nothing is awaited between this and the return: what is taken arrives.
                    return mark.make(call, args, options) if first else call(*args, **options)
                except TakesLong:
                    raise
                except Locked as error:
                    reason, refused = error.args, True
                finally:
                    self._tried(0 if first else self._loop.time() - begun, refused)
        finally:
            del mark
        raise client._busy(*reason)

    def settle(self, backlog: Backlog) -> None:
        """Do what a call left as soon as it can be done."""
        if backlog.store not in self._backlog:
            self._backlog[backlog.store] = backlog
            self._wait()

    async def _turn(self) -> None:
        """Wait until it is this task's turn to try."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._line[future] = None
        self._wait()
        try:
            await future
        except BaseException:
            self._line.pop(future, None)
            if future.done() and not future.cancelled():
                # It was this task's turn, and is the next one's now.
                self._next()
            raise

    def _wait(self) -> None:
        """Let the next round come, if there is anything to be done in it."""
        waits = self._timer is not None or self._in_round or self._loop.is_closed()
        if not waits and (self._line or self._backlog):
            self._timer = self._loop.call_later(self._delay, self._begin)

    def _begin(self) -> None:
        """Begin a round: what was left is tried first."""
        self._timer = None
        self._in_round = self._is_first = True
        self._to_try, self._spent = len(self._line), 0.0
        done = [store for store, left in self._backlog.items() if left.settle()]
        for store in done:
            del self._backlog[store]
        self._moved = bool(done)
        self._next()

    def _next(self) -> None:
        """Let the first in line try, or end the round."""
        while self._line and self._to_try > 0 and self._spent < _ROUND:
            self._to_try -= 1
            future = next(iter(self._line))
            del self._line[future]
            if not (future.done() or self._loop.is_closed()):
                future.set_result(None)
                return
        self._in_round = False
        self._delay = _FIRST if self._moved else min(2 * self._delay, _LAST)
        self._wait()

    def _tried(self, seconds: float, refused: bool) -> None:
        """Take note of a try, and go on."""
        self._spent += seconds
        self._moved = self._moved or not refused
        self._next()


# A lot belongs to its loop, and would keep it: so it is not held here.
_lots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Lot]]
_lots = weakref.WeakKeyDictionary()


def _lot() -> Lot:
    """Return what is parked in the running loop."""
    loop = asyncio.get_running_loop()
    known = _lots.get(loop)
    lot = None if known is None else known()
    if lot is None:
        lot = Lot(loop)
        _lots[loop] = weakref.ref(lot)
    return lot
