"""The forum's boards, their representation in the store, and the operations on them.

- ``board:<name>`` is a feed of the numbers of the board's threads, each with three attributes. The
  thread with the newest post is first. Any page of any view is one range.
- ``thread:<number>`` is a hash: title, author, number of replies, time of the newest post.
- ``posts:<number>`` is a list of the posts written since the forum was filled.
- ``numbers`` counts the threads of all boards.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import undercroft

DIGITS = 8
# The one-bit attributes of each thread.
MARKS = ("pinned", "locked", "solved")
PER_PAGE = 25
PINNED_SHOWN = 5

Seen = Literal["visible", "hidden"]


@dataclass(frozen=True)
class Board:
    """A board, as readers see it."""

    name: str
    title: str
    about: str
    # The board's share of all generated threads.
    share: float


BOARDS = (
    Board("help", "Help", "Questions, and answers that worked.", 1.0),
    Board("show", "Show your work", "What people have built, large and small.", 0.1),
    Board("meta", "About this forum", "Its rules, its moderators and its faults.", 0.01),
)


@dataclass(frozen=True)
class View:
    """A selection of a board's threads."""

    only: frozenset[str] = frozenset()

    KNOWN = ("pinned", "locked", "solved", "unsolved", "hidden")

    @classmethod
    def of(cls, words: Iterable[str]) -> "View":
        """Return the view for the words in a URL, ignoring unknown words."""
        only = {word for word in words if word in cls.KNOWN}
        if {"solved", "unsolved"} <= only:
            only.remove("unsolved")
        return cls(frozenset(only))

    @property
    def seen(self) -> Seen:
        """Whether the view shows visible or hidden threads."""
        return "hidden" if "hidden" in self.only else "visible"

    @property
    def where(self) -> str | None:
        """The filter, with a condition for each mark that is empty if the mark does not matter."""
        parts = ["1" if mark in self.only else "" for mark in MARKS]
        if "unsolved" in self.only:
            parts[2] = "0"
        return ":".join(parts) if any(parts) else None

    def words(self) -> list[str]:
        """Return the words that represent this view, in a fixed order."""
        return [word for word in self.KNOWN if word in self.only]

    def toggled(self, word: str) -> "View":
        """Return the view with a word added or removed."""
        if word in self.only:
            return View(self.only - {word})
        opposite = {"solved": "unsolved", "unsolved": "solved"}.get(word)
        return View((self.only | {word}) - {opposite} if opposite else self.only | {word})


@dataclass(frozen=True)
class Thread:
    """A thread, with the fields that a list of threads shows."""

    number: int
    title: str
    author: str
    replies: int
    time: float
    marks: frozenset[str]
    hidden: bool = False


@dataclass(frozen=True)
class Post:
    """A post in a thread."""

    author: str
    text: str
    time: float


@dataclass(frozen=True)
class Page:
    """One page of a board."""

    number: int
    pages: int
    total: int
    threads: list[Thread]
    # Pinned threads, shown above the first page of a board.
    pinned: list[Thread]
    # The total duration of the store's operations in seconds.
    took: float


class MissingError(Exception):
    """The thread does not exist."""


class LockedError(Exception):
    """The thread is locked and accepts no posts."""


def value_of(number: int) -> str:
    """Return the value that represents a thread in a feed."""
    return f"{number:0{DIGITS}d}"


