"""The asyncio client of a store that needs no redis-py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undercroft._native import waits
from undercroft.asyncio.native import Native
from undercroft.asyncio.waiting.retries import patiently
from undercroft.store import Store as SyncStore

if TYPE_CHECKING:
    from undercroft.extensions.feed import Convert, Words


class Store(Native):
    """A client of a store in shared memory for asyncio, which needs no redis-py.

    It is made with the arguments of :class:`undercroft.Store` and has its methods, each of which is
    done when it is awaited, without a turn of the loop; where another process holds a lock for
    longer than a millisecond other tasks run meanwhile, for up to ``timeout`` seconds.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Open a store, or create it."""
        self._use(SyncStore(*args, **options))

    async def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any:
        reply = await self.execute(*words, decode=not raw)
        return reply if convert is None else convert(reply)

    async def execute(self, *words: Any, decode: bool = True) -> Any:
        """Run any command, given by its words, and return its reply as Redis' protocol has it.

        With ``decode=False`` strings in it are bytes, whatever the client does else.
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
