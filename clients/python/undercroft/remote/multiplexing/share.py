"""The connections that the clients of one pool share on one event loop.

Each connection counts toward the pool's limit.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import random
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError, TimeoutError

from undercroft.remote.command_kinds import smallest, state_of
from undercroft.remote.connection import NAME
from undercroft.remote.multiplexing.link import Link
from undercroft.remote.multiplexing.rescue import rescue

if TYPE_CHECKING:
    from collections.abc import MutableMapping

CLOSED_BY_CLIENT = "Connection closed by its client."

# The maximum number of seconds between two attempts to connect.
_PATIENCE = 1.0

# The `Share` objects of each pool, by event loop.
_Shares = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, "Share"]
_shares: MutableMapping[Any, _Shares] = weakref.WeakKeyDictionary()
# The pools of all clients.
_pools: weakref.WeakSet[Any] = weakref.WeakSet()


class Share:
    """The connections that all clients of one pool share on one event loop.

    A share usually has one link. It opens another link when a reply delays other calls. Each link
    occupies a slot in the pool, like a connection that a call uses: ``max_connections`` counts the
    link, and ``disconnect()`` closes it. If the pool is full, an idle link frees its slot for a
    call that needs a separate connection.
    """

    def __init__(self, pool: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Create a share without a connection."""
        self.loop = loop
        # The link that the next call uses, and all open links.
        self.link: Link | None = None
        self.links: list[Link] = []
        # Commands that had large replies, by command name and first argument.
        self.large: dict[Any, None] = {}
        # Commands that changed the connection's state; they are repeated on each new connection.
        self._state: dict[Any, tuple[Any, ...]] = {}
        self._pool = weakref.ref(pool)
        self._linking: asyncio.Task[Link] | None = None
        self._failures = 0
        # The number of calls that wait for a slot in the pool.
        self.wanted = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, pool: Any) -> Share:
        """Return the share of a pool on the running loop."""
        loop = asyncio.get_running_loop()
        shares = _shares.get(pool)
        if shares is None:
            shares = _adopt(pool)
        share = shares.get(loop)
        if share is None:
            for other in list(shares.values()):
                other.leave_closed_loop()
            share = shares[loop] = cls(pool, loop)
        return share

    async def connected(self) -> Link:
        """Return a usable link. The first caller checks or reopens the link if necessary."""
        link = self.link
        if link is not None and link.usable:
            return link
        spare = self._spare()
        if spare is not None:
            self.link = spare
            return spare
        task = self._linking
        if task is None or task.done():
            task = self._linking = self.loop.create_task(self._connect())
            task.add_done_callback(_read)
        try:
            # Shield the shared connection attempt: cancelling one caller must not cancel it for the
            # others.
            return await asyncio.shield(task)
        except (ConnectionError, TimeoutError, OSError):
            if link is not None and link.failure is None and link.crowded:
                # Waiting for the large or slow reply is better than an error.
                return link
            raise
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            is_own = caller is not None and caller.cancelling()
            if task.cancelled() and task is not self._linking and not is_own:
                raise ConnectionError(CLOSED_BY_CLIENT) from None
            raise

    async def aside(self) -> Link:
        """Return a link for a call with a large reply, preferably a link without other calls."""
        link = self._spare(self.link)
        if link is None:
            try:
                link = await self._made(False)
            except (ConnectionError, TimeoutError, OSError):
                return await self.connected()
        return link

    def _spare(self, other_than: Link | None = None) -> Link | None:
        """Return an open link on which no reply delays other calls, or None."""
        for link in self.links:
            if link is not other_than and link.usable and not link.full:
                return link
        return None

    async def _connect(self) -> Link:
        crowded = False
        for link in list(self.links):
            if link.crowded:
                crowded = True
            elif await link.check():
                self.link = link
                return link
            else:
                link.fail(ConnectionError("Connection closed"))
        if self._failures > 1:
            longest = min(_PATIENCE, 0.01 * 2 ** min(self._failures, 10))
            await asyncio.sleep(longest * random.uniform(0.5, 1))
        self.link = await self._made(not crowded)
        return self.link

    async def _made(self, can_wait: bool) -> Link:
        """Open a connection that occupies a slot in the pool, and return its link."""
        pool = self._pool()
        assert pool is not None, "a client that requests a link keeps its pool"
        used = pool._in_use_connections
        held = len(pool._available_connections) + len(used)
        if held < pool.max_connections and not self.wanted:
            connection = pool.make_connection()
            used.add(connection)
        elif can_wait or pool._available_connections:
            # The pool returns an idle connection, waits for a slot, or raises an error.
            connection = await pool.get_connection(*NAME)
        else:
            raise ConnectionError("Too many connections")
        try:
            await connection.connect()
        except BaseException:
            self._failures += 1
            await connection.disconnect(nowait=True)
            self._vacate(connection)
            raise
        self._failures = 0
        timeout = connection.socket_timeout
        link = Link(connection, timeout, self._give, self.large, self._rescue)
        self.links.append(link)
        if self.wanted:
            link.retire_soon()
        # The pool calls this method when it closes its connections.
        connection.disconnect = link.disconnect
        try:
            for args in self._state.values():
                await link.send(args)
        except BaseException as error:
            link.fail(ConnectionError(f"a new connection refused {args[0]}: {error}"))
            raise
        return link

    def _rescue(self, link: Link) -> None:
        """Resend the reads that a large or slow reply delays, over another link."""
        self._keep(self.loop.create_task(rescue(link, self.connected)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _give(self, link: Link) -> None:
        """Return a closed link's slot to the pool."""
        with suppress(ValueError):
            self.links.remove(link)
        self._vacate(link.connection)

    def _vacate(self, connection: Any) -> None:
        pool = self._pool()
        if pool is None:
            return
        pool._in_use_connections.discard(connection)
        condition = getattr(pool, "_condition", None)
        if condition is not None and not self.loop.is_closed() and self.loop.is_running():
            self._keep(self.loop.create_task(_notify(condition)))

    def yield_place(self, can_wait: bool) -> None:
        """Free a slot in the pool as soon as a link is idle."""
        for link in self.links:
            if link.idle:
                link.retire()
                return
        if can_wait and self.links:
            self.links[-1].retire()

    async def apply(self, args: tuple[Any, ...]) -> Any:
        """Run a command that changes the connection's state on all current and future links."""
        link = await self.connected()
        reply = await link.send(args)
        self.applied(link, args)
        return reply

    def applied(self, link: Link, args: tuple[Any, ...]) -> None:
        """Repeat a command that changed this link's state on all other links."""
        self._state[state_of(args)] = args
        for each in self.links:
            if each is not link:
                # Do not await the reply: each of these links sends its later calls after this
                # command.
                each.send(args).add_done_callback(_read)

    async def replicated(self, args: tuple[Any, ...]) -> Any:
        """Run WAIT or WAITAOF for all acknowledged writes, and return the smallest reply.

        Each connection that may have carried a write is queried, because a server tracks only the
        last write of each connection.
        """
        await self.connected()
        found = await self._replies(self.links, args)
        if not found:
            raise ConnectionError("The connection that carried the writes was lost")
        return smallest(found)

    async def replicated_elsewhere(self, link: Link, args: tuple[Any, ...], reply: Any) -> Any:
        """Return the smallest reply to WAIT or WAITAOF from all links, given one link's reply."""
        others = [each for each in self.links if each is not link]
        return smallest([reply, *await self._replies(others, args)])

    async def _replies(self, links: list[Link], args: tuple[Any, ...]) -> list[Any]:
        pool = self._pool()
        idle = () if pool is None else tuple(pool._available_connections)
        replies = await asyncio.gather(
            *(self._replicated_on(link, args) for link in links),
            *(_replicated_idle(pool, each, args) for each in idle if _is_of(each, self.loop)),
        )
        return [reply for reply in replies if reply is not None]

    async def _replicated_on(self, link: Link, args: tuple[Any, ...]) -> Any:
        seconds = seconds_of(args)
        began = self.loop.time()
        try:
            async with asyncio.timeout(seconds):
                await link.replicas.acquire()
        except builtins.TimeoutError:
            # An earlier call still waits for this link's writes, so they are not replicated yet.
            return nothing(args)
        try:
            if link.failure is not None:
                return None
            if seconds is not None:
                left = seconds - (self.loop.time() - began)
                args = (*args[:-1], max(1, round(left * 1000)))
            call = link.send(args)
            link.crowd()
            return await call
        finally:
            link.replicas.release()

    async def stop(self) -> None:
        """Cancel the current connection attempt."""
        linking, self._linking = self._linking, None
        if linking is not None and not linking.done():
            linking.cancel()
            await asyncio.wait([linking])

    def abandon(self) -> None:
        """Close the connections from any thread when their last user no longer exists."""
        for link in list(self.links):
            link.abandon()

    def leave_closed_loop(self) -> None:
        """Return the links' slots to the pool if their loop is closed."""
        if self.loop.is_closed():
            for link in list(self.links):
                self._give(link)


def know(pool: Any) -> None:
    """Register a pool, so that a forked child does not use its parent's connections."""
    _pools.add(pool)


# Connections of the parent's event loop, referenced here so that this child does not close them.
# Closing them removes them from the poller that parent and child share.
_parents: list[Any] = []


def _forked() -> None:
    for pool in list(_pools):
        _parents.extend((*pool._available_connections, *pool._in_use_connections))
        pool.reset()
        if hasattr(pool, "_condition"):
            # Replace the condition, because a task of the parent may hold its lock.
            pool._condition = asyncio.Condition()


os.register_at_fork(after_in_child=_forked)


def _adopt(pool: Any) -> _Shares:
    """Create a pool's shares and return them. They free slots whenever the pool is full."""
    shares = _shares.setdefault(pool, weakref.WeakKeyDictionary())
    known, kind = weakref.ref(pool), type(pool)
    # A blocking pool waits for a slot; any other pool raises an error immediately.
    can_wait = hasattr(pool, "_condition")

    async def get_connection(*args: Any, **options: Any) -> Any:
        owner = known()
        assert owner is not None, "a caller of its method keeps the pool"
        share = shares.get(asyncio.get_running_loop())
        if (
            share is None
            or owner._available_connections
            or (len(owner._in_use_connections) < owner.max_connections)
        ):
            return await kind.get_connection(owner, *args, **options)
        share.yield_place(can_wait)
        share.wanted += can_wait
        try:
            return await kind.get_connection(owner, *args, **options)
        finally:
            share.wanted -= can_wait

    pool.get_connection = get_connection
    weakref.finalize(pool, _abandon, shares).atexit = False
    return shares


def _abandon(shares: _Shares) -> None:
    """Close the connections of a pool that no longer exists."""
    for share in list(shares.values()):
        share.abandon()


def seconds_of(args: tuple[Any, ...]) -> float | None:
    """Return the timeout of WAIT or WAITAOF in seconds, or None if it is unlimited or invalid."""
    try:
        return int(args[-1]) / 1000 or None
    except (TypeError, ValueError):
        return None


def nothing(args: tuple[Any, ...]) -> Any:
    """Return the WAIT or WAITAOF reply that reports that no replica has the writes."""
    name = str(args[0]).upper()
    return [0, 0] if name == "WAITAOF" else 0


def _is_of(connection: Any, loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether an idle redis-py connection is open and belongs to this loop."""
    reader = getattr(connection, "_reader", None)
    return reader is not None and getattr(reader, "_loop", None) is loop


async def _replicated_idle(pool: Any, connection: Any, args: tuple[Any, ...]) -> Any:
    """Run WAIT or WAITAOF on an idle connection; return None if the connection is lost."""
    try:
        pool._available_connections.remove(connection)
    except ValueError:
        return None
    pool._in_use_connections.add(connection)
    try:
        await connection.send_command(*args)
        return await connection.read_response()
    except ConnectionError:
        await connection.disconnect(nowait=True)
        return None
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)


async def _notify(condition: asyncio.Condition) -> None:
    """Wake the next caller that waits for a slot in a pool."""
    # Ignore a pool that another event loop uses: its waiting callers are not in this loop.
    with suppress(RuntimeError):
        async with condition:
            condition.notify()


def _read(task: asyncio.Future[Any]) -> None:
    """Mark a task's exception as retrieved; a waiting call still raises it."""
    if not task.cancelled():
        task.exception()