class Forum:
    """The boards of one store."""

    def __init__(self, r: undercroft.Redis) -> None:
        """Use a client that decodes replies."""
        self.r = r

    def feed(self, board: Board) -> Any:
        """Return the feed of a board."""
        return self.r.feed(f"board:{board.name}")

    def create(self) -> None:
        """Create the boards, without threads."""
        for board in BOARDS:
            self.feed(board).create(DIGITS, [1 for _ in MARKS])

    def is_there(self) -> bool:
        """Return whether the boards exist."""
        return bool(self.r.exists(*(f"board:{board.name}" for board in BOARDS)) == len(BOARDS))

    def front(self) -> list[tuple[Board, int, Thread | None]]:
        """Return each board with its number of threads and its most recent thread."""
        found = []
        for board in BOARDS:
            newest = self._threads(self.feed(board).range(0, 1, attributes=True))
            found.append((board, self.feed(board).count(), newest[0] if newest else None))
        return found

    def page(self, board: Board, number: int, view: View) -> Page:
        """Return a page of a board, or the last page if the number is too large."""
        feed, where, seen = self.feed(board), view.where, view.seen
        since = time.perf_counter()
        total = feed.count(where=where, seen=seen)
        pages = max(1, -(-total // PER_PAGE))
        number = min(max(1, number), pages)
        start = (number - 1) * PER_PAGE
        items = feed.range(start, PER_PAGE, where=where, seen=seen, attributes=True)
        pinned = []
        if number == 1 and not view.only:
            pinned = feed.range(0, PINNED_SHOWN, where="1::", attributes=True)
        above = {value for value, _ in pinned}
        items = [item for item in items if item[0] not in above]
        threads = self._threads(pinned + items, hidden=seen == "hidden")
        took = time.perf_counter() - since
        return Page(number, pages, total, threads[len(pinned) :], threads[: len(pinned)], took)

    def _threads(
        self, items: list[tuple[str, tuple[int, ...]]], hidden: bool = False
    ) -> list[Thread]:
        """Return the threads for items of a feed."""
        with self.r.pipeline(transaction=False) as pipe:
            for value, _ in items:
                pipe.hgetall(f"thread:{int(value)}")
            facts = pipe.execute() if items else []
        return [
            Thread(
                number=int(value),
                title=known.get("title", "?"),
                author=known.get("author", "?"),
                replies=int(known.get("replies", 0)),
                time=float(known.get("time", 0)),
                marks=frozenset(mark for mark, on in zip(MARKS, bits, strict=True) if on),
                hidden=hidden,
            )
            for (value, bits), known in zip(items, facts, strict=True)
        ]

    def thread(self, board: Board, number: int) -> tuple[Thread, list[Post]]:
        """Return a thread of a board and its posts."""
        feed, value = self.feed(board), value_of(number)
        for seen in ("visible", "hidden"):
            position = feed.position(value, seen=seen)
            if position is not None:
                items = feed.range(position, 1, seen=seen, attributes=True)
                # Check the item, because another reply may have moved the thread in the meantime.
                if items and items[0][0] == value:
                    (thread,) = self._threads(items, hidden=seen == "hidden")
                    posts = self.r.lrange(f"posts:{number}", 0, -1)
                    return thread, [Post(**json.loads(post)) for post in posts]
        raise MissingError

    def start(self, board: Board, title: str, author: str, text: str) -> int:
        """Start a thread at the top of its board, and return its number."""
        number = int(self.r.incr("numbers"))
        now = time.time()
        with self.r.pipeline() as pipe:
            facts = {"title": title, "author": author, "replies": 0, "time": now}
            pipe.hset(f"thread:{number}", mapping=facts)
            pipe.rpush(f"posts:{number}", _post(author, text, now))
            pipe.feed(f"board:{board.name}").add(0, value_of(number))
            pipe.execute()
        return number

    def reply(self, board: Board, number: int, author: str, text: str) -> None:
        """Add a post to a thread, which moves it to the top of its board."""
        thread, _ = self.thread(board, number)
        if "locked" in thread.marks:
            raise LockedError
        now = time.time()
        # Use one transaction, so that no reader sees a moved thread without its new post.
        with self.r.pipeline() as pipe:
            pipe.rpush(f"posts:{number}", _post(author, text, now))
            pipe.hincrby(f"thread:{number}", "replies", 1)
            pipe.hset(f"thread:{number}", "time", str(now))
            pipe.feed(f"board:{board.name}").move(value_of(number), 0)
            pipe.execute()

    def mark(self, board: Board, number: int, mark: str, on: bool) -> None:
        """Set or remove a thread's mark."""
        marks = [int(on) if each == mark else None for each in MARKS]
        if not self.feed(board).set_attributes(value_of(number), marks):
            raise MissingError

    def hide(self, board: Board, number: int, hide: bool) -> None:
        """Hide or show a thread. The threads after it move up or down."""
        feed = self.feed(board)
        (feed.hide if hide else feed.show)(value_of(number))


def _post(author: str, text: str, now: float) -> str:
    return json.dumps({"author": author, "text": text, "time": now})
