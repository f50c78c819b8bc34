"""What clients have to cache the results of functions: a decorator, which imports the rest."""

from __future__ import annotations

# As typing's, which takes longer to import than a store to be opened.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, ParamSpec, Protocol

    from undercroft.extensions.caching import Key

    Asked = ParamSpec("Asked")

    class CachedFunction(Protocol[Asked]):
        """A function whose results are cached; of a coroutine function, results are awaited."""

        def __call__(self, *args: Asked.args, **kwargs: Asked.kwargs) -> Any:
            """Return the result for these arguments."""

        def forget(self, *args: Asked.args, **kwargs: Asked.kwargs) -> Any:
            """Remove the result for these arguments; return whether there was one."""

        def cache_key(self, *args: Asked.args, **kwargs: Asked.kwargs) -> bytes:
            """Return the key of the result for these arguments."""


class Caches:
    """What has the decorator for functions."""

    def cache(
        self,
        ttl: float | timedelta | None = None,
        *,
        stale: float | timedelta = 0,
        early: float = 0,
        key: Key = None,
        serializer: Any = None,
        lease: float | timedelta = 10,
        wait: float | timedelta = 60,
    ) -> Callable[[Callable[Asked, Any]], CachedFunction[Asked]]:
        """Return a decorator that caches what a function returns, for ``ttl`` seconds.

        Of all callers in all processes one computes a result at a time, and the others wait for
        it. Where it raises, or its process is killed, another one computes at once (on a server,
        after a death, when ``lease`` seconds are over); where it is stopped, or takes longer than
        ``lease``, another one then, and what comes late is returned to its caller and not stored.
        Who waits for longer than ``wait`` seconds gets a ``redis.exceptions.TimeoutError``, of a
        :class:`undercroft.Store` a :class:`undercroft.BusyError`.

        After ``ttl`` a result is given out for ``stale`` more seconds while one caller makes it
        anew. With ``early=1`` callers may do that before ``ttl`` is over, by chance, the earlier
        the longer it takes; a larger number is earlier.

        The key is made of the function's name and its arguments; ``key`` says it otherwise: a
        text that is formatted with them, such as ``"user:{0}"``, or a function of them. Results
        are bytes or text, and come as ``get`` would return them; ``serializer`` is ``"json"``,
        ``"pickle"`` or an object with ``dumps`` and ``loads``. The decorated function has
        ``forget``, which removes the result for some arguments, and ``cache_key``.
        """

        def decorate(function: Callable[Asked, Any]) -> CachedFunction[Asked]:
            from undercroft.extensions.caching import decorated

            options = ttl, stale, early, key, serializer, lease, wait
            cached: CachedFunction[Asked] = decorated(self, function, *options)
            return cached

        return decorate
