"""One connection that many tasks use at once, their commands in one write per turn."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import weakref
from collections import deque
from contextlib import suppress
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio.sentinel import SentinelManagedConnection
from redis.exceptions import ConnectionError, ReadOnlyError, TimeoutError

from undercroft.asyncio.multiplexing.call import Batch, Call, FirstCall
from undercroft.asyncio.multiplexing.line import make_line
from undercroft.connection import CLOSED, DEMOTED, PUSH_ARGUMENTS
from undercroft.replies import NEVER_DECODE, observability, shaped
from undercroft.resp import Push
from undercroft.servers.command_kinds import is_large

if TYPE_CHECKING:
    from collections.abc import Callable

# A peer that is silent is given up after so many looks without a reply in between.
_LOOKS = 4
_MARGIN = 0.001
# A reply of twice this many bytes, in bytes, is large: others do not wait for its rest.
_LARGE = 1 << 16
_LARGE_KEPT = 1024
# So is one of which this many bytes are announced that have not come.
_ANNOUNCED = 2 * _LARGE
# A reply that is the next one for this long, in seconds, is slow.
_SLOW = 0.1

# Gives a call its result, and lets whoever is kept apart as its waiter be.
_settle = asyncio.Future.set_result

# Tells which task a loop runs.
_current: Any = asyncio.current_task
if sys.version_info < (3, 12):
    # asyncio's own function is in Python there.
    _current = vars(asyncio.tasks)["_current_tasks"].get

_links: weakref.WeakSet[Link] = weakref.WeakSet()


class Link(asyncio.Protocol):
    """A connection that answers in the order in which it was asked.

    redis-py makes and greets the connection; then its transport is this protocol's. All
    commands that are sent in one turn of the event loop leave in one write. A caller that
    is cancelled leaves its place in the order to a reply that nobody gets.
    """

    def __init__(
        self,
        connection: Any,
        timeout: float | None,
        give: Callable[[Link], None],
        large: dict[Any, None],
        rescue: Callable[[Link], None],
    ) -> None:
        """Take over a connection that redis-py has made, on the running loop.

        ``give`` is called with the link once it is closed, ``rescue`` when a reply keeps calls
        waiting that were sent already. Commands that had large replies are added to ``large``.
        """
        # An object with 30 attributes of its own and more is a slow one.
        self.loop = asyncio.get_running_loop()
        # In one that is asyncio's own, tasks may run the loop, once nest_asyncio allows it.
        self._nests = isinstance(self.loop, asyncio.BaseEventLoop)
        self._thread = get_ident()
        self.connection = connection
        # Why it can be used no more.
        self.failure: Exception | None = None
        self._give, self._rescue = give, rescue
        # Whether a call may be sent at once: the link is open, not full and not crowded.
        self.ready = True
        # Whether a reply keeps others waiting, so that new calls are to take another link.
        self.crowded = False
        self.large = large
        # Bytes that have come since a reply was complete, and the call they are for.
        self._come, self._partial = 0, cast("Any", None)
        # Whether any have come since the last look, and the head of the line in that look.
        self._is_heard, self._head = False, cast("Any", None)
        self._slow: asyncio.TimerHandle | None = None
        # Held by a call that waits for replicas on this link.
        self.replicas = asyncio.Lock()
        # Whether it closes once no call waits for a reply, whether that is to be looked for, and
        # whether it takes no more calls.
        self._retires = self._ends = self._is_shut = False
        self._name = connection._host_error() if hasattr(connection, "_host_error") else "server"
        # Whether its peer is the master only as long as the Sentinels say so.
        self._elected = (
            isinstance(connection, SentinelManagedConnection)
            and connection.connection_pool.is_master
        )
        # What waits to be written, and who for replies.
        self._line = make_line(connection.encoder, connection._parser.parse_error)
        self._waiting: list[asyncio.Future[None]] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timeout = timeout
        # From when on the peer is asked whether it is there before it is asked anything else.
        self._interval = getattr(connection, "health_check_interval", 0) or 0
        self._due = monotonic() + self._interval
        self._watch: asyncio.TimerHandle | None = None
        # Who is the first to wait for replies, how many have come to it, and since how many looks.
        self._watched: tuple[Any, int, int] = (None, 0, 0)
        # redis-py's streams close a transport that they believe to be theirs.
        self._streams = (connection._reader, connection._writer)
        connection._reader = connection._writer = None
        self._transport: Any = self._streams[1].transport
        self._transport.set_protocol(self)
        # Whether the line can send by itself, and whether it does: not while the transport has
        # something to write.
        self._is_direct = self._is_attached = self._attached()
        # What the loop has still to run in this turn.
        self._ready = _ready(self.loop)
        # Whether commands wait for the next turn to be written.
        self._unsent = False
        # Calls with replies, for which somebody waits; in the place of one for which a task does,
        # its waiter.
        self._woken: list[Any] = []
        # A future that has a result.
        self._plain: asyncio.Future[None] = self.loop.create_future()
        self._plain.set_result(None)
        # Whether those who wait are being woken.
        self._waking = False
        left = bytes(getattr(self._streams[0], "_buffer", b""))
        if left:
            self.data_received(left)
        _links.add(self)

    def _attached(self) -> bool:
        """Give the line the socket of a transport that writes to it what it is given."""
        transport = self._transport
        if transport.get_extra_info("sslcontext") or transport.get_write_buffer_size():
            return False
        plain = transport.get_extra_info("socket")
        descriptor = -1 if plain is None else plain.fileno()
        if descriptor >= 0:
            self._line.attach(descriptor)
        return descriptor >= 0

    def send(self, args: tuple[Any, ...], decode: bool = True) -> Call:
        """Send a command in this turn of the loop; its reply will be the call's result."""
        self._usable()
        call = self._leaving()
        call.args, call.decode = args, decode
        self._line.put(call, args, decode)
        return call

    def send_many(self, commands: list[Any]) -> Call:
        """Send commands with none of others' between them; the result is all their replies."""
        self._usable()
        call = self._leaving()
        call.args = commands
        self._line.put_many(Batch(call, len(commands)), commands)
        return call

    def _leaving(self) -> Call:
        """Let what will be packed leave at the end of this turn; return a call for its result."""
        # Who wakes those who wait writes what they send.
        call = Call(loop=self.loop) if self._unsent or self._waking else self._first()
        self._unsent = True
        call.waiter = None
        call.request = call.args = None
        return call

    def _first(self) -> Call:
        """Return the first call of a turn, behind whose others the loop is to write."""
        call = FirstCall(loop=self.loop)
        call.link = self
        self.loop.call_soon(self._flush)
        return call

    @property
    def usable(self) -> bool:
        """Whether the link can be used in the running loop, without a check before."""
        # To ask for the running loop is a system call until Python 3.12.
        return (
            self.failure is None
            and not self.crowded
            and self._thread == get_ident()
            and self.loop.is_running()
            and not (self._interval and monotonic() >= self._due)
        )

    async def check(self) -> bool:
        """Return whether the peer answers."""
        if self.failure is not None or self.loop is not asyncio.get_running_loop():
            return False
        try:
            answer = await self.send(("PING",), decode=False)
        except (ConnectionError, TimeoutError):
            return False
        return bool(answer == b"PONG")

    def _usable(self) -> None:
        if self.failure is not None:
            # Each caller gets an exception of its own, with a traceback of its own.
            raise type(self.failure)(*self.failure.args)

    def awaited(self) -> None:
        """Write now what this turn's callers sent, if the last of them waits for a reply.

        Else it is written by what the first of them has put behind everybody.
        """
        if self._unsent and not self._waking and self._ready is not None and len(self._ready) == 1:
            self._flush()

    def _flush(self) -> None:
        """Write what this turn's callers sent."""
        self._unsent = False
        try:
            if self.failure is not None:
                return
            leaving = self._line.send() if self._is_direct else self._line.gathered()
            if leaving:
                self._transport.write(leaving)
                self._is_direct = self._is_attached and self._transport.get_write_buffer_size() == 0
            if self._slow is None:
                self._slow = self.loop.call_later(_SLOW, self._look_for_slow)
            if self._watch is None and self._timeout is not None:
                self._watch = self.loop.call_later(self._timeout / _LOOKS + _MARGIN, self._look)
        except BaseException as error:
            self._unwritten(error)
            if not isinstance(error, Exception):
                raise

    def _unwritten(self, error: BaseException) -> None:
        """Close the connection, as what was to be written may not be, or not as a whole."""
        self.fail(ConnectionError(f"Error while writing to {self._name} : {error!r}"))

    def data_received(self, data: bytes, /) -> None:
        """Give replies to those who wait for them."""
        if self._interval:
            self._due = monotonic() + self._interval
        line, self._is_heard = self._line, True
        try:
            came = line.receive(data, self._woken)
            while came is not None:
                self._take(*came)
                came = line.answer(self._woken)
        except Exception as error:
            self.fail(error)
        except BaseException:
            self._interrupted()
            raise
        finally:
            if self._woken:
                self._come = 0
                self._wake()
            elif (come := self._come + len(data)) < _LARGE and line.missing < _ANNOUNCED:
                self._come = come
            else:
                self._measure()
            if self._ends:
                self._look_for_end()

    def _measure(self) -> None:
        """Find out whether all that has come lately is a part of one reply."""
        before, self._come = self._partial, 0
        self._partial = first = self._line.first
        is_known = first is before or self._line.missing >= _ANNOUNCED
        if first is None or not is_known or self.crowded:
            return
        self._obstruct()
        if isinstance(first, Call):
            args = first.args if first.request is None else first.request[1]
            with suppress(TypeError):
                self.large[args[:2]] = None
            if len(self.large) > _LARGE_KEPT:
                del self.large[next(iter(self.large))]

    def _look_for_slow(self) -> None:
        """Send new calls over another link while one reply keeps the others waiting."""
        self._slow = None
        first = None if self.failure is not None else self._line.first
        if first is not None:
            if first is self._head and not self.crowded:
                self._obstruct()
            self._slow = self.loop.call_later(_SLOW, self._look_for_slow)
        self._head = first

    def _obstruct(self) -> None:
        """Send new calls over another link, and there again what may be sent twice."""
        self.crowd()
        if len(self._line) > 1:
            self._rescue(self)

    def queued(self) -> tuple[list[Call | Batch], bool]:
        """Return the calls in line, and whether bytes of the first one's reply have come."""
        calls: list[Call | Batch] = self._line.calls()
        return calls, calls[:1] == [self._partial] or self._come > 0

    def crowd(self) -> None:
        """Send new calls over another link until all replies of this one have come."""
        self.crowded, self.ready, self._ends = True, False, True

    def _look_for_end(self) -> None:
        """Once no call waits for a reply, close, or take calls again."""
        if not self.idle:
            if self._retires:
                self.retire()
        elif self._retires:
            self.fail(ConnectionError(CLOSED))
        else:
            self.crowded, self._ends, self._partial = False, False, None
            self.ready = self.failure is None and self._waiting is None

    def _take(self, call: Call | Batch | None, reply: Any) -> None:
        """Give the first in line a reply that the line has not, or a message to its handlers."""
        if type(reply) is Push:
            self._deliver(reply)
        elif call is None:
            raise ConnectionError(f"{self._name} answered what nobody had asked")
        elif isinstance(call, Batch):
            if self._elected and any(isinstance(each, ReadOnlyError) for each in reply):
                raise ConnectionError(DEMOTED)
            self._settled(call.call, reply)
        elif self._elected and isinstance(reply, ReadOnlyError):
            raise ConnectionError(DEMOTED)
        elif call.done():
            return
        elif isinstance(reply, Exception):
            self.refuse(call, reply)
        else:
            self._finish(call, reply)

    def _interrupted(self) -> None:
        """Go on after something that may be raised anywhere, as by a signal's handler."""
        taken = self._line.taken
        if taken is None or taken.done():
            self.loop.call_soon(self.data_received, b"")
        else:
            # Nobody is to have the reply to another's command.
            self.fail(ConnectionError(f"Reading from {self._name} was interrupted"))

    def _wake(self) -> None:
        """Let those who wait for replies go on at once, and write what they send."""
        woken, self._woken = self._woken, []
        # Within a task no other may run. nest_asyncio lets a task run the loop, which then is
        # to write what others send.
        if _current(self.loop) is not None or (
            self._nests and getattr(self.loop, "_nest_patched", False)
        ):
            self._delay(woken)
            return
        is_first = not self._unsent
        self._waking = True
        called = 0
        try:
            for each in woken:
                if type(each) is tuple:
                    # A task finds out in far less time from a plain future than from another
                    # that it may go on; its result it has from the call in either case.
                    (waiter, context), told = each, self._plain
                elif each.waiter:
                    (waiter, context), told = each.waiter, each
                    each.waiter = False
                else:
                    called += 1
                    continue
                # No signal's handler is run from here to the call.
                called += 1
                try:
                    context.run(waiter, told)
                except BaseException as error:
                    self._report(error)
        except BaseException:
            # A signal's handler may raise anywhere; nobody is to wait for ever after that.
            self._waking = False
            self._delay(woken[called:])
            raise
        self._waking = False
        if is_first and self._unsent:
            if self._ready is not None and not self._ready:
                self._flush()
            else:
                self.loop.call_soon(self._flush)

    def _delay(self, woken: list[Any]) -> None:
        """Let the loop call those who wait, and write what was sent."""
        others, self._woken = self._woken, []
        for each in (*woken, *others):
            if type(each) is tuple:
                self.loop.call_soon(each[0], self._plain, context=each[1])
            else:
                each.join()
        if self._unsent:
            self.loop.call_soon(self._flush)

    def _report(self, error: BaseException) -> None:
        """Let the loop know what somebody who was called has raised."""
        self.loop.call_soon(_raise, error)

    def _finish(self, call: Call, reply: Any) -> None:
        """Let a call have what its client makes of a reply."""
        try:
            if call.request is not None:
                client, args, options = call.request
                reply = shaped(client.response_callbacks, args[0], reply, options)
        except Exception as error:
            call.set_exception(error)
        except BaseException as error:
            # As with a task, it is raised both where the loop runs and where the call is awaited.
            call.set_exception(error)
            raise
        else:
            self._settled(call, reply)

    def _settled(self, call: Call, result: Any) -> None:
        """Let a call have its result, unless it was cancelled."""
        if not call.done():
            _settle(call, result)
            if call.waiter is None:
                call.waiter = False
            elif call.waiter:
                self._woken.append(call)

    def refuse(self, call: Call | Batch, error: Exception) -> None:
        """Let a call have an error, or its client what to do about it."""
        if isinstance(call, Call) and call.request is not None:
            call.request[0].failed(call, error, self)
        else:
            call.set_exception(error)

    def _deliver(self, message: Any) -> None:
        """Let redis-py's handlers have a message that nobody asked for."""
        handle = getattr(self.connection._parser, "handle_push_response", None)
        if handle is None:
            return
        handled = handle(message, *PUSH_ARGUMENTS)
        if asyncio.iscoroutine(handled):
            task = self.loop.create_task(handled)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _look(self) -> None:
        """Give up a peer whose next reply has not come for too long."""
        self._watch = None
        first = self._line.first
        if first is None or self._timeout is None or self.failure is not None:
            self._watched = (None, 0, 0)
            return
        come = len(first.replies) if type(first) is Batch else 0
        before, come_before, times = self._watched
        heard, self._is_heard = self._is_heard, False
        times = times + 1 if first is before and come == come_before and not heard else 0
        if times >= _LOOKS:
            self.fail(TimeoutError(f"Timeout reading from {self._name}"))
            return
        self._watched = (first, come, times)
        self._watch = self.loop.call_later(self._timeout / _LOOKS + _MARGIN, self._look)

    @property
    def full(self) -> bool:
        """Whether the peer does not take what was sent, so that callers should wait."""
        return self._waiting is not None

    @property
    def idle(self) -> bool:
        """Whether no call waits for a reply."""
        return not len(self._line)

    def retire(self) -> None:
        """Take no more calls, and close the connection after the last reply."""
        if self.idle:
            self.fail(ConnectionError(CLOSED))
            return
        self._retires = self._ends = self._is_shut = True
        self.ready = False
        if self._waiting is None:
            self._waiting = []

    def retire_soon(self) -> None:
        """Take the calls of those who have waited for the link, and retire after a reply."""
        self._retires = self._ends = True

    async def writable(self) -> None:
        """Wait until the link takes calls again, or is closed."""
        while self._waiting is not None:
            future = self.loop.create_future()
            self._waiting.append(future)
            await future

    def pause_writing(self) -> None:
        """Let callers wait."""
        self.ready = False
        if self._waiting is None:
            self._waiting = []

    def resume_writing(self) -> None:
        """Let callers go on."""
        if self._is_shut and self.failure is None:
            return
        waiting, self._waiting = self._waiting, None
        self.ready = self.failure is None and not self.crowded
        for future in waiting or ():
            if not future.done():
                future.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody that the peer has gone."""
        if exc is None or isinstance(exc, ConnectionError):
            self.fail(exc or ConnectionError(CLOSED))
        else:
            self.fail(ConnectionError(f"Error while reading from {self._name} : {exc.args}"))

    def fail(self, error: Exception) -> None:
        """Close the connection, and let what is in flight raise an error."""
        if self.failure is not None:
            return
        self.failure, self.ready = error, False
        for timer in (self._watch, self._slow):
            if timer is not None:
                timer.cancel()
        self._watch = self._slow = self._head = self._partial = None
        self._transport.abort()
        pending = self._line.close()
        self.resume_writing()
        self._give(self)
        for each in pending:
            # Each caller gets an exception of its own, with a traceback of its own.
            own = type(error)(*error.args)
            # A demoted master has refused what was sent to it.
            if error.args != (DEMOTED,):
                own.may_have_run = True  # type: ignore[attr-defined]
            if not each.done():
                self.refuse(each, own)

    def abandon(self) -> None:
        """Close the connection, from wherever its last user has gone."""
        if self.failure is None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.fail, ConnectionError("Connection closed"))

    async def disconnect(self, *_: Any, **_options: Any) -> None:
        """Close the connection, as the pool asks it to."""
        if self.loop is asyncio.get_running_loop():
            self.fail(ConnectionError("Connection closed by its client."))
        else:
            self.abandon()

    def _forked(self) -> None:
        """Be of no use in a forked child, whose parent goes on with the connection."""
        self.failure = ConnectionError("Connection belongs to the parent process")
        self.ready = False
        self._give(self)


def execute_command(self: Any, *args: Any, **options: Any) -> Any:
    """Run any command, and give its reply to who awaits it, in the form redis-py gives it.

    This is the method of a client. Where it has a link, the command is sent in this turn of the
    loop, and the call's result is what redis-py makes of the reply. Where there is none, the client
    says what is to be done (``failed``).
    """
    link, name = self._link, args[0]
    if (
        link is None
        # From a command's second call on it is known that it needs no connection of its own.
        or type(name) is not str
        or self._alone.get(name) is not False
        or observability._provider_manager is not None
        # What `usable` says, without the steps to get there.
        or not link.ready
        or link._thread != get_ident()
        or not (link._waking or link.loop.is_running())
        or (link._interval and monotonic() >= link._due)
        # A command whose reply was large takes another link than the others.
        or (link.large and is_large(link.large, args))
    ):
        return self._execute(args, options)
    # As in `Link._leaving`.
    call = Call(loop=link.loop) if link._waking or link._unsent else link._first()
    link._unsent = True
    call.waiter = None
    call.request = (self, args, options)
    try:
        link._line.put(call, args, NEVER_DECODE not in options, self.response_callbacks)
    except Exception:
        # Who awaits it is to be told.
        return self._execute(args, options)
    return call


def _ready(loop: asyncio.AbstractEventLoop) -> deque[Any] | None:
    """Return where a loop keeps what it has still to run in this turn, if that can be seen."""
    handle = loop.call_soon(_nothing)
    handle.cancel()
    # asyncio's has a name; uvloop's is one of the objects that the loop refers to.
    for each in (getattr(loop, "_ready", None), *gc.get_referents(loop)):
        if type(each) is deque and each and each[-1] is handle:
            return each
    return None


def _nothing() -> None:
    """Do nothing."""


def _raise(error: BaseException) -> None:
    raise error


def _forked() -> None:
    for link in list(_links):
        link._forked()


os.register_at_fork(after_in_child=_forked)
