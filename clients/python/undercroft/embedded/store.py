"""The store client that does not need redis-py, and its pipelines."""

from __future__ import annotations

from undercroft._native import Client, Queue
from undercroft.embedded.address import DEFAULT_STORE, TYPE_CHECKING, told
from undercroft.embedded.taking import Taking
from undercroft.extensions.caches import Caches
from undercroft.extensions.feed import EmbeddedFeeds, PipelineFeeds
from undercroft.frameworks.green import adapt, is_patched

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any, Self

    from undercroft.extensions.feed import Convert, Words


class Pipeline(Queue, PipelineFeeds):
    """A queue of commands that :meth:`execute` runs together.

    The pipeline has the store's methods, each of which queues a command.
    """

    def __init__(self, store: Store, transaction: bool) -> None:  # noqa: ARG002
        """Create an empty pipeline."""
        self._transaction = transaction
        # The functions that convert replies, by the command's index in the queue.
        self._converts: dict[int, Convert] = {}

    def command(self, *words: Any) -> Self:
        """Queue any command, passed as separate words."""
        self._add(words, {}, None)
        return self

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run all queued commands and return their results.

        The first error is raised. With ``raise_on_error=False``, the list contains the errors
        instead.
        """
        taken: list[Any] = []
        try:
            try:
                if not len(self):
                    return []
                results, failed = self._run(self._transaction, taken)  # type: ignore[misc]
                if type(results) is not list:
                    raise results
                if failed is not None and raise_on_error:
                    # Raise the error instead of returning the other commands' results.
                    taken.clear()
                    raise results[failed]
                for place, convert in self._converts.items():
                    if not isinstance(results[place], Exception):
                        results[place] = convert(results[place])
                return results
            finally:
                self._forget()
        except BaseException:
            self._give_back(taken)
            raise

    def __enter__(self) -> Self:
        """Return the pipeline."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Discard the commands that have not been executed."""
        self._forget()

    def _forget(self) -> None:
        self._clear()
        self._converts.clear()

    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any:  # noqa: ARG002
        if convert is not None:
            self._converts[len(self)] = convert
        return self.command(*words)


class Store(Taking, Client, EmbeddedFeeds, Caches):
    """A client that does not need redis-py, for a store in shared memory.

    Its methods for keys have the same names, arguments and results as those of
    :class:`undercroft.Redis`. Unsupported arguments raise ``TypeError``. :meth:`execute` runs any
    other command.

    All errors derive from :class:`undercroft.StoreError`. :class:`undercroft.CommandError` carries
    Redis' error reply. :class:`undercroft.BusyError` means that another process has held a lock for
    ``timeout`` seconds without making progress. :class:`undercroft.UnavailableError` means that the
    store cannot be opened or was removed.

    The arguments are those of :class:`undercroft.EmbeddedRedis`. One object can be used by several
    threads, and after a fork.
    """

    def __new__(
        cls,
        store: str | os.PathLike[str] = DEFAULT_STORE,
        db: int = 0,
        *,
        decode_responses: bool = False,
        encoding: str = "utf-8",
        encoding_errors: str = "strict",
        capacity: int | str | None = None,
        maxmemory: int | str | None = None,
        maxmemory_policy: str | None = None,
        strict: bool = False,
        on_removed: str = "reopen",
        durability: str | None = None,
        journal: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        client_name: str | None = None,
    ) -> Self:
        """Open the store, creating it if it does not exist."""
        settings = told(
            store,
            {
                "db": db,
                "decode_responses": decode_responses,
                "encoding": encoding,
                "encoding_errors": encoding_errors,
                "capacity": capacity,
                "maxmemory": maxmemory,
                "maxmemory_policy": maxmemory_policy,
                "strict": strict,
                "on_removed": on_removed,
                "durability": durability,
                "journal": journal,
                "timeout": timeout,
                "client_name": client_name,
            },
            tuple,
        )
        self = super().__new__(cls, **settings)
        if is_patched():
            adapt(self)
        return self

    def execute(self, *words: Any, decode: bool = True) -> Any:
        """Run any command, passed as separate words, and return its reply without conversion.

        With ``decode=False``, strings in the reply are bytes, whatever the client's settings are.
        """
        taken: list[Any] = []
        try:
            return self._execute(words, {} if decode else {"NEVER_DECODE": True}, taken)[0]
        except BaseException:
            self._give_back(taken)
            raise

    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any:
        taken: list[Any] = []
        try:
            reply = self._execute(words, {"NEVER_DECODE": True} if raw else {}, taken)[0]
            return reply if convert is None else convert(reply)
        except BaseException:
            self._give_back(taken)
            raise

    def scan_iter(
        self, match: str | bytes | None = None, count: int = 1000, _type: str | None = None
    ) -> Iterator[Any]:
        """Iterate over all matching keys, requesting about ``count`` keys at a time."""
        words = [*(("MATCH", match) if match is not None else ()), "COUNT", count]
        words += ("TYPE", _type) if _type is not None else ()
        cursor: Any = 0
        while True:
            cursor, keys = self.execute("SCAN", cursor, *words)
            yield from keys
            if int(cursor) == 0:
                return

    def pipeline(self, transaction: bool = True) -> Pipeline:
        """Return a pipeline: a queue of commands that run together.

        With ``transaction`` the commands are applied atomically.
        """
        return Pipeline(self, transaction)

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

    def __repr__(self) -> str:
        """Return a string with the store's path and the database."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        return f"<{kind}({str(self.path)!r}, db={self.db})>"
