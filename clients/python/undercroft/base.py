"""The common base class of all clients, which picks the client class from its arguments."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, cast

from redis.commands import CoreCommands

from undercroft.embedded.address import TERMS
from undercroft.extensions.caches import Caches
from undercroft.extensions.feed import Feeds

if TYPE_CHECKING:
    from types import TracebackType

# Options that only clients for stores in shared memory accept.
EMBEDDED_OPTIONS = frozenset(
    {"store", "db", "decode_responses", "encoding", "encoding_errors", *TERMS}
)
_REMOTE_SCHEMES = ("redis", "rediss", "unix")
# URL schemes of clusters and Sentinels, which tell clients which server to use.
TOPOLOGIES = ("redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel")


class Factory(NamedTuple):
    """The modules of concrete client classes, imported on first use: they depend on this module."""

    embedded_module: str
    remote_module: str
    topology_module: str

    def embedded(self) -> type[Any]:
        """Return the class of clients for a store in shared memory."""
        try:
            module = importlib.import_module(self.embedded_module)
        except ImportError as error:
            raise ImportError(
                "stores in shared memory need undercroft's native module, which cannot be "
                f"imported; servers work without it ({error})"
            ) from error
        found: type[Any] = module.EmbeddedRedis
        return found

    def remote(self) -> type[Any]:
        """Return the class of clients for a server."""
        found: type[Any] = importlib.import_module(self.remote_module).RemoteRedis
        return found

    def from_topology(self, url: str, **options: Any) -> Any:
        """Return a client for a URL whose scheme is in ``TOPOLOGIES``."""
        return importlib.import_module(self.topology_module).from_url(url, **options)


def means_store(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a client's arguments mean a store in shared memory rather than a server.

    As in redis-py, a bare word is a host name. A store is named by its URL or by a path that
    contains ``/``.
    """
    if "store" in kwargs:
        return True
    if args:
        return not isinstance(args[0], str) or "/" in args[0]
    return kwargs.keys() <= EMBEDDED_OPTIONS


def scheme_of(url: str) -> str:
    """Return a URL's scheme, or raise ``ValueError`` if it is not supported."""
    known = ("undercroft", *_REMOTE_SCHEMES, *TOPOLOGIES)
    scheme, colon, _ = url.partition("://")
    if not colon or scheme not in known:
        schemes = ", ".join(f"{scheme}://" for scheme in known)
        raise ValueError(f"expected a URL that begins with one of {schemes}, got {url!r}")
    return scheme


_made: dict[tuple[type[Any], type[Any]], type[Any]] = {}


def merged(own: type[Any], common: type[Any], kind: type[Any]) -> type[Any]:
    """Return a program's subclass of the common class, rebased onto the concrete client class."""
    if own is common:
        return kind
    if (own, kind) not in _made:
        members = {"__module__": own.__module__, "__doc__": own.__doc__}
        _made[own, kind] = type(own.__name__, (own, kind), members)
    return _made[own, kind]


class Chosen:
    """The part of both common classes that picks a concrete client class."""

    # The common class itself, and the concrete classes of its clients.
    _common: ClassVar[type[Any]]
    _factory: ClassVar[Factory]
    # Whether this class is, or derives from, one of the factory's classes.
    _is_made: ClassVar[bool] = False

    # redis-py's annotations for its command classes require this attribute.
    _event_dispatcher: Any
    # Functions that convert replies to results, by command.
    response_callbacks: dict[str, Callable[..., Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create a client of the class that suits the arguments."""
        if cls._is_made:
            return super().__new__(cls)
        kind = cls._concrete(means_store(args, kwargs))
        return cast("Self", kind.__new__(kind, *args, **kwargs))

    @classmethod
    def _concrete(cls, is_store: bool) -> type[Any]:
        """Return the concrete class of a store's or a server's clients, as a kind of this class."""
        made = cls._factory.embedded() if is_store else cls._factory.remote()
        return merged(cls, cls._common, made)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a client for a URL.

        Options can also be given in the URL, as in ``undercroft://name?db=1``. Options in the URL
        take precedence. ``redis+cluster://`` creates a ``RedisCluster``.
        ``redis+sentinel://host:port/service`` creates a client for the master that the Sentinels
        name.
        """
        scheme = scheme_of(url)
        if scheme in TOPOLOGIES:
            return cast("Self", cls._factory.from_topology(url, **options))
        return cast("Self", cls._concrete(scheme == "undercroft").from_url(url, **options))

    @classmethod
    def from_pool(cls, connection_pool: Any) -> Self:
        """Return a client that takes ownership of a connection pool to a server and closes it."""
        return cast("Self", cls._concrete(False).from_pool(connection_pool))

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        """Return a pipeline: a queue of commands that run together."""
        raise NotImplementedError

    def lock(self, name: str | bytes, timeout: float | None = None, **options: Any) -> Any:
        """Return a lock with redis-py's options, which expires after ``timeout`` seconds."""
        raise NotImplementedError

    def pubsub(self, **options: Any) -> Any:
        """Return a publish/subscribe object, which receives messages from channels."""
        raise NotImplementedError


class Redis(Chosen, Feeds, Caches, CoreCommands):
    """A client with redis-py's methods, for a store in shared memory or for a server.

    ``Redis()``, ``Redis("undercroft://name")``, ``Redis("/path")`` and :meth:`from_url` with
    ``undercroft://`` create a client for a store in this process. :class:`undercroft.EmbeddedRedis`
    describes the options.

    redis-py's arguments, as in ``Redis("localhost", 6379)`` or ``Redis(host="localhost",
    port=6379)``, and :meth:`from_url` with ``redis://``, ``rediss://`` or ``unix://`` create a
    client for a server (:class:`undercroft.RemoteRedis`). As in redis-py, a bare word is a host
    name, not a store.
    """

    # redis-py's annotations read this flag: methods return values, not awaitables.
    _is_async_client: Literal[False] = False
    _factory = Factory(
        "undercroft.embedded.client", "undercroft.remote.client", "undercroft.remote.topology"
    )

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply as redis-py converts it."""
        raise NotImplementedError

    def transaction(self, func: Callable[[Any], Any], *watches: Any, **options: Any) -> Any:
        """Run ``func`` in a pipeline that watches keys; retry while a watched key changes."""
        raise NotImplementedError

    def set_response_callback(self, command: str, callback: Callable[..., Any]) -> None:
        """Set the function that converts replies to the given command."""
        raise NotImplementedError

    def get_encoder(self) -> Any:
        """Return redis-py's encoder with this client's encoding."""
        raise NotImplementedError

    def get_connection_kwargs(self) -> dict[str, Any]:
        """Return the arguments for a redis-py connection with this client's settings."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the store or the server; using the client again reopens it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()


Redis._common = Redis
# An alias that redis-py also defines.
StrictRedis = Redis
