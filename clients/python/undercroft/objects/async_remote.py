"""Objects on a server for asyncio: copies of values, sent and fetched in pipelines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from undercroft.async_base import Redis
from undercroft.objects.async_embedded import Objects
from undercroft.objects.embedded import ObjectDraft
from undercroft.objects.remote import (
    RemoteObjects as SyncRemoteObjects,
)
from undercroft.objects.remote import (
    delete_steps,
    exists_steps,
)
from undercroft.objects.waits import LOOK_REMOTE, Waiting
from undercroft.remote.connection import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from undercroft.objects.remote import Steps


class _Described(SyncRemoteObjects):
    """Objects on a server that use the connections of another client."""

    _redis = Redis


class RemoteObjects(Objects):
    """Objects on a server, for asyncio.

    If a task is cancelled between a command and its reply, its connection is closed. The command
    may have run, and a value that it removed may be lost.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Create a client for the server."""
        self._objects = _Described(*args, **options)

    async def _run(self, steps: Steps) -> Any:
        """Run an operation on a separate connection, and return its result."""
        pool = self._objects._client.connection_pool
        connection = await pool.get_connection(*NAME)
        try:
            replies: Any = None
            while True:
                try:
                    commands = steps.send(replies)
                except StopIteration as done:
                    return done.value
                replies = await self._exchange(connection, commands)
        finally:
            steps.close()
            await pool.release(connection)

    async def _exchange(self, connection: Any, commands: list[tuple[Any, ...]]) -> list[Any]:
        try:
            await connection.send_packed_command(connection.pack_commands(commands))
            return [await self._next(connection) for _ in commands]
        except BaseException:
            # Close the connection, so that the next operation does not read this operation's
            # replies.
            await connection.disconnect(nowait=True)
            raise

    async def _next(self, connection: Any) -> Any:
        try:
            return await connection.read_response(disable_decoding=True)
        except ResponseError as error:
            return error

    async def put(
        self, value: Any, *, ttl: float | timedelta | None = None, id: bytes | None = None
    ) -> bytes:
        """Send a value and return its id."""
        found: bytes = await self._run(self._objects.put_one(value, ttl, id))
        return found

    async def put_many(
        self, values: Iterable[Any], *, ttl: float | timedelta | None = None
    ) -> list[bytes]:
        """Send several values in pipelines. If any value cannot be stored, none remain."""
        ids: list[bytes] = await self._run(self._objects.put_all(values, ttl))
        return ids

    async def _seal(self, draft: ObjectDraft) -> bytes:
        remote: Any = draft
        sent, is_stored = remote._begin(), False
        try:
            await self._run(remote._steps(sent))
            is_stored = True
        finally:
            remote._end(sent, is_stored)
        return draft.id

    async def get(self, id: bytes, *, writable: bool = False) -> Any:
        """Return a copy of the value with the given id."""
        return (await self._run(self._objects.get_all([id], writable)))[0]

    async def get_many(self, ids: Iterable[bytes], *, writable: bool = False) -> list[Any]:
        """Return copies of the values with the given ids, fetched in pipelines."""
        found: list[Any] = await self._run(self._objects.get_all(ids, writable))
        return found

    async def take(self, id: bytes, *, writable: bool = False) -> Any:
        """Return the value with the given id and delete it."""
        return (await self._run(self._objects.take_all([id], writable)))[0]

    async def take_many(self, ids: Iterable[bytes], *, writable: bool = False) -> list[Any]:
        """Return the values with the given ids and delete them, in atomic batches of a thousand."""
        found: list[Any] = await self._run(self._objects.take_all(ids, writable))
        return found

    async def wait(
        self, ids: Iterable[bytes], timeout: float | None = None, count: int | None = None
    ) -> tuple[list[bytes], list[bytes]]:
        """Wait until objects exist."""

        async def look() -> None:
            begun = time.monotonic()
            waiting.found(await self._run(exists_steps(list(waiting.missing))))
            waiting.looked(begun)

        waiting = Waiting(self._objects, ids, timeout, count, LOOK_REMOTE)
        await look()
        if waiting.is_over or waiting.is_single_look:
            return waiting.result()
        async with self._objects._client.pubsub() as messages:
            command, *names = waiting.subscribing()
            subscribe = messages.psubscribe if command == "PSUBSCRIBE" else messages.subscribe
            await subscribe(*names)
            # Wait until the subscriptions are confirmed, so that the messages about later objects
            # arrive.
            for _ in names:
                await messages.parse_response()
            await look()
            while not waiting.is_over and not waiting.is_late:
                key = waiting.meant(await messages.parse_response(False, waiting.pause))
                if key is not None:
                    waiting.found(await self._run(exists_steps([key])))
                if waiting.is_due:
                    await look()
        return waiting.result()

    async def delete(self, *ids: bytes) -> int:
        """Delete objects and return how many existed."""
        keys = [self._objects._key(id) for id in ids]
        found: int = await self._run(delete_steps(keys))
        return found

    async def contains(self, id: bytes) -> bool:
        """Return whether an object with the given id exists."""
        return bool(await self._run(exists_steps([self._objects._key(id)])))

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close the connections."""
        await self._objects._client.aclose(close_connection_pool)
