"""What the stages of a mosec service hand to each other, in shared memory.

Mix :class:`UndercroftIPCMixin` into the workers of all stages of a service::

    class Preprocess(UndercroftIPCMixin, Worker): ...
    class Inference(UndercroftIPCMixin, Worker): ...
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mosec import Worker

from undercroft.objects import Objects

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["UndercroftIPCMixin"]

_STORE = "UNDERCROFT_MOSEC_STORE"


class UndercroftIPCMixin(Worker):
    """A worker whose result goes to the next stage through a store: mosec passes on the id alone.

    Bytes and arrays come as read-only views of the store, other values as pickles with their
    arrays beside them, as mosec itself hands everything on as pickles. What no stage fetches, as
    its request was given up, goes when :attr:`undercroft_ttl` is over.
    """

    #: How long a result is kept that no stage fetches, in seconds.
    undercroft_ttl: float | timedelta = 60

    _undercroft_objects: Objects | None = None

    @classmethod
    def set_undercroft(cls, store: str) -> None:
        """Say which store it is: a name, path or URL; set before the server runs its workers."""
        os.environ[_STORE] = store

    def _undercroft(self) -> Objects:
        if self._undercroft_objects is None:
            store = os.environ.get(_STORE) or "undercroft://mosec"
            self._undercroft_objects = Objects(
                store, ttl=self.undercroft_ttl, pickle=True, prefix="mosec:"
            )
        return self._undercroft_objects

    def serialize_ipc(self, data: Any) -> bytes:
        """Put a result and return its id."""
        return self._undercroft().put(data)

    def deserialize_ipc(self, data: bytes) -> Any:
        """Take the result with an id."""
        return self._undercroft().take(bytes(data))
