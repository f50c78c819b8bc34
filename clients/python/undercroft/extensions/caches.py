"""The clients' decorator that caches the results of functions.

It imports the implementation on first use.
"""

from __future__ import annotations

# Defined here because importing typing takes longer than opening a store.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, ParamSpec, Protocol

    from undercroft.extensions.caching import Key

    Asked = ParamSpec("Asked")

    class CachedFunction(Protocol[Asked]):
        """A function whose results are cached. Calls to a coroutine function are awaited."""

        def __call__(self, *args: Asked.args, **kwargs: Asked.kwargs) -> Any:
            """Return the result for these arguments, computing it if it is not cached."""

        def forget(self, *args: Asked.args, **kwargs: Asked.kwargs) -> Any:
            """Remove the cached result for these arguments; return whether it existed."""

        def cache_key(self, *args: Asked.args, **kwargs: Asked.kwargs) -> bytes:
            """Return the key under which the result for these arguments is cached."""


class Caches:
    """A mixin that adds the ``cache`` decorator to clients."""

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
        """Return a decorator that caches a function's results for ``ttl`` seconds.

        Of all callers in all processes, only one computes a result at a time, while the others wait
        for it. If the function raises, or its process is killed, another caller computes the result
        immediately. On a server, the death of a process is noticed only after ``lease`` seconds. If
        the computation is stopped or takes longer than ``lease`` seconds, another caller then
        computes the result. The late result is returned to its caller but not stored. A caller that
        waits for more than ``wait`` seconds gets ``redis.exceptions.TimeoutError``, or
        :class:`undercroft.BusyError` with an :class:`undercroft.Store`.

        For ``stale`` seconds after ``ttl``, callers still get the old result while one caller
        recomputes it. With ``early=1`` a caller may recompute a result before ``ttl`` is over. The
        time is random, and earlier for results that take longer to compute. A larger ``early``
        makes it earlier.

        By default the key consists of the function's name and its arguments. ``key`` is either a
        string that is formatted with the arguments, such as ``"user:{0}"``, or a function that is
        called with them. Results are bytes or text, and are returned as ``get`` returns them. For
        other results, ``serializer`` is ``"json"``, ``"pickle"`` or an object with ``dumps`` and
        ``loads``. The decorated function has the methods ``forget``, which removes the result for
        its arguments, and ``cache_key``.
        """

        def decorate(function: Callable[Asked, Any]) -> CachedFunction[Asked]:
            from undercroft.extensions.caching import decorated

            options = ttl, stale, early, key, serializer, lease, wait
            cached: CachedFunction[Asked] = decorated(self, function, *options)
            return cached

        return decorate
