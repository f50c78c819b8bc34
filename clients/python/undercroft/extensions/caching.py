"""Cached functions, whose results are computed by one caller at a time.

A caller that finds no result acquires the result's lease, which is a separate key, and computes the
result while other callers wait. In a store in this process the engine manages leases: a holder that
dies loses its lease immediately. On a server a lease is set only if it is missing (NX) and expires
(PX), and a script compares it before it stores a result.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import math
import os
import random
import secrets
import threading
import time
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from undercroft._native import (
    LEASE_SCRIPT,
    Client,
    Locked,
    close_cached,
    decoding,
    end_lease,
    find_cached,
    lease_key,
    open_cached,
    take_lease,
    wait_for_lease,
)
from undercroft.frameworks.green import is_patched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Found = tuple[bytes, bool]
    Taken = tuple[bytes, bytes | None]
    Key = str | Callable[..., str | bytes] | None

# The initial and maximum number of seconds between a waiter's checks, on a server or in an event
# loop.
_FIRST = 0.001
_LAST = 0.05
# Types whose repr is the same in every process and identifies the value.
_PLAIN = frozenset((str, bytes, int, float, bool, type(None)))


def _native(client: Any) -> Client | None:
    """Return a client's native client, which may be the client itself; None for servers."""
    found = client if isinstance(client, Client) else getattr(client, "store", None)
    return found if isinstance(found, Client) else None


class _Text:
    """A serializer for bytes and text, which it returns as the client's ``get`` does."""

    def __init__(self, encoding: str, errors: str, decodes: bool) -> None:
        self._encoding, self._errors, self._decodes = encoding, errors, decodes

    def dumps(self, value: Any) -> bytes:
        if isinstance(value, str):
            return value.encode(self._encoding, self._errors)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        kind = type(value).__name__
        raise TypeError(
            f"expected a result of bytes or str, got {kind}; set a serializer for other types"
        )

    def loads(self, stored: bytes) -> Any:
        return stored.decode(self._encoding, self._errors) if self._decodes else stored


