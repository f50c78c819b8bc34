"""Arrays that go between processes through a store, where programs pickle them on their way.

``multiprocessing``'s queues, pipes and pools, ``concurrent.futures``' process pools and PyTorch's
``DataLoader`` pickle what they send by the same class. Once :func:`share_arrays` was called,
a large array is put into a store instead, and only its id is sent; who receives it takes it.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from undercroft.objects import Objects

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["keep_arrays", "share_arrays"]

_ARRAYS_MIN = 32 << 10
_PREFIX = "shared:"

_sending: _Sender | None = None
# By store: what this process takes from.
_stores: dict[str, Objects] = {}


class _Sender:
    """What becomes of arrays that are sent."""

    def __init__(self, store: str, at_least: int, ttl: Any, writable: bool) -> None:
        self.store, self.at_least, self.writable = store, at_least, writable
        self.objects = _objects(store, ttl)

    def reduce(self, array: Any) -> Any:
        """Return how an array is pickled."""
        if array.nbytes < self.at_least or array.dtype.hasobject:
            return array.__reduce__()
        return _take, (self.store, self.objects.put(array), self.writable)


def _objects(store: str, ttl: Any = None) -> Objects:
    return Objects(store, ttl=ttl, prefix=_PREFIX)


def _take(store: str, id: bytes, writable: bool) -> Any:
    """Return an array that was sent."""
    objects = _stores.get(store)
    if objects is None:
        objects = _stores[store] = _objects(store)
    return objects.take(id, writable=writable)


def _reduce(array: Any) -> Any:
    return array.__reduce__() if _sending is None else _sending.reduce(array)


def share_arrays(
    store: str,
    *,
    at_least: int = _ARRAYS_MIN,
    ttl: float | timedelta | None = 600,
    writable: bool = False,
) -> None:
    """From now on send the arrays of this process through a store.

    ``store`` is a name, path or URL, which the receivers open as well. Arrays of less than
    ``at_least`` bytes are sent as before. An array arrives as a read-only view of the store, or as
    a copy with ``writable``; it is taken once, so a message is not to be unpickled twice. What
    nobody receives is kept for ``ttl`` seconds.

    A child that is forked shares arrays as its parent does; one that is spawned calls this itself,
    as ``ProcessPoolExecutor(initializer=share_arrays, initargs=(store,))`` lets it. Called again it
    replaces what was said before. :func:`keep_arrays` ends it.
    """
    global _sending
    import numpy

    _sending = _Sender(store, at_least, ttl, writable)
    ForkingPickler.register(numpy.ndarray, _reduce)


def keep_arrays() -> None:
    """From now on send the arrays of this process as they were sent before :func:`share_arrays`."""
    global _sending
    _sending = None
