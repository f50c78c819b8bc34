"""redis-py's locks on stores and servers, with waiters that are woken by a release."""

from __future__ import annotations

import hashlib
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError, RedisError
from redis.lock import Lock as RedisLock

from undercroft.frameworks.green import read

if TYPE_CHECKING:
    from collections.abc import Sequence


class Script:
    """One of redis-py's lock scripts, which every store runs natively if it knows the text."""

    def __init__(self, text: str) -> None:
        """Compute the text's digest, by which stores recognize a script."""
        self._text = text
        self._sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, keys: Sequence[Any], args: Sequence[Any], client: Any) -> Any:
        """Run the script."""
        try:
            return client.evalsha(self._sha, len(keys), *keys, *args)
        except NoScriptError:
            # This version of redis-py has another script, which the store runs as Lua.
            return client.eval(self._text, len(keys), *keys, *args)


class AsyncScript(Script):
    """A lock script whose client is asynchronous."""

    async def __call__(self, keys: Sequence[Any], args: Sequence[Any], client: Any) -> Any:
        """Run the script."""
        try:
            return await client.evalsha(self._sha, len(keys), *keys, *args)
        except NoScriptError:
            return await client.eval(self._text, len(keys), *keys, *args)


# The maximum number of seconds to wait for a server to confirm a subscription.
_CONFIRMED = 5.0


def channel(client: Any, name: Any) -> bytes:
    """Return the name of the channel that announces a lock's release."""
    db = getattr(client, "db", None)
    if db is None:
        db = int(client.connection_pool.connection_kwargs.get("db") or 0)
    return b"undercroft:released:%d:%b" % (db, client.get_encoder().encode(name))


class Locks:
    """A mixin that adds ``lock()`` to clients."""

    _lock_class: Any

    def lock(
        self,
        name: str | bytes,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        lock_class: Any = None,
        thread_local: bool = True,
        **options: Any,
    ) -> Any:
        """Return a lock with this name, which accepts the arguments of redis-py's lock."""
        kind: Any = lock_class or self._lock_class
        return kind(self, name, timeout, sleep, blocking, blocking_timeout, thread_local, **options)


def pause(left: float, sleep: float) -> float:
    """Return the seconds to wait for a lock that expires in ``left`` milliseconds.

    As in PTTL, -2 means that the lock no longer exists, and -1 that it does not expire.
    """
    if left == -2:
        return 0.0
    return sleep if left < 0 else min(sleep, (left + 1) / 1000)


def terms(
    lock: Any, token: Any, blocking: bool | None, blocking_timeout: float | None
) -> tuple[bytes, bool, float | None]:
    """Return the token for ``acquire()``, whether to block, and the maximum wait in seconds."""
    return (
        lock.redis.get_encoder().encode(uuid.uuid1().hex if token is None else token),
        lock.blocking if blocking is None else blocking,
        lock.blocking_timeout if blocking_timeout is None else blocking_timeout,
    )


class _Receiver:
    """A subscriber to one channel in a store in this process."""

    def __init__(self, client: Any, channel: bytes) -> None:
        # Import here, because locks on servers do not need the native module.
        from undercroft._native import Subscription

        self._native = Subscription(client)
        self._native.command(("SUBSCRIBE", channel))

    def wait(self, seconds: float) -> None:
        """Wait up to ``seconds`` seconds for a message. Other events can also end the wait."""
        read(self._native, seconds)

    def close(self) -> None:
        """Unsubscribe."""
        self._native.close()


class _RemoteReceiver:
    """A subscriber to one channel on a server, which merely sleeps if it cannot subscribe."""

    def __init__(self, client: Any, channel: bytes) -> None:
        self._messages: Any = client.pubsub()
        try:
            self._messages.subscribe(channel)
            # Wait for the confirmation, after which no release can be missed.
            self._messages.get_message(timeout=_CONFIRMED)
        except RedisError:
            self.close()

    def wait(self, seconds: float) -> None:
        """Wait up to ``seconds`` seconds for a message. Other events can also end the wait."""
        if self._messages is None:
            time.sleep(seconds)
            return
        try:
            self._messages.get_message(timeout=seconds)
        except RedisError:
            self.close()

    def close(self) -> None:
        """Unsubscribe."""
        messages, self._messages = self._messages, None
        if messages is not None:
            with suppress(RedisError):
                messages.close()


class _Woken(RedisLock):
    """redis-py's lock, with waiters that a message wakes when the lock is released.

    If the key is removed without a lock's ``release()``, a waiter notices after at most ``sleep``
    seconds. Waiters notice an expiry immediately.
    """

    # The lock's client: an EmbeddedRedis or a RemoteRedis.
    redis: Any
    lua_release: Any
    _receiver: Any

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: Any = None,
    ) -> bool:
        """Acquire the lock, waiting for it if ``blocking``. Return whether it was acquired."""
        token, blocking, blocking_timeout = terms(self, token, blocking, blocking_timeout)
        try:
            taken = self.do_acquire(token) or (
                blocking
                and self._wait(token, self.sleep if sleep is None else sleep, blocking_timeout)
            )
            if taken:
                self.local.token = token
            return bool(taken)
        except BaseException:
            # A signal handler may have raised after the lock was acquired.
            with suppress(RedisError):
                self.do_release(token)
            raise

    def _wait(self, token: Any, sleep: float, timeout: float | None) -> bool:
        """Wait for a release and acquire the lock. Return whether this succeeded in time."""
        until = None if timeout is None else time.monotonic() + timeout
        if until is not None and until <= time.monotonic():
            return False
        receiver = self._receiver(self.redis, channel(self.redis, self.name))
        try:
            while not self.do_acquire(token):
                seconds = pause(self.redis.pttl(self.name), sleep)
                if until is not None:
                    seconds = min(seconds, until - time.monotonic())
                    if until <= time.monotonic():
                        return False
                if seconds > 0:
                    receiver.wait(seconds)
            return True
        finally:
            receiver.close()

    def do_release(self, expected_token: Any) -> None:
        """Release the lock and wake its waiters."""
        super().do_release(expected_token)
        self.redis.publish(channel(self.redis, self.name), b"")


class Lock(_Woken):
    """A lock in a store in this process, whose scripts are single native calls."""

    lua_release: Any = Script(RedisLock.LUA_RELEASE_SCRIPT)
    lua_extend: Any = Script(RedisLock.LUA_EXTEND_SCRIPT)
    lua_reacquire: Any = Script(RedisLock.LUA_REACQUIRE_SCRIPT)
    _receiver = _Receiver

    def register_scripts(self) -> None:
        """Do nothing: redis-py's scripts keep the first client alive, and with it its store."""


class RemoteLock(_Woken):
    """A lock on a server."""

    _receiver = _RemoteReceiver

    def do_release(self, expected_token: Any) -> None:
        """Release the lock, and wake its waiters if the user is permitted to publish."""
        RedisLock.do_release(self, expected_token)
        with suppress(RedisError):
            self.redis.publish(channel(self.redis, self.name), b"")
