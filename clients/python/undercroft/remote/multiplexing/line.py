"""The queue of one connection, which encodes commands and passes replies to calls in order.

If the native module is available, each step is one call to it. The native class in
``clients/python/src/wire/line.rs`` has the same methods, and sets ordinary replies as the results
of calls without calling Python.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError

from undercroft.remote.connection import CLOSED, LINE, SETS
from undercroft.remote.multiplexing.call import Batch
from undercroft.remote.resp import MISSING, Packer, Push, Reader

if TYPE_CHECKING:
    from undercroft.remote.multiplexing.call import Call

_NOW = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


class Line:
    """A connection's queues of unsent commands and of calls that wait for replies."""

    def __init__(self, packer: Packer, reader: Reader) -> None:
        """Create an empty queue."""
        self._packer = packer
        self._reader = reader
        self._gathered: list[bytes] = []
        self._calls: deque[tuple[Call | Batch, bool]] = deque()
        # Whether the first call's reply was already returned by `answer`, or is being read.
        self._is_taken = False
        # The error raised while decoding the first call's reply.
        self._undecodable: UnicodeDecodeError | None = None
        self._is_closed = False
        # A duplicate of the transport's socket, which stays open when the transport closes.
        self._socket: socket.socket | None = None

    def __len__(self) -> int:
        """Return the number of waiting calls."""
        return len(self._calls)

    def put(
        self, call: Call, args: tuple[Any, ...], decode: bool = True, _callbacks: Any = None
    ) -> None:
        """Queue a command for the next write, and the call that receives its reply."""
        self._put(self._packer.pack(*args), (call, decode))

    def put_many(self, batch: Batch, commands: list[tuple[Any, ...]]) -> None:
        """Queue several commands and their batch. If an error occurs, no command is queued."""
        self._put(self._packer.pack_many(commands), (batch, True))

    def _put(self, pieces: list[bytes], waits: tuple[Call | Batch, bool]) -> None:
        """Queue encoded commands together with their call or batch.

        The interpreter handles no signals and collects no garbage between these two steps, so no
        other command can be queued between them.
        """
        gathered, calls = self._gathered, self._calls
        if self._is_closed:
            raise ConnectionError(CLOSED)
        gathered += pieces
        calls.append(waits)

    def attach(self, descriptor: int) -> None:
        """Attach the socket with the given descriptor, which `send` then uses."""
        if self._is_closed:
            raise ConnectionError(CLOSED)
        self._socket = socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM)

    def send(self) -> bytes:
        """Send the queued commands, and return the bytes that the socket did not accept.

        Without an attached socket, it returns all queued bytes.
        """
        leaving, sent = self.gathered(), 0
        if leaving and self._socket is not None:
            # Ignore the error, because sending the remaining bytes raises it again.
            with contextlib.suppress(OSError):
                sent = self._socket.send(leaving, _NOW)
        return leaving[sent:]

    def gathered(self) -> bytes:
        """Return the bytes of the queued commands, and clear the queue."""
        leaving = b"".join(self._gathered)
        self._gathered.clear()
        return leaving

    def receive(self, data: bytes, woken: list[Call]) -> tuple[Call | Batch | None, Any] | None:
        """Add received bytes, and return the first reply or message as `answer` does."""
        self._reader.feed(data)
        return self.answer(woken)

    def answer(self, _woken: list[Call]) -> tuple[Call | Batch | None, Any] | None:
        """Return the next call or batch and its reply, or None if no complete reply has arrived.

        The call stays first in the queue until the next reply is requested. The call is ``None``
        for a message, and for a reply that matches no request. The native class sets ordinary
        replies as results of calls itself, and adds calls with a waiter to the list.
        """
        if self._is_taken:
            self._calls.popleft()
            self._is_taken = False
        if not self._calls:
            reply = self._reply(decode=True)
            return None if reply is MISSING else (None, reply)
        first, decode = self._calls[0]
        # Set the flag first, so that after an exception no call gets the reply to another call's
        # command.
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
        """The number of bytes missing from a partly received string."""
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
        """The first waiting call if `answer` has returned its reply, otherwise None."""
        return self.first if self._is_taken else None

    def close(self) -> list[Call | Batch]:
        """Reject further commands, discard unsent commands, and return the waiting calls."""
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
