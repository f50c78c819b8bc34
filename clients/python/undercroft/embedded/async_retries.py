"""Retries calls that found a store's lock held, with the waits in the event loop.

A call by an asyncio client waits for a lock for at most one millisecond. While other calls in the
process are parked for a retry, only the first try of each round waits. A call that does not acquire
the lock raises ``Locked`` and has changed nothing. Work that a call leaves unfinished after its
commit is retried in the same way.

A call whose script takes longer than 5 milliseconds raises ``TakesLong`` and has also changed
nothing. It is then repeated in a thread. So is a change that waits until it is durable, which
raises ``MustSync``. Changes that wait at the same time share a sync of the journal.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from undercroft._native import Beside, Locked, MustSync, Parked, TakesLong

if TYPE_CHECKING:
    from collections.abc import Callable

    from undercroft._native import Backlog, Client

# The initial and the maximum number of seconds between two rounds of retries.
_FIRST = 0.001
_LAST = 0.016
# The maximum total number of seconds for one round's retries after the first.
_ROUND = 0.001
# The maximum number of calls that wait for the disk at the same time.
_SYNCING = 64


async def patiently(client: Client, call: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Return a call's result, retrying the call as long as it finds locks held."""
    try:
        return call(*args, **options)
    except Locked as refused:
        return await parked(client, refused, call, *args, **options)


async def parked(
    client: Client, refused: Locked, call: Callable[..., Any], /, *args: Any, **options: Any
) -> Any:
    """Return the result of a call that found a lock held, retrying until it finds none."""
    if not isinstance(refused, TakesLong):
        try:
            return await _lot().run(client, refused.args, call, args, options)
        except TakesLong as long:
            refused = long
    return await _beside(_syncing() if isinstance(refused, MustSync) else None, call, args, options)


# The threads that wait for the disk, by process, because a forked child has none of its parent's.
_threads: dict[int, ThreadPoolExecutor] = {}


def _syncing() -> ThreadPoolExecutor:
    """Return this process's threads that wait for the disk. Many calls can share a sync."""
    process = os.getpid()
    if process not in _threads:
        threads = ThreadPoolExecutor(_SYNCING, thread_name_prefix="undercroft-sync")
        # Another event loop may have made them in the meantime.
        _threads.setdefault(process, threads)
    return _threads[process]


async def _beside(
    threads: ThreadPoolExecutor | None,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Return the result of a long call, which runs in a thread.

    On cancellation, a script that has changed nothing is aborted. A script that has changed data is
    awaited.
    """
    beside = Beside()
    made = asyncio.get_running_loop().run_in_executor(threads, beside.make, call, args, options)
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:
        beside.stop()
        await asyncio.wait([made])
        if not made.cancelled():
            # Mark the exception as retrieved, because the task is cancelled.
            made.exception()
        raise


def left(backlog: Backlog) -> None:
    """Schedule a call's unfinished work in the loop. Without a loop, the next call does it."""
    try:
        lot = _lot()
    except RuntimeError:
        return
    lot.settle(backlog)


async def settled(client: Client) -> None:
    """Wait until all unfinished work is done, but not longer than the client's timeout."""
    backlog = client._backlog()
    if backlog is None:
        return
    loop = asyncio.get_running_loop()
    until, delay = loop.time() + client._patience(), _FIRST
    while not backlog.settle() and loop.time() < until:
        await asyncio.sleep(delay)
        delay = min(2 * delay, _LAST)


class Lot:
    """The parked calls of one event loop.

    Only the tasks and the loop reference this object, so closing the loop destroys the tasks. The
    task that has waited longest retries first. A task that finds the lock held again goes to the
    end of the queue. The loop's other tasks run between retries.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create an object without parked calls."""
        self._loop = loop
        self._line: dict[asyncio.Future[None], None] = {}
        self._backlog: dict[int, Backlog] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._delay = _FIRST
        # The state of a round: whether the round is in progress, whether its first try is pending,
        # the number of tries left, their total time, and whether any try succeeded.
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
        """Retry a call that found a lock held, until it returns or the client's timeout expires."""
        until = self._loop.time() + client._patience()
        if not self._line and self._timer is not None:
            # Reset the interval, which may have become long while unfinished work waited.
            self._timer.cancel()
            self._timer, self._delay = None, _FIRST
        # While a `Parked` object exists, other calls in this process do not wait for locks.
        mark = Parked()
        try:
            while self._loop.time() < until:
                await self._turn()
                begun, refused = self._loop.time(), False
                first, self._is_first = self._is_first, False
                try:
                    # Return without another await, so that removed items always reach the caller.
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
        """Finish a call's pending work as soon as possible."""
        if backlog.store not in self._backlog:
            self._backlog[backlog.store] = backlog
            self._wait()

    async def _turn(self) -> None:
        """Wait for this task's turn to retry."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._line[future] = None
        self._wait()
        try:
            await future
        except BaseException:
            self._line.pop(future, None)
            if future.done() and not future.cancelled():
                # The task was cancelled during its turn, so pass the turn to the next task.
                self._next()
            raise

    def _wait(self) -> None:
        """Schedule the next round if work remains for it."""
        waits = self._timer is not None or self._in_round or self._loop.is_closed()
        if not waits and (self._line or self._backlog):
            self._timer = self._loop.call_later(self._delay, self._begin)

    def _begin(self) -> None:
        """Start a round with the unfinished work of calls."""
        self._timer = None
        self._in_round = self._is_first = True
        self._to_try, self._spent = len(self._line), 0.0
        done = [store for store, left in self._backlog.items() if left.settle()]
        for store in done:
            del self._backlog[store]
        self._moved = bool(done)
        self._next()

    def _next(self) -> None:
        """Give the turn to the first task in the queue, or end the round."""
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
        """Record a retry's duration and outcome, and continue the round."""
        self._spent += seconds
        self._moved = self._moved or not refused
        self._next()


# References are weak because a lot refers to its loop and would keep the loop alive.
_lots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Lot]]
_lots = weakref.WeakKeyDictionary()


def _lot() -> Lot:
    """Return the parked calls of the running loop."""
    loop = asyncio.get_running_loop()
    known = _lots.get(loop)
    lot = None if known is None else known()
    if lot is None:
        lot = Lot(loop)
        _lots[loop] = weakref.ref(lot)
    return lot
