"""The queue of one connection: encodes commands, and passes replies to calls in order.

The native module, if available, does each step in one call. Its class has the same methods
(``clients/python/src/wire/line.rs``) and sets ordinary replies as results of calls by itself.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError

from undercroft.asyncio.multiplexing.call import Batch
from undercroft.connection import CLOSED, LINE, SETS
from undercroft.resp import MISSING, Packer, Push, Reader

if TYPE_CHECKING:
    from undercroft.asyncio.multiplexing.call import Call

_NOW = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


class Line:
    """Commands waiting to be written, and calls waiting for their replies in order."""

    def __init__(self, packer: Packer, reader: Reader) -> None:
        """Create an empty queue."""
        self._packer = packer
        self._reader = reader
        self._gathered: list[bytes] = []
        self._calls: deque[tuple[Call | Batch, bool]] = deque()
        # Whether the first call's reply has been returned to the reader or is being read.
        self._is_taken = False
        # The error from decoding the first call's reply.
        self._undecodable: UnicodeDecodeError | None = None
        self._is_closed = False
        # A duplicate of the peer's socket, which closing the transport leaves open.
        self._socket: socket.socket | None = None

    def __len__(self) -> int:
        """Return the number of waiting calls."""
        return len(self._calls)

    def put(
        self, call: Call, args: tuple[Any, ...], decode: bool = True, _callbacks: Any = None
    ) -> None:
        """Queue a command for the next write, and its call for the reply."""
        self._put(self._packer.pack(*args), (call, decode))

    def put_many(self, batch: Batch, commands: list[tuple[Any, ...]]) -> None:
        """Queue several commands and their batch; after an error none are queued."""
        self._put(self._packer.pack_many(commands), (batch, True))

    def _put(self, pieces: list[bytes], waits: tuple[Call | Batch, bool]) -> None:
        """Queue encoded commands together with their call or batch.

        The interpreter handles no signal and collects no garbage between these two steps, so no
        other command can come between them.
        """
        gathered, calls = self._gathered, self._calls
        if self._is_closed:
            raise ConnectionError(CLOSED)
        gathered += pieces
        calls.append(waits)

    def attach(self, descriptor: int) -> None:
        """Make ``send`` use the socket with an open descriptor."""
        if self._is_closed:
            raise ConnectionError(CLOSED)
        self._socket = socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM)

    def send(self) -> bytes:
        """Send the queued commands, and return the bytes that the socket did not accept.

        Without an attached socket it returns all of them.
        """
        leaving, sent = self.gathered(), 0
        if leaving and self._socket is not None:
            # Sending the remaining bytes reports the error again.
            with contextlib.suppress(OSError):
                sent = self._socket.send(leaving, _NOW)
        return leaving[sent:]

    def gathered(self) -> bytes:
        """Return the queued commands' bytes, and clear the queue."""
        leaving = b"".join(self._gathered)
        self._gathered.clear()
        return leaving

    def receive(self, data: bytes, woken: list[Call]) -> tuple[Call | Batch | None, Any] | None:
        """Add received bytes, and return the first reply or message as `answer` does."""
        self._reader.feed(data)
        return self.answer(woken)

    def answer(self, _woken: list[Call]) -> tuple[Call | Batch | None, Any] | None:
        """Return the next call or batch and its reply; None if no complete reply has arrived.

        The call stays first in the queue until the next reply is requested. It is ``None`` for a
        message, and for a reply that matches no request. The native class sets ordinary replies as
        results of calls by itself, and adds calls with a waiter to the list.
        """
        if self._is_taken:
            self._calls.popleft()
            self._is_taken = False
        if not self._calls:
            reply = self._reply(decode=True)
            return None if reply is MISSING else (None, reply)
        first, decode = self._calls[0]
        # Set first, so that after an exception no call gets the reply to another call's command.
        self._is_taken = True
        while (reply := self._reply(decode)) is not MISSING:
            if type(reply) is Push:
                self._is_taken = False
                return None, reply
            if type(first) is not Batch:
                return first, reply
            first.replies.append(reply)
            if len(first.replies) == first.missing:
                return first, first.replies
        self._is_taken = False
        return None

    def _reply(self, decode: bool) -> Any:
        """Return the next reply or message, or the error for a reply that cannot be decoded."""
        reader = self._reader
        try:
            reply = reader.gets(decode and self._undecodable is None)
        except UnicodeDecodeError as error:
            if not reader.is_push():
                self._undecodable = error
            reply = reader.gets(False)
        if self._undecodable is not None and reply is not MISSING and type(reply) is not Push:
            reply, self._undecodable = self._undecodable, None
        return reply

    @property
    def missing(self) -> int:
        """The number of bytes still missing from a partly received string."""
        return self._reader.missing

    def calls(self) -> list[Call | Batch]:
        """Return the waiting calls in order."""
        return [call for call, _ in self._calls]

    @property
    def first(self) -> Call | Batch | None:
        """The first waiting call."""
        return self._calls[0][0] if self._calls else None

    @property
    def taken(self) -> Call | Batch | None:
        """The first waiting call if its reply has been returned, or else None."""
        return self.first if self._is_taken else None

    def close(self) -> list[Call | Batch]:
        """Reject further commands and discard unsent ones; return the waiting calls."""
        self._is_closed, self._is_taken = True, False
        if self._socket is not None:
            self._socket.close()
        self._gathered.clear()
        calls = [call for call, _ in self._calls]
        self._calls.clear()
        return calls


def make_line(encoder: Any, error: Any) -> Any:
    """Return a queue for a connection; ``error`` creates exceptions from error replies."""
    text = encoder.encoding, encoder.encoding_errors
    if LINE is not None:
        return LINE(error, encoder.decode_responses, *text, SETS)
    encoding = encoder.encoding if encoder.decode_responses else None
    reader = Reader(encoding, encoder.encoding_errors, error, SETS)
    return Line(Packer(*text, encoder.encode), reader)