class _Json:
    """A serializer for values that JSON can represent."""

    def dumps(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def loads(self, stored: bytes) -> Any:
        return json.loads(stored)


def _serializer(client: Any, asked: Any) -> Any:
    """Return the serializer for an option, which is its name or the serializer itself."""
    if asked is None:
        native = _native(client)
        if native is not None:
            return _Text(*decoding(native))
        encoder = client.get_encoder()
        return _Text(encoder.encoding, encoder.encoding_errors, encoder.decode_responses)
    if asked == "json":
        return _Json()
    if asked == "pickle":
        import pickle

        return pickle
    if callable(getattr(asked, "dumps", None)) and callable(getattr(asked, "loads", None)):
        return asked
    raise ValueError(
        "expected 'json', 'pickle' or an object with dumps and loads as the serializer, got "
        f"{asked!r}"
    )


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not (0 <= seconds < 1e12):
        raise ValueError(f"expected 0 or more seconds as {name}, got {value!r}")
    return seconds


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or (type(value) is tuple and all(map(_is_plain, value)))


class Cached:
    """The options of a cached function and the logic that all kinds of clients share."""

    def __init__(
        self,
        function: Callable[..., Any],
        client: Any,
        ttl: float | timedelta | None,
        stale: float | timedelta,
        early: float,
        key: Key,
        serializer: Any,
        lease: float | timedelta,
        wait: float | timedelta,
    ) -> None:
        """Check the options."""
        self.client = client
        self.serializer = _serializer(client, serializer)
        ttl_seconds = None if ttl is None else _seconds("ttl", ttl)
        kept = _seconds("stale", stale)
        if ttl_seconds is None and (kept or early):
            raise ValueError("expected a ttl together with stale or early, got none")
        if ttl_seconds is not None and ttl_seconds < 0.001:
            raise ValueError(f"expected a ttl of at least one millisecond, got {ttl!r}")
        if not early >= 0:
            raise ValueError(f"expected early to be 0, 1 or another positive number, got {early!r}")
        self.early = early
        self.fresh = 0 if ttl_seconds is None else int(ttl_seconds * 1000)
        self.expires = self.fresh + int(kept * 1000)
        self.is_refreshed = bool(kept or early)
        self.term = max(1, int(_seconds("lease", lease) * 1000))
        self.wait = _seconds("wait", wait)
        self._key = key
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._signature = inspect.signature(function) if isinstance(key, str) else None
        self._place = _identity(client)

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the key of the result for these arguments."""
        asked = self._key
        if asked is None:
            named = tuple(sorted(kwargs.items())) if kwargs else ()
            if not (_is_plain(args) and _is_plain(named)):
                odd = next(value for value in (*args, *kwargs.values()) if not _is_plain(value))
                raise TypeError(
                    "expected arguments of plain types to build the key, got "
                    f"{type(odd).__name__}; pass key= to the decorator"
                )
            # surrogatepass, because strings in the arguments may contain lone surrogates.
            return f"{self._name}{args!r}{named or ''!r}".encode("utf-8", "surrogatepass")
        made = self._formatted(args, kwargs) if isinstance(asked, str) else asked(*args, **kwargs)
        return made.encode() if isinstance(made, str) else made

    def _formatted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the formatted key, which is equal for positional and keyword arguments."""
        assert isinstance(self._key, str)
        assert self._signature is not None
        # For invalid arguments, bind raises the same error as a call to the function.
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = dict(bound.arguments)
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                named |= named.pop(parameter.name)
        # Positional fields refer to all arguments, including omitted arguments, whose values are
        # the defaults.
        try:
            return self._key.format(*bound.args, **named)
        except (KeyError, IndexError) as error:
            raise TypeError(
                f"expected names or positions of parameters of {self._name}{self._signature} in "
                "the "
                f"key {self._key!r}, got {{{error.args[0] if error.args else ''}}}"
            ) from None

    @contextlib.contextmanager
    def computing(self, key: bytes, owner: Any) -> Iterator[None]:
        """Record the owner of a computation while it runs."""
        place = self._place, key
        _COMPUTING[place] = owner
        try:
            yield
        finally:
            # A child that was forked in the meantime has no entry.
            _COMPUTING.pop(place, None)

    def expect_other(self, key: bytes, owners: Sequence[Any]) -> None:
        """Raise RecursionError if the caller would wait for a value that it is computing itself."""
        if _COMPUTING.get((self._place, key)) in owners:
            raise RecursionError(
                f"{self._name} requests the key {key!r}, which its own caller is computing, and "
                "would wait for itself forever: call the function without its cache "
                "(__wrapped__) or give the inner call another key"
            )

    def haste(self) -> float:
        """Return a random factor for early recomputation.

        Its distribution follows Vattani, Chierichetti, Lowenstein, VLDB 2015.
        """
        return self.early * -math.log(1.0 - random.random()) if self.early else 0.0

    def opened(self, stored: bytes | None, haste: float) -> Found | None:
        """Return a cached value without its header, and whether the value is due."""
        return None if stored is None else open_cached(stored, now(), haste)

    def closed(self, value: bytes, took: float) -> bytes:
        """Return the bytes to store for a value that took ``took`` seconds to compute."""
        return close_cached(value, now() + self.fresh if self.is_refreshed else 0, took)

    def stored_by(self, key: bytes, lease: bytes, value: bytes, took: float) -> tuple[Any, ...]:
        """Return the command that stores a value on a server and releases its lease."""
        return *self.released_by(key, lease), self.closed(value, took), self.expires

    def taken_by(self, key: bytes, lease: bytes) -> tuple[Any, ...]:
        """Return the command that acquires a lease on a server."""
        return "SET", lease_key(key), lease, "PX", self.term, "NX"

    def released_by(self, key: bytes, lease: bytes) -> tuple[Any, ...]:
        """Return the command that releases a lease on a server."""
        return "EVAL", LEASE_SCRIPT, 2, key, lease_key(key), lease

    def too_late(self) -> Exception:
        """Return the exception to raise if a caller waits too long for a value."""
        text = f"another caller has been computing the value for more than {self.wait} seconds"
        native = _native(self.client)
        if native is not None:
            return native._busy(text)
        from redis.exceptions import TimeoutError as RedisTimeoutError

        return RedisTimeoutError(text)


# The owner of each computation in this process: a thread's id or a task's owner object.
_COMPUTING: dict[tuple[Any, bytes], Any] = {}

# The owners of the computations that enclose a task, including those of the task that started it.
_AROUND: ContextVar[tuple[object, ...]] = ContextVar("undercroft_computations", default=())


@contextlib.contextmanager
def _around() -> Iterator[object]:
    """Yield a new owner for a computation, which tasks started by the computation inherit."""
    owner = object()
    token = _AROUND.set((*_AROUND.get(), owner))
    try:
        yield owner
    finally:
        _AROUND.reset(token)


# In a forked child these entries are copies of computations that continue in the parent.
os.register_at_fork(after_in_child=_COMPUTING.clear)


def _identity(client: Any) -> Any:
    """Return a value that is equal for two clients if both access the same keys."""
    native = _native(client)
    if native is not None:
        return str(native.path), native.db
    pool = getattr(client, "connection_pool", None)
    settings = getattr(pool, "connection_kwargs", None)
    if not settings:
        return id(client)
    return tuple(str(settings.get(name)) for name in ("host", "port", "path", "db"))


def now() -> int:
    """Return the Unix time in milliseconds."""
    return int(time.time() * 1000)


def number() -> int:
    """Return a random number that identifies a lease."""
    return secrets.randbits(64)


class _Pause:
    """A waiter's backoff between checks."""

    def __init__(self, wait: float) -> None:
        self._until = time.monotonic() + wait
        self._pause = _FIRST

    def left(self) -> float:
        return self._until - time.monotonic()

    def next(self) -> float:
        """Return the seconds to sleep, with jitter so that waiters do not check simultaneously."""
        pause, self._pause = self._pause, min(2 * self._pause, _LAST)
        return min(pause * (1 + random.random()) / 2, max(0.0, self.left()))


class InStore:
    """Cached results in a store in this process."""

    def __init__(self, cached: Cached, client: Client) -> None:
        """Create the cache of a function for a client."""
        self.cached, self.client = cached, client

    def find(self, key: bytes, haste: float) -> Found | None:
        """Return the cached value and whether it is due, or None."""
        return find_cached(self.client, key, now(), haste)

    def take(self, key: bytes) -> Taken | None:
        """Acquire the lease; return it with the current value, or None if it is held elsewhere."""
        return take_lease(self.client, key, self.cached.term, number())

    def store(self, key: bytes, lease: bytes, value: bytes, took: float) -> None:
        """Store a value if the lease is still valid, and release the lease."""
        stored = self.cached.closed(value, took)
        end_lease(self.client, key, lease, stored, self.cached.expires)

    def release(self, key: bytes, lease: bytes) -> None:
        """Release the lease."""
        end_lease(self.client, key, lease)

    def pause(self, key: bytes, pause: _Pause) -> None:
        """Wait until the lease is free."""
        if is_patched():
            time.sleep(pause.next())
        else:
            wait_for_lease(self.client, key, pause.left())


class OnServer:
    """Cached results on a server."""

    def __init__(self, cached: Cached, client: Any) -> None:
        """Create the cache of a function for a client."""
        self.cached, self.client = cached, client

    def find(self, key: bytes, haste: float) -> Found | None:
        """Return the cached value and whether it is due, or None."""
        stored = self.client.execute_command("GET", key, NEVER_DECODE=True)
        return self.cached.opened(stored, haste)

    def take(self, key: bytes) -> Taken | None:
        """Acquire the lease; return it with the current value, or None if it is held elsewhere."""
        lease = secrets.token_hex(16).encode()
        if not self.client.execute_command(*self.cached.taken_by(key, lease)):
            return None
        return lease, self.client.execute_command("GET", key, NEVER_DECODE=True)

    def store(self, key: bytes, lease: bytes, value: bytes, took: float) -> None:
        """Store a value if the lease is still valid, and release the lease."""
        self.client.execute_command(*self.cached.stored_by(key, lease, value, took))

    def release(self, key: bytes, lease: bytes) -> None:
        """Release the lease."""
        self.client.execute_command(*self.cached.released_by(key, lease))

    def pause(self, key: bytes, pause: _Pause) -> None:  # noqa: ARG002
        """Sleep until the next check."""
        time.sleep(pause.next())


def decorated(client: Any, function: Callable[..., Any], *options: Any) -> Any:
    """Return a version of a function or coroutine function with cached results."""
    cached = Cached(function, client, *options)
    # Only asyncio clients have the method `aclose`.
    is_async, is_coroutine = hasattr(client, "aclose"), inspect.iscoroutinefunction(function)
    if is_coroutine and not is_async:
        raise TypeError(
            "expected a function, got a coroutine function: use a client of undercroft.asyncio "
            "for those"
        )
    if is_async and not is_coroutine:
        raise TypeError(
            "expected a coroutine function, got another function: use a client of undercroft "
            "for those"
        )
    return _in_loop(cached, function) if is_async else _in_place(cached, function)


def _in_place(cached: Cached, function: Callable[..., Any]) -> Callable[..., Any]:
    client = cached.client
    place: Any = InStore(cached, client) if isinstance(client, Client) else OnServer(cached, client)
    loads, dumps = cached.serializer.loads, cached.serializer.dumps

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        key, haste = cached.key(args, kwargs), cached.haste()
        found = place.find(key, haste)
        if found is not None and not found[1]:
            return loads(found[0])
        pause = _Pause(cached.wait)
        while (taken := place.take(key)) is None:
            if found is not None:
                return loads(found[0])
            cached.expect_other(key, [threading.get_ident()])
            if pause.left() <= 0:
                raise cached.too_late()
            place.pause(key, pause)
            found = place.find(key, haste)
            if found is not None and not found[1]:
                return loads(found[0])
        lease, there = taken
        try:
            # Another caller may have stored the result just before this one acquired the lease.
            found = cached.opened(there, haste)
            if found is not None and not found[1]:
                place.release(key, lease)
                return loads(found[0])
            begun = time.monotonic()
            with cached.computing(key, threading.get_ident()):
                value = dumps(function(*args, **kwargs))
            place.store(key, lease, value, time.monotonic() - begun)
        except BaseException:
            # An error during the release must not replace the original exception.
            with contextlib.suppress(Exception):
                place.release(key, lease)
            raise
        return loads(value)

    def forget(*args: Any, **kwargs: Any) -> bool:
        """Remove the cached result for these arguments; return whether it existed."""
        return bool(client.delete(cached.key(args, kwargs)))

    made: Any = wrapper
    made.forget, made.cache_key = forget, lambda *args, **kwargs: cached.key(args, kwargs)
    return wrapper


class InAsyncStore:
    """Cached results in a store in this process, for an event loop."""

    def __init__(self, cached: Cached, client: Any) -> None:
        """Create the cache of a function for a client."""
        from undercroft.embedded.async_retries import parked

        self.sync, self.client, self._parked = InStore(cached, client.store), client.store, parked

    async def _do(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except Locked as refused:
            return await self._parked(self.client, refused, call, *args)

    async def find(self, key: bytes, haste: float) -> Found | None:
        """Return the cached value and whether it is due, or None."""
        found: Found | None = await self._do(self.sync.find, key, haste)
        return found

    async def take(self, key: bytes) -> Taken | None:
        """Acquire the lease; return it with the current value, or None if it is held elsewhere."""
        taken: Taken | None = await self._do(self.sync.take, key)
        return taken

    async def store(self, key: bytes, lease: bytes, value: bytes, took: float) -> None:
        """Store a value if the lease is still valid, and release the lease."""
        await self._do(self.sync.store, key, lease, value, took)

    async def release(self, key: bytes, lease: bytes) -> None:
        """Release the lease."""
        await self._do(self.sync.release, key, lease)


class OnAsyncServer:
    """Cached results on a server, for an event loop."""

    def __init__(self, cached: Cached, client: Any) -> None:
        """Create the cache of a function for a client."""
        self.cached, self.client = cached, client

    async def find(self, key: bytes, haste: float) -> Found | None:
        """Return the cached value and whether it is due, or None."""
        stored = await self.client.execute_command("GET", key, NEVER_DECODE=True)
        return self.cached.opened(stored, haste)

    async def take(self, key: bytes) -> Taken | None:
        """Acquire the lease; return it with the current value, or None if it is held elsewhere."""
        lease = secrets.token_hex(16).encode()
        try:
            if not await self.client.execute_command(*self.cached.taken_by(key, lease)):
                return None
            return lease, await self.client.execute_command("GET", key, NEVER_DECODE=True)
        except asyncio.CancelledError:
            # The server may have granted the lease even though the call was cancelled.
            await asyncio.shield(self.release(key, lease))
            raise

    async def store(self, key: bytes, lease: bytes, value: bytes, took: float) -> None:
        """Store a value if the lease is still valid, and release the lease."""
        await self.client.execute_command(*self.cached.stored_by(key, lease, value, took))

    async def release(self, key: bytes, lease: bytes) -> None:
        """Release the lease."""
        await self.client.execute_command(*self.cached.released_by(key, lease))


def _in_loop(cached: Cached, function: Callable[..., Any]) -> Callable[..., Any]:
    client = cached.client
    embedded = _native(client) is not None
    place: Any = InAsyncStore(cached, client) if embedded else OnAsyncServer(cached, client)
    loads, dumps = cached.serializer.loads, cached.serializer.dumps

    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        key, haste = cached.key(args, kwargs), cached.haste()
        found = await place.find(key, haste)
        if found is not None and not found[1]:
            return loads(found[0])
        pause = _Pause(cached.wait)
        while (taken := await place.take(key)) is None:
            if found is not None:
                return loads(found[0])
            cached.expect_other(key, _AROUND.get())
            if pause.left() <= 0:
                raise cached.too_late()
            await asyncio.sleep(pause.next())
            found = await place.find(key, haste)
            if found is not None and not found[1]:
                return loads(found[0])
        lease, there = taken
        try:
            found = cached.opened(there, haste)
            if found is not None and not found[1]:
                await place.release(key, lease)
                return loads(found[0])
            begun = time.monotonic()
            with _around() as owner, cached.computing(key, owner):
                value = dumps(await function(*args, **kwargs))
            await place.store(key, lease, value, time.monotonic() - begun)
        except BaseException:
            # The task may be cancelled again, and an error during the release must not replace the
            # original exception.
            with contextlib.suppress(Exception):
                await asyncio.shield(place.release(key, lease))
            raise
        return loads(value)

    async def forget(*args: Any, **kwargs: Any) -> bool:
        """Remove the cached result for these arguments; return whether it existed."""
        return bool(await client.delete(cached.key(args, kwargs)))

    made: Any = wrapper
    made.forget, made.cache_key = forget, lambda *args, **kwargs: cached.key(args, kwargs)
    return wrapper
