"""The asyncio store client that does not need redis-py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undercroft._native import waits
from undercroft.embedded.async_native import Native
from undercroft.embedded.async_retries import patiently
from undercroft.embedded.store import Store as SyncStore

if TYPE_CHECKING:
    from undercroft.extensions.feed import Convert, Words


class Store(Native):
    """An asyncio client that does not need redis-py, for a store in shared memory.

    The class accepts the arguments of :class:`undercroft.Store` and has its methods as coroutines,
    which finish without returning to the event loop. If another process holds a lock for longer
    than a millisecond, the call yields to other tasks and retries for up to ``timeout`` seconds.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Open the store, creating it if it does not exist."""
        self._use(SyncStore(*args, **options))

    async def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any:
        reply = await self.execute(*words, decode=not raw)
        return reply if convert is None else convert(reply)

    async def execute(self, *words: Any, decode: bool = True) -> Any:
        """Run any command, passed as separate words, and return its unconverted reply.

        With ``decode=False``, strings in the reply are bytes, whatever the client's settings are.
        """
        taken: list[Any] = []
        store = self.store
        try:
            if words and waits(words[0]):
                return await self.wait_for(store, words, decode, taken)
            options = {} if decode else {"NEVER_DECODE": True}
            return (await patiently(store, store._execute, words, options, taken))[0]
        except BaseException:
            store._give_back(taken)
            raise
