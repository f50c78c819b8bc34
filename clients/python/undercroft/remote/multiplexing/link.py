"""One connection that many tasks share; their commands are written once per turn of the loop."""

from __future__ import annotations

import asyncio
import os
import weakref
from contextlib import suppress
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio.sentinel import SentinelManagedConnection
from redis.exceptions import ConnectionError, ReadOnlyError, TimeoutError

from undercroft.remote.command_kinds import is_large
from undercroft.remote.connection import CLOSED, DEMOTED, PUSH_ARGUMENTS
from undercroft.remote.multiplexing.call import Batch, Call
from undercroft.remote.multiplexing.line import make_line
from undercroft.remote.replies import NEVER_DECODE, observability, shaped
from undercroft.remote.resp import Push

if TYPE_CHECKING:
    from collections.abc import Callable

# The number of consecutive checks without a reply after which a peer counts as unresponsive.
_LOOKS = 4
_MARGIN = 0.001
# The size in bytes of about half a large reply. While a large reply arrives, new calls use another
# link.
_LARGE = 1 << 16
_LARGE_KEPT = 1024
# A reply also counts as large if a string in it still has this many bytes to arrive.
_ANNOUNCED = 2 * _LARGE
# The number of seconds after which the reply to the first waiting call counts as slow.
_SLOW = 0.1

# Sets a call's result without calling the separately stored callback.
_settle = asyncio.Future.set_result

_links: weakref.WeakSet[Link] = weakref.WeakSet()


