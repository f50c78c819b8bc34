"""The class that all clients have in common, which makes the kind that its arguments mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, cast

from redis.commands import CoreCommands

from undercroft.extensions.caches import Caches
from undercroft.extensions.feed import Feeds

if TYPE_CHECKING:
    from types import TracebackType

# What a client of a store in shared memory can be told.
EMBEDDED_OPTIONS = frozenset(
    {
        "store",
        "db",
        "decode_responses",
        "encoding",
        "encoding_errors",
        "capacity",
        "maxmemory",
        "maxmemory_policy",
        "strict",
        "on_removed",
        "timeout",
    }
)
_REMOTE_SCHEMES = ("redis", "rediss", "unix")
# Which server is asked, others say.
TOPOLOGIES = ("redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel")


class Factory(NamedTuple):
    """How the classes are found that a client may be of, whose modules know this one."""

    embedded: Callable[[], type[Any]]
    remote: Callable[[], type[Any]]
    # What makes a client of a URL of TOPOLOGIES.
    from_topology: Callable[..., Any]


def means_store(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a client's arguments mean a store in shared memory, and not a server.

    As in redis-py, a bare word is a host: a store is named by its URL or by a path with a ``/``.
    """
    if "store" in kwargs:
        return True
    if args:
        return not isinstance(args[0], str) or "/" in args[0]
    return kwargs.keys() <= EMBEDDED_OPTIONS


def scheme_of(url: str) -> str:
    """Return a URL's scheme, which has to be one of those that are known."""
    known = ("undercroft", *_REMOTE_SCHEMES, *TOPOLOGIES)
    scheme, colon, _ = url.partition("://")
    if not colon or scheme not in known:
        schemes = ", ".join(f"{scheme}://" for scheme in known)
        raise ValueError(f"expected a URL that begins with one of {schemes}; got {url!r}")
    return scheme


_made: dict[tuple[type[Any], type[Any]], type[Any]] = {}


def merged(own: type[Any], common: type[Any], kind: type[Any]) -> type[Any]:
    """Return a program's own class, derived from the common one, as one of this kind."""
    if own is common:
        return kind
    if (own, kind) not in _made:
        members = {"__module__": own.__module__, "__doc__": own.__doc__}
        _made[own, kind] = type(own.__name__, (own, kind), members)
    return _made[own, kind]


class Redis(Feeds, Caches, CoreCommands):
    """A client with redis-py's methods, of a store in shared memory or of a server.

    ``Redis()``, ``Redis("undercroft://name")``, ``Redis("/path")`` and :meth:`from_url` with
    ``undercroft://`` make a client of a store in this process
    (:class:`undercroft.EmbeddedRedis` says which options there are); redis-py's
    arguments, as in ``Redis("localhost", 6379)`` or ``Redis(host="localhost", port=6379)``, and
    :meth:`from_url` with ``redis://``, ``rediss://`` or ``unix://`` make a client of a server
    (:class:`undercroft.RemoteRedis`). So a bare word is a host, as in redis-py, and no store.
    """

    # By this redis-py's types tell that its methods return values, not awaitables.
    _is_async_client: Literal[False] = False
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
        ``redis+cluster://`` it is a :class:`undercroft.RedisCluster`, with
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

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply, in the form redis-py gives it."""
        raise NotImplementedError

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        """Return a collection of commands that are run together."""
        raise NotImplementedError

    def transaction(self, func: Callable[[Any], Any], *watches: Any, **options: Any) -> Any:
        """Call a function with a pipeline that watches keys until none of them was changed."""
        raise NotImplementedError

    def lock(self, name: str | bytes, timeout: float | None = None, **options: Any) -> Any:
        """Return a lock of this name, with redis-py's options; it expires after ``timeout``."""
        raise NotImplementedError

    def pubsub(self, **options: Any) -> Any:
        """Return a receiver of messages."""
        raise NotImplementedError

    def set_response_callback(self, command: str, callback: Callable[..., Any]) -> None:
        """Let a function make the replies of a command into what its method returns."""
        raise NotImplementedError

    def get_encoder(self) -> Any:
        """Return redis-py's encoder with this client's encoding."""
        raise NotImplementedError

    def get_connection_kwargs(self) -> dict[str, Any]:
        """Return what a connection of redis-py's with this client's settings is made with."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the store or the server; using the client again takes it up again."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()
