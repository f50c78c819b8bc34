"""The common base class of all asyncio clients, which picks the client class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from redis.commands import AsyncCoreCommands

from undercroft.asyncio.awaited import Awaited
from undercroft.base import TOPOLOGIES, Factory, means_store, merged, scheme_of
from undercroft.extensions.caches import Caches
from undercroft.extensions.feed import AsyncFeeds

if TYPE_CHECKING:
    from collections.abc import Callable


class Redis(AsyncFeeds, Caches, Awaited, AsyncCoreCommands):  # type: ignore[misc]
    """An asyncio client with redis-py's methods, for a store in shared memory or for a server.

    As with :class:`undercroft.Redis`, the arguments or the URL determine which kind of client is
    created.
    """

    # redis-py's annotations read this flag: methods return awaitables.
    _is_async_client: Literal[True] = True
    # redis-py's annotations for its command classes require this attribute.
    _event_dispatcher: Any

    _factory: ClassVar[Factory]
    # Whether this class is, or derives from, one of the factory's classes.
    _is_made: ClassVar[bool] = False

    # Functions that convert replies to results, by command.
    response_callbacks: dict[str, Callable[..., Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create a client of the class that suits the arguments."""
        if cls._is_made:
            return super().__new__(cls)
        factory = cls._factory
        made = factory.embedded() if means_store(args, kwargs) else factory.remote()
        kind = merged(cls, Redis, made)
        return cast("Self", kind.__new__(kind, *args, **kwargs))

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a client for a URL.

        Options can also be given in the URL, as in ``undercroft://name?db=1``. Options in the URL
        take precedence. ``redis+cluster://`` creates a :class:`undercroft.asyncio.RedisCluster`.
        ``redis+sentinel://host:port/service`` creates a client for the master that the Sentinels
        name.
        """
        scheme = scheme_of(url)
        if scheme in TOPOLOGIES:
            return cast("Self", cls._factory.from_topology(url, **options))
        factory = cls._factory
        kind = factory.embedded() if scheme == "undercroft" else factory.remote()
        return cast("Self", merged(cls, Redis, kind).from_url(url, **options))

    @classmethod
    def from_pool(cls, connection_pool: Any) -> Self:
        """Return a client that takes ownership of a connection pool to a server and closes it."""
        return cast("Self", merged(cls, Redis, cls._factory.remote()).from_pool(connection_pool))

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply as redis-py converts it."""
        raise NotImplementedError

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        """Return a pipeline: a queue of commands that run together."""
        raise NotImplementedError

    def lock(self, name: str | bytes, timeout: float | None = None, **options: Any) -> Any:
        """Return a lock with redis-py's options, which expires after ``timeout`` seconds."""
        raise NotImplementedError

    def pubsub(self, **options: Any) -> Any:
        """Return a publish/subscribe object, which receives messages from channels."""
        raise NotImplementedError

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Release the store or the server; using the client again reopens it."""
        raise NotImplementedError
