"""Resends reads that wait for another call's large or slow reply, over another connection.

A reply that delays other calls is noticed only after more calls were sent. Commands that change
nothing can safely run twice: the first reply becomes the result, and the second is discarded.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from undercroft.remote.command_kinds import changes_nothing, is_large
from undercroft.remote.multiplexing.call import Batch, Call
from undercroft.remote.replies import NEVER_DECODE, shaped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from undercroft.remote.multiplexing.link import Link

# The maximum number of resent calls without a reply.
_MOST = 64


class _Waiting(NamedTuple):
    """A waiting call, and the commands to resend for it."""

    call: Call
    commands: list[tuple[Any, ...]]
    decode: bool
    is_batch: bool

    @classmethod
    def of(cls, each: Call | Batch) -> _Waiting:
        if isinstance(each, Batch):
            return cls(each.call, each.call.args, True, True)
        if each.request is None:
            return cls(each, [each.args], each.decode, False)
        _, args, options = each.request
        return cls(each, [args], NEVER_DECODE not in options, False)

    def send(self, link: Link) -> Call:
        if self.is_batch:
            return link.send_many(self.commands)
        return link.send(self.commands[0], self.decode)


async def rescue(link: Link, connected: Callable[[], Awaitable[Link]]) -> None:
    """Resend the reads that wait on a link over another link, which ``connected`` returns.

    The other link must first answer a PING, so that a server that is not answering at all does not
    run the reads twice. One read is then resent, and twice as many in each later round, until one
    of their replies is large. This avoids transferring many large replies twice.
    """
    with suppress(ConnectionError, TimeoutError, OSError):
        other = await connected()
        if other is link or not await other.check():
            return
        waiting = _repeatable(link) if link.crowded else []
        most = 1
        while waiting and other.usable and not other.full:
            part = [each for each in waiting[:most] if not each.call.done()]
            waiting = waiting[most:]
            again = []
            for each in part:
                call = each.send(other)
                call.add_done_callback(_settler(link, each))
                again.append(call)
            if again:
                await asyncio.gather(*again, return_exceptions=True)
                if any(_was_large(link, each) for each in part):
                    return
                most = min(2 * most, _MOST)


def _repeatable(link: Link) -> list[_Waiting]:
    """Return the waiting calls of a link that can be resent.

    The first call delays the others. A read that was sent after a command that changes data must
    see the change, so it is not resent.
    """
    calls, has_run = link.queued()
    found = []
    for place, each in enumerate(map(_Waiting.of, calls)):
        if not all(map(changes_nothing, each.commands)) and not (place == 0 and has_run):
            break
        if place and not each.call.done() and not _was_large(link, each):
            found.append(each)
    return found


def _was_large(link: Link, waiting: _Waiting) -> bool:
    """Return whether a command of this call had a large reply earlier."""
    return any(is_large(link.large, args) for args in waiting.commands)


def _settler(link: Link, waiting: _Waiting) -> Callable[[asyncio.Future[Any]], None]:
    """Return a callback that passes the second reply to the call if it has no result yet."""

    def settle(again: asyncio.Future[Any]) -> None:
        error = None if again.cancelled() else again.exception()
        call = waiting.call
        if again.cancelled() or call.done():
            return
        if isinstance(error, ResponseError):
            link.refuse(call, error)
        elif error is None:
            _finish(call, again.result())

    return settle


def _finish(call: Call, reply: Any) -> None:
    """Set a call's result to the reply as its client converts it."""
    try:
        if call.request is not None:
            client, args, options = call.request
            reply = shaped(client.response_callbacks, args[0], reply, options)
    except Exception as error:
        call.set_exception(error)
    else:
        call.set_result(reply)