class Link(asyncio.Protocol):
    """A connection that answers commands in the order in which they were sent.

    redis-py opens the connection and performs the handshake. This protocol then takes over the
    transport. All commands sent in one turn of the event loop are written together. If a caller is
    cancelled, its reply is still read in order, and discarded.
    """

    def __init__(
        self,
        connection: Any,
        timeout: float | None,
        give: Callable[[Link], None],
        large: dict[Any, None],
        rescue: Callable[[Link], None],
    ) -> None:
        """Take over a connection that redis-py has opened, on the running loop.

        The link calls ``give`` with itself once it is closed, and ``rescue`` when a reply delays
        calls that were already sent. Commands with large replies are added to ``large``.
        """
        # Define fewer than 30 attributes: CPython is slow for objects with 30 or more.
        self.loop = asyncio.get_running_loop()
        # In asyncio's own loop, nest_asyncio can allow a task to run the loop recursively.
        self._nests = isinstance(self.loop, asyncio.BaseEventLoop)
        self._thread = get_ident()
        self.connection = connection
        # The reason why the link is unusable, or None.
        self.failure: Exception | None = None
        self._give, self._rescue = give, rescue
        # Whether the link accepts a call right now: it is open, not full and not crowded.
        self.ready = True
        # Whether a large or slow reply delays other calls, so that new calls must use another link.
        self.crowded = False
        self.large = large
        # The number of bytes received since the last complete reply, and the call whose reply they
        # belong to.
        self._come, self._partial = 0, cast("Any", None)
        # Whether data has arrived since the last check, and the first waiting call at that check.
        self._is_heard, self._head = False, cast("Any", None)
        self._slow: asyncio.TimerHandle | None = None
        # Held by a call that waits for replicas on this link (WAIT or WAITAOF).
        self.replicas = asyncio.Lock()
        # Whether to close once no call waits for a reply, whether to check for this state, and
        # whether new calls are rejected.
        self._retires = self._ends = self._is_shut = False
        self._name = connection._host_error() if hasattr(connection, "_host_error") else "server"
        # Whether Sentinels named the peer as master. They can name another master at any time.
        self._elected = (
            isinstance(connection, SentinelManagedConnection)
            and connection.connection_pool.is_master
        )
        # The unsent commands, and the calls that wait for replies.
        self._line = make_line(connection.encoder, connection._parser.parse_error)
        self._waiting: list[asyncio.Future[None]] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timeout = timeout
        # The time after which a health check precedes the next command.
        self._interval = getattr(connection, "health_check_interval", 0) or 0
        self._due = monotonic() + self._interval
        self._watch: asyncio.TimerHandle | None = None
        # The first waiting call, its number of pending replies, and the number of checks without
        # progress.
        self._watched: tuple[Any, int, int] = (None, 0, 0)
        # Keep redis-py's streams, because garbage collection of the streams closes the transport.
        # The connection must no longer use the streams.
        self._streams = (connection._reader, connection._writer)
        connection._reader = connection._writer = None
        self._transport: Any = self._streams[1].transport
        self._transport.set_protocol(self)
        # Whether the line may write to the socket directly, and whether it currently does. It does
        # not do so while the transport has unwritten data.
        self._is_direct = self._is_attached = self._attached()
        # Whether there are unsent commands.
        self._unsent = False
        # Calls that have a reply and a waiter. If a task awaits the call, the list contains the
        # waiter instead of the call.
        self._woken: list[Any] = []
        # A future whose result is set.
        self._plain: asyncio.Future[None] = self.loop.create_future()
        self._plain.set_result(None)
        # Whether `_wake` is calling waiters.
        self._waking = False
        left = bytes(getattr(self._streams[0], "_buffer", b""))
        if left:
            self.data_received(left)
        _links.add(self)

    def _attached(self) -> bool:
        """Attach the transport's socket to the line, unless it uses TLS or has unwritten data."""
        transport = self._transport
        if transport.get_extra_info("sslcontext") or transport.get_write_buffer_size():
            return False
        plain = transport.get_extra_info("socket")
        descriptor = -1 if plain is None else plain.fileno()
        if descriptor >= 0:
            self._line.attach(descriptor)
        return descriptor >= 0

    def send(self, args: tuple[Any, ...], decode: bool = True) -> Call:
        """Send a command in this turn of the loop. The call's result is the reply."""
        self._usable()
        call = self._leaving()
        call.args, call.decode = args, decode
        self._line.put(call, args, decode)
        return call

    def send_many(self, commands: list[Any]) -> Call:
        """Send commands without other commands between them. The result is the list of replies."""
        self._usable()
        call = self._leaving()
        call.args = commands
        self._line.put_many(Batch(call, len(commands)), commands)
        return call

    def _leaving(self) -> Call:
        """Schedule a write at the end of this turn, and return the call for its reply."""
        call = Call(loop=self.loop)
        # While waiters are being called, `_wake` writes their commands afterwards.
        if not (self._unsent or self._waking):
            self.loop.call_soon(self._flush)
        self._unsent = True
        call.waiter = None
        call.request = call.args = None
        return call

    @property
    def usable(self) -> bool:
        """Whether the link can be used in the running loop without a health check."""
        # Compare thread ids, because before Python 3.12 finding the running loop costs a system
        # call.
        return (
            self.failure is None
            and not self.crowded
            and self._thread == get_ident()
            and self.loop.is_running()
            and not (self._interval and monotonic() >= self._due)
        )

    async def check(self) -> bool:
        """Return whether the peer answers a PING."""
        if self.failure is not None or self.loop is not asyncio.get_running_loop():
            return False
        try:
            answer = await self.send(("PING",), decode=False)
        except (ConnectionError, TimeoutError):
            return False
        return bool(answer == b"PONG")

    def _usable(self) -> None:
        if self.failure is not None:
            # Raise a separate exception for each caller, because an exception has only one
            # traceback.
            raise type(self.failure)(*self.failure.args)

    def _flush(self) -> None:
        """Write this turn's commands."""
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
        """Close the connection after a failed write, which may have been partial."""
        self.fail(ConnectionError(f"Error while writing to {self._name} : {error!r}"))

    def data_received(self, data: bytes, /) -> None:
        """Pass replies to the calls that wait for them."""
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
        """Mark the link as crowded if the arriving reply is large, and record the command."""
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
        """Send new calls over another link if a slow reply has delayed other calls for too long."""
        self._slow = None
        first = None if self.failure is not None else self._line.first
        if first is not None:
            if first is self._head and not self.crowded:
                self._obstruct()
            self._slow = self.loop.call_later(_SLOW, self._look_for_slow)
        self._head = first

    def _obstruct(self) -> None:
        """Send new calls over another link, and resend the waiting calls that may run twice."""
        self.crowd()
        if len(self._line) > 1:
            self._rescue(self)

    def queued(self) -> tuple[list[Call | Batch], bool]:
        """Return the waiting calls, and whether part of the first call's reply has arrived."""
        calls: list[Call | Batch] = self._line.calls()
        return calls, calls[:1] == [self._partial] or self._come > 0

    def crowd(self) -> None:
        """Send new calls over another link until this link has received all replies."""
        self.crowded, self.ready, self._ends = True, False, True

    def _look_for_end(self) -> None:
        """Close the link, or accept calls again, once no call waits for a reply."""
        if not self.idle:
            if self._retires:
                self.retire()
        elif self._retires:
            self.fail(ConnectionError(CLOSED))
        else:
            self.crowded, self._ends, self._partial = False, False, None
            self.ready = self.failure is None and self._waiting is None

    def _take(self, call: Call | Batch | None, reply: Any) -> None:
        """Pass a reply to its call, or a message to its handlers."""
        if type(reply) is Push:
            self._deliver(reply)
        elif call is None:
            raise ConnectionError(f"{self._name} sent a reply that matches no request")
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
        """Recover from an exception raised at an arbitrary point, such as by a signal handler."""
        taken = self._line.taken
        if taken is None or taken.done():
            self.loop.call_soon(self.data_received, b"")
        else:
            # Close the link, because a call must never get the reply to another call's command.
            self.fail(ConnectionError(f"Reading from {self._name} was interrupted"))

    def _wake(self) -> None:
        """Call the waiters immediately, and write the commands that they send."""
        woken, self._woken = self._woken, []
        # Do not call waiters while a task runs, because only one task can run at a time. With
        # nest_asyncio a task can run the loop, which must then write the commands of other tasks.
        if asyncio.current_task(self.loop) is not None or (
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
                    # Wake a task with a plain future, which is much faster than a subclass. In both
                    # cases the task reads its result from the call.
                    (waiter, context), told = each, self._plain
                elif each.waiter:
                    (waiter, context), told = each.waiter, each
                    each.waiter = False
                else:
                    called += 1
                    continue
                # No signal handler runs between the increment and the call.
                called += 1
                try:
                    context.run(waiter, told)
                except BaseException as error:
                    self._report(error)
        except BaseException:
            # A signal handler can raise anywhere. Hand the remaining waiters to the loop.
            self._waking = False
            self._delay(woken[called:])
            raise
        self._waking = False
        if is_first and self._unsent:
            # Waiting for the calls of other tasks in this turn takes another turn of the loop,
            # which is a fifth of the time of a sequence of calls.
            self._flush()

    def _delay(self, woken: list[Any]) -> None:
        """Schedule the calls to the waiters and the write in the event loop."""
        others, self._woken = self._woken, []
        for each in (*woken, *others):
            if type(each) is tuple:
                self.loop.call_soon(each[0], self._plain, context=each[1])
            else:
                each.join()
        if self._unsent:
            self.loop.call_soon(self._flush)

    def _report(self, error: BaseException) -> None:
        """Raise a waiter's exception in the event loop."""
        self.loop.call_soon(_raise, error)

    def _finish(self, call: Call, reply: Any) -> None:
        """Set a call's result to the reply as its client converts it."""
        try:
            if call.request is not None:
                client, args, options = call.request
                reply = shaped(client.response_callbacks, args[0], reply, options)
        except Exception as error:
            call.set_exception(error)
        except BaseException as error:
            # As for a task, raise the exception both in the loop and where the call is awaited.
            call.set_exception(error)
            raise
        else:
            self._settled(call, reply)

    def _settled(self, call: Call, result: Any) -> None:
        """Set a call's result, unless it was cancelled."""
        if not call.done():
            _settle(call, result)
            if call.waiter is None:
                call.waiter = False
            elif call.waiter:
                self._woken.append(call)

    def refuse(self, call: Call | Batch, error: Exception) -> None:
        """Fail a call, or pass the error to the call's client, which may retry."""
        if isinstance(call, Call) and call.request is not None:
            call.request[0].failed(call, error, self)
        else:
            call.set_exception(error)

    def _deliver(self, message: Any) -> None:
        """Pass a push message to redis-py's handlers."""
        handle = getattr(self.connection._parser, "handle_push_response", None)
        if handle is None:
            return
        handled = handle(message, *PUSH_ARGUMENTS)
        if asyncio.iscoroutine(handled):
            task = self.loop.create_task(handled)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _look(self) -> None:
        """Close the connection if the peer has not replied within the timeout."""
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
        """Whether the peer accepts no more data at the moment, so that callers should wait."""
        return self._waiting is not None

    @property
    def idle(self) -> bool:
        """Whether no call waits for a reply."""
        return not len(self._line)

    def retire(self) -> None:
        """Reject new calls, and close the connection after the last pending reply."""
        if self.idle:
            self.fail(ConnectionError(CLOSED))
            return
        self._retires = self._ends = self._is_shut = True
        self.ready = False
        if self._waiting is None:
            self._waiting = []

    def retire_soon(self) -> None:
        """Close the link as soon as no call waits for a reply; accept new calls until then."""
        self._retires = self._ends = True

    async def writable(self) -> None:
        """Wait until the link accepts calls again or is closed."""
        while self._waiting is not None:
            future = self.loop.create_future()
            self._waiting.append(future)
            await future

    def pause_writing(self) -> None:
        """Make callers wait before they write."""
        self.ready = False
        if self._waiting is None:
            self._waiting = []

    def resume_writing(self) -> None:
        """Wake callers that wait to write."""
        if self._is_shut and self.failure is None:
            return
        waiting, self._waiting = self._waiting, None
        self.ready = self.failure is None and not self.crowded
        for future in waiting or ():
            if not future.done():
                future.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all waiting calls, because the peer has closed the connection."""
        if exc is None or isinstance(exc, ConnectionError):
            self.fail(exc or ConnectionError(CLOSED))
        else:
            self.fail(ConnectionError(f"Error while reading from {self._name} : {exc.args}"))

    def fail(self, error: Exception) -> None:
        """Close the connection, and fail the calls that wait for replies."""
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
            # Create a separate exception for each caller, because an exception has only one
            # traceback.
            own = type(error)(*error.args)
            # A demoted master rejects commands, so they did not run.
            if error.args != (DEMOTED,):
                own.may_have_run = True  # type: ignore[attr-defined]
            if not each.done():
                self.refuse(each, own)

    def abandon(self) -> None:
        """Close the connection from any thread when its last user no longer exists."""
        if self.failure is None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.fail, ConnectionError("Connection closed"))

    async def disconnect(self, *_: Any, **_options: Any) -> None:
        """Close the connection; the pool calls this method."""
        if self.loop is asyncio.get_running_loop():
            self.fail(ConnectionError("Connection closed by its client."))
        else:
            self.abandon()

    def _forked(self) -> None:
        """Disable the link in a forked child, because the connection belongs to the parent."""
        self.failure = ConnectionError("Connection belongs to the parent process")
        self.ready = False
        self._give(self)


def execute_command(self: Any, *args: Any, **options: Any) -> Any:
    """Run any command and return an awaitable reply, as redis-py converts it.

    This function is a method of clients. If the client has a usable link, the command is sent in
    this turn of the loop, and the call's result is the converted reply. After an error the client
    decides in ``failed`` whether to retry.
    """
    link, name = self._link, args[0]
    if (
        link is None
        # Whether the shared connection may carry a command is known only after the command's first
        # call.
        or type(name) is not str
        or self._alone.get(name) is not False
        or observability._provider_manager is not None
        # The checks of `usable`, inlined for speed.
        or not link.ready
        or link._thread != get_ident()
        or not (link._waking or link.loop.is_running())
        or (link._interval and monotonic() >= link._due)
        # A command that had a large reply earlier uses a separate link.
        or (link.large and is_large(link.large, args))
    ):
        return self._execute(args, options)
    # The body of `Link._leaving`, inlined for speed.
    call = Call(loop=link.loop)
    if not (link._waking or link._unsent):
        link.loop.call_soon(link._flush)
    link._unsent = True
    call.waiter = None
    call.request = (self, args, options)
    try:
        link._line.put(call, args, NEVER_DECODE not in options, self.response_callbacks)
    except Exception:
        # Run the command again in a coroutine, so that awaiting it raises the error.
        return self._execute(args, options)
    return call


def _raise(error: BaseException) -> None:
    raise error


def _forked() -> None:
    for link in list(_links):
        link._forked()


os.register_at_fork(after_in_child=_forked)
