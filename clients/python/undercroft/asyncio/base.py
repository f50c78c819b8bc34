"""The class that all clients for asyncio have in common, which makes the kind that is meant."""

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
    """A client for asyncio with redis-py's methods, of a store in shared memory or of a server.

    Which of the two it is its arguments or its URL say, as for :class:`undercroft.Redis`.
    """

    # By this redis-py's types tell that its methods return awaitables.
    _is_async_client: Literal[True] = True
    # redis-py's command classes ask for it by type.
    _event_dispatcher: Any

    _factory: ClassVar[Factory]
    # Whether this class is one that the factory makes, or is derived from it.
    _is_made: ClassVar[bool] = False

    # What makes replies into results, by command.
    response_callbacks: dict[str, Callable[..., Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a client of the kind that the arguments mean."""
        if cls._is_made:
            return super().__new__(cls)
        factory = cls._factory
        made = factory.embedded() if means_store(args, kwargs) else factory.remote()
        kind = merged(cls, Redis, made)
        return cast("Self", kind.__new__(kind, *args, **kwargs))

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a client of what a URL names.

        Options may also stand in the URL, as in ``undercroft://name?db=1``, and win there. With
        ``redis+cluster://`` it is a :class:`undercroft.asyncio.RedisCluster`, with
        ``redis+sentinel://host:port/service`` a client of the master that the Sentinels name.
        """
        scheme = scheme_of(url)
        if scheme in TOPOLOGIES:
            return cast("Self", cls._factory.from_topology(url, **options))
        factory = cls._factory
        kind = factory.embedded() if scheme == "undercroft" else factory.remote()
        return cast("Self", merged(cls, Redis, kind).from_url(url, **options))

    @classmethod
    def from_pool(cls, connection_pool: Any) -> Self:
        """Return a client of a server, which closes these connections when it is closed."""
        return cast("Self", merged(cls, Redis, cls._factory.remote()).from_pool(connection_pool))

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply, in the form redis-py gives it."""
        raise NotImplementedError

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        """Return a collection of commands that are run together."""
        raise NotImplementedError

    def lock(self, name: str | bytes, timeout: float | None = None, **options: Any) -> Any:
        """Return a lock of this name, with redis-py's options; it expires after ``timeout``."""
        raise NotImplementedError

    def pubsub(self, **options: Any) -> Any:
        """Return a receiver of messages."""
        raise NotImplementedError

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Let go of the store or the server; using the client again takes it up again."""
        raise NotImplementedError
