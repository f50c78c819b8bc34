"""The connections that the clients of one pool share on one event loop, counted by that pool."""

from __future__ import annotations

import asyncio
import builtins
import os
import random
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError, TimeoutError

from undercroft.asyncio.multiplexing.link import Link
from undercroft.asyncio.multiplexing.rescue import rescue
from undercroft.connection import NAME
from undercroft.servers.command_kinds import smallest, state_of

if TYPE_CHECKING:
    from collections.abc import MutableMapping

CLOSED_BY_CLIENT = "Connection closed by its client."

# Longest wait before another attempt to connect, in seconds.
_PATIENCE = 1.0

# The shares of each pool, by event loop.
_Shares = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, "Share"]
_shares: MutableMapping[Any, _Shares] = weakref.WeakKeyDictionary()
# The pools of all clients.
_pools: weakref.WeakSet[Any] = weakref.WeakSet()


class Share:
    """The connections that all clients of one pool use together on one event loop.

    Usually this is one link. Another is made where a reply keeps the others waiting. Each has a
    place in the pool, like a connection that a call has taken: ``max_connections`` counts it and
    ``disconnect()`` closes it. An idle one leaves its place to a call that needs a connection of
    its own where the pool is full.
    """

    def __init__(self, pool: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Make a share without a connection."""
        self.loop = loop
        # The link for the next call, and all that are open.
        self.link: Link | None = None
        self.links: list[Link] = []
        # Commands whose replies were large, by name and first argument.
        self.large: dict[Any, None] = {}
        # Commands that changed the state of the connection, repeated on each new one.
        self._state: dict[Any, tuple[Any, ...]] = {}
        self._pool = weakref.ref(pool)
        self._linking: asyncio.Task[Link] | None = None
        self._failures = 0
        # How many calls wait for a place in the pool.
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
        """Return a link, checked or made anew by the first caller that finds this due."""
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
            # A cancelled caller does not cancel the connection of the others.
            return await asyncio.shield(task)
        except (ConnectionError, TimeoutError, OSError):
            if link is not None and link.failure is None and link.crowded:
                # Waiting for the reply that is in the way is better than an error.
                return link
            raise
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            is_own = caller is not None and caller.cancelling()
            if task.cancelled() and task is not self._linking and not is_own:
                raise ConnectionError(CLOSED_BY_CLIENT) from None
            raise

    async def aside(self) -> Link:
        """Return a link for a call that is to crowd it, not the others' link if that can be."""
        link = self._spare(self.link)
        if link is None:
            try:
                link = await self._made(False)
            except (ConnectionError, TimeoutError, OSError):
                return await self.connected()
        return link

    def _spare(self, other_than: Link | None = None) -> Link | None:
        """Return an open link that no reply keeps waiting."""
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
        """Return a link over another connection, which has a place in the pool."""
        pool = self._pool()
        assert pool is not None, "a client that asks for a link keeps its pool"
        used = pool._in_use_connections
        held = len(pool._available_connections) + len(used)
        if held < pool.max_connections and not self.wanted:
            connection = pool.make_connection()
            used.add(connection)
        elif can_wait or pool._available_connections:
            # The pool gives an idle one, waits for a place, or says that there is none.
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
        # The pool closes its connections by this method.
        connection.disconnect = link.disconnect
        try:
            for args in self._state.values():
                await link.send(args)
        except BaseException as error:
            link.fail(ConnectionError(f"{args[0]} was refused by a new connection: {error}"))
            raise
        return link

    def _rescue(self, link: Link) -> None:
        """Send reads that a large or slow reply keeps waiting over another link as well."""
        self._keep(self.loop.create_task(rescue(link, self.connected)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _give(self, link: Link) -> None:
        """Give the place of a closed link back to the pool."""
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
        """Leave a place in the pool to another connection: at once if idle, else when idle."""
        for link in self.links:
            if link.idle:
                link.retire()
                return
        if can_wait and self.links:
            self.links[-1].retire()

    async def apply(self, args: tuple[Any, ...]) -> Any:
        """Run a command that changes the state of the connection, on each link of now and later."""
        link = await self.connected()
        reply = await link.send(args)
        self.applied(link, args)
        return reply

    def applied(self, link: Link, args: tuple[Any, ...]) -> None:
        """Run a command on all other links, as it has changed the state of this one."""
        self._state[state_of(args)] = args
        for each in self.links:
            if each is not link:
                # Later calls of that link come after it, whenever its reply does.
                each.send(args).add_done_callback(_read)

    async def replicated(self, args: tuple[Any, ...]) -> Any:
        """Run WAIT or WAITAOF for all writes that were answered before, and return its reply.

        Each connection that may have carried one is asked, as a server knows the last write of
        the connection only. The reply is the smallest.
        """
        await self.connected()
        found = await self._replies(self.links, args)
        if not found:
            raise ConnectionError("The connection that carried the writes was lost")
        return smallest(found)

    async def replicated_elsewhere(self, link: Link, args: tuple[Any, ...], reply: Any) -> Any:
        """Return the reply of WAIT or WAITAOF on one link, or a smaller one of another."""
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
            # The writes of this link are not replicated: an earlier call waits for them.
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
        """Stop connecting."""
        linking, self._linking = self._linking, None
        if linking is not None and not linking.done():
            linking.cancel()
            await asyncio.wait([linking])

    def abandon(self) -> None:
        """Close the connections, from whichever thread their last user has gone."""
        for link in list(self.links):
            link.abandon()

    def leave_closed_loop(self) -> None:
        """Give the places in the pool back, if the loop was closed."""
        if self.loop.is_closed():
            for link in list(self.links):
                self._give(link)


def know(pool: Any) -> None:
    """Let a forked child not use the connections of a pool, which are its parent's."""
    _pools.add(pool)


# Connections of the parent's event loop, which closes those that are dropped: to its poller, which
# both processes have in common, they were the parent's.
_parents: list[Any] = []


def _forked() -> None:
    for pool in list(_pools):
        _parents.extend((*pool._available_connections, *pool._in_use_connections))
        pool.reset()
        if hasattr(pool, "_condition"):
            # A task of the parent may hold it.
            pool._condition = asyncio.Condition()


os.register_at_fork(after_in_child=_forked)


def _adopt(pool: Any) -> _Shares:
    """Return a pool's shares, which from now on yield their places where the pool is full."""
    shares = _shares.setdefault(pool, weakref.WeakKeyDictionary())
    known, kind = weakref.ref(pool), type(pool)
    # A blocking pool waits for a place, the other kind refuses at once.
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
    """Close the connections of a pool that is gone."""
    for share in list(shares.values()):
        share.abandon()


def seconds_of(args: tuple[Any, ...]) -> float | None:
    """Return how long WAIT or WAITAOF may wait; None for ever, or where that is no number."""
    try:
        return int(args[-1]) / 1000 or None
    except (TypeError, ValueError):
        return None


def nothing(args: tuple[Any, ...]) -> Any:
    """Return the reply of WAIT or WAITAOF which says that no copy has the writes."""
    name = str(args[0]).upper()
    return [0, 0] if name == "WAITAOF" else 0


def _is_of(connection: Any, loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether an idle connection of redis-py's is open, and of this loop."""
    reader = getattr(connection, "_reader", None)
    return reader is not None and getattr(reader, "_loop", None) is loop


async def _replicated_idle(pool: Any, connection: Any, args: tuple[Any, ...]) -> Any:
    """Run WAIT or WAITAOF on an idle connection of the pool; return None if that was lost."""
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
    """Let the next caller that waits for a place in a pool look for one."""
    # A pool of another loop has no callers here.
    with suppress(RuntimeError):
        async with condition:
            condition.notify()


def _read(task: asyncio.Future[Any]) -> None:
    """Mark the error of a task as read: the call that waits raises it, if one still does."""
    if not task.cancelled():
        task.exception()
