"""Sends pickled NumPy arrays through a store instead of copying them between processes.

``multiprocessing``'s queues, pipes and pools, ``concurrent.futures``' process pools and PyTorch's
``DataLoader`` pickle their messages with the same class. After a call to :func:`share_arrays`, a
large array is put into a store, and the message contains only its id. The receiver removes the
array from the store.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from undercroft.objects.embedded import Objects

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["keep_arrays", "share_arrays"]

_ARRAYS_MIN = 32 << 10
_PREFIX = "shared:"

_sending: _Sender | None = None
# The :class:`Objects` from which this process receives arrays, by store.
_stores: dict[str, Objects] = {}


class _Sender:
    """The settings for sending arrays, and the :class:`Objects` that store them."""

    def __init__(self, store: str, at_least: int, ttl: Any, writable: bool) -> None:
        self.store, self.at_least, self.writable = store, at_least, writable
        self.objects = _objects(store, ttl)

    def reduce(self, array: Any) -> Any:
        """Return an array's pickle reduction, which refers to the store if the array is large."""
        if array.nbytes < self.at_least or array.dtype.hasobject:
            return array.__reduce__()
        return _take, (self.store, self.objects.put(array), self.writable)


def _objects(store: str, ttl: Any = None) -> Objects:
    return Objects(store, ttl=ttl, prefix=_PREFIX)


def _take(store: str, id: bytes, writable: bool) -> Any:
    """Return a received array, removing it from the store."""
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
    """Send this process's pickled arrays through a store from now on.

    ``store`` is a name, path or URL, which the receivers open as well. Arrays of fewer than
    ``at_least`` bytes are pickled as usual. A received array is a read-only view of the store, or a
    copy if ``writable`` is true. It is removed from the store when it is received, so a message
    must not be unpickled twice. An array that is never received expires after ``ttl`` seconds.

    A forked child process inherits the setting. A spawned child process must call this function
    itself, as in ``ProcessPoolExecutor(initializer=share_arrays, initargs=(store,))``. Another call
    replaces the settings. :func:`keep_arrays` ends the sharing.
    """
    global _sending
    import numpy

    _sending = _Sender(store, at_least, ttl, writable)
    ForkingPickler.register(numpy.ndarray, _reduce)


def keep_arrays() -> None:
    """Stop sending arrays through a store, undoing :func:`share_arrays`."""
    global _sending
    _sending = None
