"""The asyncio client for a store in this process, whose commands run in the calling coroutine.

redis-py handles the commands and arguments that the native methods do not support.
"""

from __future__ import annotations

import asyncio
import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any, Self

import redis
import redis.asyncio.client
from redis.commands import AsyncCoreCommands

from undercroft._native import METHODS, Locked, Queue, Subscription, waits
from undercroft.async_base import Redis
from undercroft.awaited import Awaited
from undercroft.embedded.async_connection import ConnectionPool
from undercroft.embedded.async_native import Native
from undercroft.embedded.async_retries import parked, patiently
from undercroft.embedded.client import CODEC, SCANNED
from undercroft.embedded.client import EmbeddedRedis as Store
from undercroft.embedded.missing import Modules
from undercroft.embedded.taking import others, through_async
from undercroft.extensions.async_lock import Lock
from undercroft.extensions.async_releases import Releases
from undercroft.extensions.feed import PipelineFeeds
from undercroft.extensions.lock import Locks
from undercroft.remote.replies import EMPTY_RESPONSE, NEVER_DECODE, shaped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from undercroft._native import Client
    from undercroft.embedded.pipeline import Command
    from undercroft.embedded.pipeline import Pipeline as StorePipeline


class EmbeddedRedis(Native, Locks, Modules, Redis, redis.asyncio.Redis):  # type: ignore[misc]
    """An asyncio client for a store in shared memory.

    The client accepts the arguments of :class:`undercroft.EmbeddedRedis`. A command is a lookup in
    mapped memory, which finishes within its coroutine without returning to the event loop. If
    another process holds a lock for longer than a millisecond, the call yields to other tasks and
    retries for up to ``timeout`` seconds. A call that is cancelled before it acquires the lock has
    changed nothing.

    While a command waits for keys, other tasks run. The command shares one queue with the waiters
    of all processes, and the event loop watches a file descriptor for it. If the task is cancelled,
    its command leaves the queue and puts back an item that it has just received. Only a completed
    move is not undone.

    The client is an instance of ``redis.asyncio.Redis``. Programs that need redis-py connections
    find a pool of connections to the same store in ``connection_pool``.
    """

    _is_made = True
    _pool: ConnectionPool | None = None
    _lock_class = Lock

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Open the store, creating it if it does not exist."""
        self._use(Store(*args, **kwargs))

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:  # type: ignore[override]
        """Open the store at a URL."""
        made = cls.__new__(cls)
        made._use(Store.from_url(url, **options))
        return made

    def _use(self, store: Client) -> None:
        super()._use(store)
        self._releases: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Releases]]
        self._releases = weakref.WeakKeyDictionary()

    def __del__(self, *args: Any) -> None:
        """Do nothing, because deleting the client also releases the store."""

    @property
    def connection_pool(self) -> ConnectionPool:  # type: ignore[override]
        """A pool of redis-py connections to the same store, created on first use."""
        if self._pool is None:
            told = self.store.get_connection_kwargs()
            same = {name: told[name] for name in CODEC}
            self._pool = ConnectionPool(store=str(self.store.path), db=self.store.db, **same)
        return self._pool

    def client(self) -> redis.asyncio.Redis:
        """Return a redis-py client for the same store, with a separate connection."""
        pool = self.connection_pool
        return redis.asyncio.Redis(connection_pool=pool, single_connection_client=True)

    @property
    def response_callbacks(self) -> Any:  # type: ignore[override]
        """Functions that convert replies to results, by command."""
        return self.store.response_callbacks

    async def initialize(self) -> Self:
        """Return the client, which needs no connection."""
        return self

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply as redis-py converts it."""
        taken: list[Any] = []
        try:
            if waits(args[0]):
                return await self._run_taking(taken, args, options)
            run = self.store._run_taking
            try:
                return run(taken, args, options)
            except Locked as refused:
                return await parked(self.store, refused, run, taken, args, options)
        except BaseException:
            self.store._give_back(taken)
            raise

    async def _run_taking(
        self, taken: list[Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Run a command, recording the items that it removes in ``taken`` for a rollback."""
        if not waits(args[0]):
            run = self.store._run_taking
            return await patiently(self.store, run, taken, args, options)
        try:
            reply = await self.wait_for(self.store, args, NEVER_DECODE not in options, taken)
        except redis.ResponseError:
            if EMPTY_RESPONSE in options:
                return options[EMPTY_RESPONSE]
            raise
        return shaped(self.response_callbacks, args[0], reply, options)

    def releases(self) -> Releases:
        """Return the object through which tasks of the running loop wait for locks."""
        loop = asyncio.get_running_loop()
        known = self._releases.get(loop)
        found = None if known is None else known()
        if found is None or not found.usable:
            found = Releases(self.store, loop)
            self._releases[loop] = weakref.ref(found)
        return found

    def set_response_callback(self, command: str, callback: Callable[..., Any]) -> None:
        """Set the function that converts replies to the given command."""
        self.store.set_response_callback(command, callback)

    def get_encoder(self) -> Any:
        """Return redis-py's encoder with this client's encoding."""
        return self.store.get_encoder()

    def get_connection_kwargs(self) -> dict[str, Any]:
        """Return the arguments for a redis-py connection with this client's settings."""
        return dict(self.store.get_connection_kwargs())

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:  # type: ignore[override]
        """Return a pipeline: a queue of commands that run together."""
        return Pipeline(self, self.store.pipeline(transaction, shard_hint))

    async def transaction(  # type: ignore[override]
        self,
        func: Callable[[Pipeline], Any],
        *watches: Any,
        shard_hint: str | None = None,
        value_from_callable: bool = False,
        watch_delay: float | None = None,
    ) -> Any:
        """Run ``func`` in a pipeline that watches keys; retry while a watched key changes."""
        taken: list[Any] = []
        try:
            async with self.pipeline(True, shard_hint) as pipe:
                while True:
                    try:
                        if watches:
                            await pipe.watch(*watches)
                        value = func(pipe)
                        if asyncio.iscoroutine(value):
                            value = await value
                        results = await pipe.execute_taking(taken)
                    except redis.WatchError:
                        await asyncio.sleep(watch_delay or 0)
                    else:
                        return value if value_from_callable else results
        except BaseException:
            self.store._give_back(taken)
            raise

    def scan_iter(
        self, match: Any = None, count: int | None = None, _type: str | None = None, **options: Any
    ) -> Any:
        """Iterate over all matching keys, by default in larger batches than over a network."""
        return super().scan_iter(match, SCANNED if count is None else count, _type, **options)

    def pubsub(self, **options: Any) -> PubSub:
        """Return a publish/subscribe object, which receives messages from channels."""
        return PubSub(self.store, **options)

    def close(self, close_connection_pool: bool | None = None) -> Awaitable[None]:
        """Release the store. This is an old name for `aclose`."""
        return self.aclose(close_connection_pool)


class Pipeline(PipelineFeeds, Awaited, Modules, AsyncCoreCommands):  # type: ignore[misc]
    """A queue of commands that :meth:`execute` runs together."""

    # redis-py's annotations for its command classes require these two attributes.
    _is_async_client = True
    _event_dispatcher: Any

    def __init__(self, client: EmbeddedRedis, store: StorePipeline) -> None:
        """Create a pipeline that queues commands in one of the store's pipelines."""
        self._client = client
        self._store = store

    def __len__(self) -> int:
        """Return the number of queued commands."""
        return len(self._store)

    def __bool__(self) -> bool:
        """Return True even for an empty pipeline."""
        return True

    @property
    def command_stack(self) -> list[Any]:
        """The queued commands."""
        return self._store.command_stack

    def get_encoder(self) -> Any:
        """Return redis-py's encoder with the client's encoding."""
        return self._store.get_encoder()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue a command, or return a coroutine that runs the command while keys are watched."""
        store = self._store
        if (store.watching or args[0] == "WATCH") and not store.explicit_transaction:
            return self.immediate_execute_command(*args, **options)
        store.pipeline_execute_command(*args, **options)
        return self

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command immediately."""
        run = self._wait_for if waits(args[0]) else self._run
        taken: list[Any] = []
        try:
            (reply,) = await run([(args, options)], taken)
            return self._store.answered(reply, args, options)
        except BaseException:
            self._store._give_back(taken)
            raise

    async def watch(self, *names: Any) -> bool:  # type: ignore[override]
        """Watch keys, and run commands immediately until :meth:`multi` is called."""
        self._store.expect_no_multi()
        return bool(await self.immediate_execute_command("WATCH", *names))

    async def unwatch(self) -> bool:  # type: ignore[override]
        """Stop watching keys."""
        return bool(self._store.unwatch())

    def multi(self) -> None:
        """Start a transaction: queue the commands that follow."""
        self._store.multi()

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run all queued commands and return their results."""
        return await self.execute_taking([], raise_on_error)

    async def execute_taking(self, taken: list[Any], raise_on_error: bool = True) -> list[Any]:
        """Run all queued commands and return their results.

        An error restores the removed items. On success ``taken`` contains them, so that the caller
        can restore them if needed.
        """
        store = self._store
        if not len(store) and not store.watching:
            return []
        try:
            try:
                return await self._ran(taken, raise_on_error)
            finally:
                store.reset()
        except BaseException:
            store._give_back(taken)
            # With an empty list the caller does not restore the items again.
            taken.clear()
            raise

    async def _ran(self, taken: list[Any], raise_on_error: bool) -> list[Any]:
        store = self._store
        try:
            ran = store._run(store.whole, taken)
        except Locked as refused:
            # Resume with the command that found a lock held.
            ran = await parked(store.link, refused, store._run, store.whole, taken)
        if ran is not None:
            return store.ran(ran, taken, raise_on_error)
        commands = store.command_stack
        if store.whole:
            replies = store.within(await self._run(store.around(commands), taken), commands)
        elif any(waits(args[0]) for args, _ in commands):
            replies = await self._wait_for(commands, taken)
        else:
            replies = await self._run(commands, taken)
        return store.results(replies, commands, taken, raise_on_error)

    async def _run(self, commands: list[Command], taken: list[Any]) -> list[Any]:
        """Run commands in one call and return their replies.

        If a command finds a lock held, the call later resumes with that command.
        """
        replies: list[Any] = []
        link = self._store.link
        run, what = link._execute_many, commands
        try:
            return run(what, replies, taken)
        except Locked as refused:
            try:
                return list(await parked(link, refused, run, what, replies, taken))
            except BaseException:
                link._discard()
                raise

    async def _wait_for(self, commands: list[Command], taken: list[Any]) -> list[Any]:
        """Run commands one at a time and return their replies."""
        replies = []
        for args, options in commands:
            try:
                link, decode = self._store.link, NEVER_DECODE not in options
                reply = await self._client.wait_for(link, args, decode, taken)
            except redis.ResponseError as error:
                reply = error
            replies.append(reply)
        return replies

    async def reset(self) -> None:  # type: ignore[override]
        """Discard the queued commands and stop watching keys."""
        self._store.reset()

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: ARG002
        """Discard the queued commands and stop watching keys."""
        self._store.reset()


def _queued(name: str) -> Callable[..., Any]:
    """Return a pipeline method for a command, which queues the command natively if possible."""

    @wraps(getattr(Queue, name))
    def method(self: Pipeline, *args: Any, **options: Any) -> Any:
        store = self._store
        if store.watching and not store.explicit_transaction:
            return getattr(super(Pipeline, self), name)(*args, **options)
        getattr(store, name)(*args, **options)
        return self

    return method


for _name, _method in others(redis.asyncio.Redis, typed=False).items():
    setattr(EmbeddedRedis, _name, through_async(_method))

for _, _name in METHODS:
    setattr(Pipeline, _name, _queued(_name))


class PubSub(redis.asyncio.client.PubSub):
    """A subscriber to messages, with redis-py's methods.

    If messages are overwritten before they are read, the subscriber receives a message of type
    ``lost``, whose data is their number. ``lost`` counts all overwritten messages.
    """

    def __init__(
        self,
        store: Store,
        shard_hint: str | None = None,
        ignore_subscribe_messages: bool = False,
        push_handler_func: Any = None,
    ) -> None:
        """Create a subscriber without subscriptions."""
        self._store = store
        self._native: Subscription | None = None
        # The future and descriptor of the waiting task. A loop supports only one reader per
        # descriptor.
        self._waiting: tuple[asyncio.Future[None], int] | None = None
        pool: Any = None
        super().__init__(
            connection_pool=pool,
            shard_hint=shard_hint,
            ignore_subscribe_messages=ignore_subscribe_messages,
            encoder=store.get_encoder(),
            push_handler_func=push_handler_func,
        )

    async def connect(self) -> None:
        """Open the native subscription."""
        if self._native is None:
            self._native = Subscription(self._store)

    async def execute_command(self, *args: Any) -> None:
        """Run a command such as SUBSCRIBE."""
        if self._native is None:
            self._native = Subscription(self._store)
        await patiently(self._store, self._native.command, args)

    async def aclose(self) -> None:
        """Unsubscribe from all channels. A task that waits for a message gets an exception."""
        native, self._native = self._native, None
        if native is not None:
            self._wake()
            native.close()
        close: Any = super().aclose
        await close()

    async def check_health(self) -> None:
        """Do nothing, because there is no connection that could fail."""

    async def parse_response(self, block: bool = True, timeout: float = 0) -> Any:
        """Return the next response, waiting in the event loop until the timeout."""
        native = self._native
        if native is None:
            raise RuntimeError(
                "pubsub connection not set: did you forget to call subscribe() or psubscribe()?"
            )
        loop = asyncio.get_running_loop()
        until = None if block else loop.time() + (timeout or 0)
        while True:
            try:
                response = native.read(0)
            except Locked as refused:  # a forked child subscribes again
                response = await parked(self._store, refused, native.read, 0)
            if response is not None:
                return response
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                return None
            if self._waiting is not None:
                raise RuntimeError(
                    "another task is already waiting for messages of this subscription; use one "
                    "task"
                )
            await self._readable(native, left)

    async def _readable(self, native: Subscription, timeout: float | None) -> None:
        """Wait until a message may be available, or until the timeout in seconds."""
        loop = asyncio.get_running_loop()
        ready, descriptor = loop.create_future(), native.fileno()
        self._waiting = waiting = ready, descriptor
        loop.add_reader(descriptor, self._wake)
        late = None if timeout is None else loop.call_later(timeout, self._wake)
        try:
            await ready
        finally:
            if self._waiting is waiting:
                self._wake()
            if late is not None:
                late.cancel()

    def _wake(self) -> None:
        """Wake the waiting task and remove the descriptor from the loop."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            ready, descriptor = waiting
            ready.get_loop().remove_reader(descriptor)
            if not ready.done():
                ready.set_result(None)

    async def handle_message(self, response: Any, ignore_subscribe_messages: bool = False) -> Any:
        """Return a message as a dictionary, or pass it to its handler."""
        if response is not None and response[0] in (b"lost", "lost"):
            return {"type": "lost", "pattern": None, "channel": None, "data": response[2]}
        handle: Any = super().handle_message
        return await handle(response, ignore_subscribe_messages)

    @property
    def lost(self) -> int:
        """The number of messages that were overwritten before they were read."""
        return 0 if self._native is None else self._native.lost
