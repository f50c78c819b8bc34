"""Makes an object awaitable and closable, like redis-py's asyncio objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType


class Awaited:
    """A mixin for objects that can be entered, awaited and closed like redis-py's objects."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Release the object's resources."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Return the object."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the object."""
        await self.aclose()

    async def _self(self) -> Self:
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        """Return the object."""
        return self._self().__await__()
