"""redis-py's PubSub, which reads from shared memory instead of a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.client import PubSub as RemotePubSub

from undercroft._native import Subscription
from undercroft.frameworks.green import read

if TYPE_CHECKING:
    from undercroft.embedded.client import EmbeddedRedis


class PubSub(RemotePubSub):
    """A subscriber to messages, with redis-py's methods.

    If messages are overwritten before they are read, the subscriber receives a message of type
    ``lost``, whose data is their number. ``lost`` counts all overwritten messages. In a forked
    child the copy becomes a separate subscriber to the same channels.
    """

    _native: Subscription | None = None

    def __init__(
        self,
        client: EmbeddedRedis,
        shard_hint: str | None = None,
        ignore_subscribe_messages: bool = False,
        push_handler_func: Any = None,
    ) -> None:
        """Create a subscriber without subscriptions."""
        self._client = client
        super().__init__(
            connection_pool=None,
            shard_hint=shard_hint,
            ignore_subscribe_messages=ignore_subscribe_messages,
            encoder=client.get_encoder(),
            push_handler_func=push_handler_func,
        )

    def reset(self) -> None:
        """Unsubscribe from all channels. A thread that waits for a message gets an exception."""
        native, self._native = self._native, None
        if native is not None:
            native.close()
        super().reset()

    def _receiver(self) -> Subscription:
        if self._native is None:
            raise RuntimeError(
                "pubsub connection not set: did you forget to call subscribe() or psubscribe()?"
            )
        return self._native

    def execute_command(self, *args: Any) -> None:
        """Run a command such as SUBSCRIBE."""
        if self._native is None:
            self._native = Subscription(self._client)
        self._native.command(args)

    def check_health(self) -> None:
        """Do nothing, because there is no connection that could fail."""

    def parse_response(self, block: bool = True, timeout: float = 0) -> Any:
        """Return the next response, waiting until the timeout."""
        return read(self._receiver(), None if block else timeout)

    def handle_message(self, response: Any, ignore_subscribe_messages: bool = False) -> Any:
        """Return a message as a dictionary, or pass it to its handler."""
        if response is not None and response[0] in (b"lost", "lost"):
            return {"type": "lost", "pattern": None, "channel": None, "data": response[2]}
        return super().handle_message(  # type: ignore[no-untyped-call]
            response, ignore_subscribe_messages
        )

    @property
    def lost(self) -> int:
        """The number of messages that were overwritten before they were read."""
        return 0 if self._native is None else self._native.lost

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when messages may have arrived.

        It also becomes readable ten times a second. Whenever it is readable, call ``get_message()``
        until that returns ``None``.
        """
        return self._receiver().fileno()
