"""Passes results between the stages of a mosec service through shared memory.

Add the mixin :class:`UndercroftIPCMixin` to the workers in all stages of a service::

    class Preprocess(UndercroftIPCMixin, Worker): ...
    class Inference(UndercroftIPCMixin, Worker): ...
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mosec import Worker

from undercroft.objects.embedded import Objects

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["UndercroftIPCMixin"]

_STORE = "UNDERCROFT_MOSEC_STORE"


class UndercroftIPCMixin(Worker):
    """A worker that sends its result through a store, so that mosec transfers only an id.

    Bytes and arrays arrive as read-only views of the store. Other values are pickled, as in mosec
    itself, with their arrays stored separately from the pickle. A result whose request was
    abandoned is never fetched and expires after :attr:`undercroft_ttl`.
    """

    # : The number of seconds after which a result expires if no stage fetches it.
    undercroft_ttl: float | timedelta = 60

    _undercroft_objects: Objects | None = None

    @classmethod
    def set_undercroft(cls, store: str) -> None:
        """Set the store's name, path or URL. Call this before the server starts its workers."""
        os.environ[_STORE] = store

    def _undercroft(self) -> Objects:
        if self._undercroft_objects is None:
            store = os.environ.get(_STORE) or "undercroft://mosec"
            self._undercroft_objects = Objects(
                store, ttl=self.undercroft_ttl, pickle=True, prefix="mosec:"
            )
        return self._undercroft_objects

    def serialize_ipc(self, data: Any) -> bytes:
        """Store a result and return its id."""
        return self._undercroft().put(data)

    def deserialize_ipc(self, data: bytes) -> Any:
        """Remove the result with the given id from the store and return it."""
        return self._undercroft().take(bytes(data))
