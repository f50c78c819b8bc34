"""Commands and calls of one connection: packed and put in line, and answered in order.

Native code does this in one step each where there is some; it has the class with the same methods
(``clients/python/src/wire/line.rs``), and gives usual replies to their calls by itself.
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
    """Commands that wait to be written, and calls that wait for the replies in order."""

    def __init__(self, packer: Packer, reader: Reader) -> None:
        """Begin with nothing."""
        self._packer = packer
        self._reader = reader
        self._gathered: list[bytes] = []
        self._calls: deque[tuple[Call | Batch, bool]] = deque()
        # Whether the first call's reply has been given to who asked for what comes, or is being.
        self._is_taken = False
        # Why the reply to the first call is not decoded, against its caller's wish.
        self._undecodable: UnicodeDecodeError | None = None
        self._is_closed = False
        # The peer's socket, for itself alone: whoever closes a transport does not close this.
        self._socket: socket.socket | None = None

    def __len__(self) -> int:
        """Return how many calls wait."""
        return len(self._calls)

    def put(
        self, call: Call, args: tuple[Any, ...], decode: bool = True, _callbacks: Any = None
    ) -> None:
        """Put a command behind those that leave next, and its call in line."""
        self._put(self._packer.pack(*args), (call, decode))

    def put_many(self, batch: Batch, commands: list[tuple[Any, ...]]) -> None:
        """Put several commands there, all or, after an error, none."""
        self._put(self._packer.pack_many(commands), (batch, True))

    def _put(self, pieces: list[bytes], waits: tuple[Call | Batch, bool]) -> None:
        """Do both.

        No other command comes between: the interpreter looks neither for signals nor for garbage
        from the one to the other.
        """
        gathered, calls = self._gathered, self._calls
        if self._is_closed:
            raise ConnectionError(CLOSED)
        gathered += pieces
        calls.append(waits)

    def attach(self, descriptor: int) -> None:
        """Let ``send`` use a socket, given as the number of a descriptor that is open."""
        if self._is_closed:
            raise ConnectionError(CLOSED)
        self._socket = socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM)

    def send(self) -> bytes:
        """Send the commands that leave now, and return what the socket does not take.

        That is all of them where none is attached.
        """
        leaving, sent = self.gathered(), 0
        if leaving and self._socket is not None:
            # Whoever sends the rest meets the error again.
            with contextlib.suppress(OSError):
                sent = self._socket.send(leaving, _NOW)
        return leaving[sent:]

    def gathered(self) -> bytes:
        """Return the commands that leave now."""
        leaving = b"".join(self._gathered)
        self._gathered.clear()
        return leaving

    def receive(self, data: bytes, woken: list[Call]) -> tuple[Call | Batch | None, Any] | None:
        """Take bytes that came, and return what is the first in them."""
        self._reader.feed(data)
        return self.answer(woken)

    def answer(self, _woken: list[Call]) -> tuple[Call | Batch | None, Any] | None:
        """Return what comes next, and the call or batch that it is for.

        That keeps its place in line until it is asked for the next. It is ``None`` where a message
        came, or a reply to nobody. The native class gives usual replies to calls without asking
        anybody, and adds those for which somebody waits to the list.
        """
        if self._is_taken:
            self._calls.popleft()
            self._is_taken = False
        if not self._calls:
            reply = self._reply(decode=True)
            return None if reply is MISSING else (None, reply)
        first, decode = self._calls[0]
        # Whoever raises something in between, nobody is to have the reply to another's command.
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
        """How many bytes of a string that has begun are announced, and have not come."""
        return self._reader.missing

    def calls(self) -> list[Call | Batch]:
        """Return the calls in line."""
        return [call for call, _ in self._calls]

    @property
    def first(self) -> Call | Batch | None:
        """The first in line."""
        return self._calls[0][0] if self._calls else None

    @property
    def taken(self) -> Call | Batch | None:
        """The same, if its reply was given last."""
        return self.first if self._is_taken else None

    def close(self) -> list[Call | Batch]:
        """Take no more commands, and forget what has not left; return the calls in line."""
        self._is_closed, self._is_taken = True, False
        if self._socket is not None:
            self._socket.close()
        self._gathered.clear()
        calls = [call for call, _ in self._calls]
        self._calls.clear()
        return calls


def make_line(encoder: Any, error: Any) -> Any:
    """Return a line for a connection with this encoder; ``error`` makes exceptions of texts."""
    text = encoder.encoding, encoder.encoding_errors
    if LINE is not None:
        return LINE(error, encoder.decode_responses, *text, SETS)
    encoding = encoder.encoding if encoder.decode_responses else None
    reader = Reader(encoding, encoder.encoding_errors, error, SETS)
    return Line(Packer(*text, encoder.encode), reader)
