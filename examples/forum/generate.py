"""Fills the forum with any number of threads, which depend only on the seed."""

import itertools
import time

import numpy as np
from boards import BOARDS, DIGITS, Board, Forum

CHUNK = 10_000
DAY = 86_400.0

SUBJECTS = (
    *("my bicycle", "the kitchen tap", "a stubborn printer", "our allotment", "an old radio"),
    *("sourdough", "the night train", "a second-hand piano", "rain in the cellar"),
    *("my first pull request", "tomato plants", "the neighbour's cat", "a broken zip"),
    *("the family archive", "a map of the coast", "woollen jumpers", "the village choir"),
    *("an unlabelled key", "the attic window", "a slow laptop", "wild garlic"),
)
QUESTIONS = (
    *("How do I repair {0}?", "What would you do about {0}?", "Is anybody else waiting for {0}?"),
    *("Three things I learnt from {0}", "Please look at {0}", "A question about {0} and {1}"),
    *("I gave up on {0}. Then came {1}", "Where to begin with {0}?", "The trouble with {0}"),
    *("Photographs of {0}", "{0}: a summary after one year", "Can {0} be combined with {1}?"),
)
NAMES = (
    *("Ada", "Bo", "Chidi", "Dana", "Emre", "Fenja", "Goran", "Hana", "Ines", "Jun", "Kaja"),
    *("Lior", "Maren", "Nils", "Oona", "Pilar", "Quinn", "Rosa", "Sami", "Tove", "Umar", "Vera"),
    *("Wim", "Ximena", "Yara", "Zoe"),
)
OPENINGS = (
    "I have been at it since the weekend and would be glad of any advice.",
    "Nothing here is urgent, but I keep thinking about it.",
    "The usual remedies did not help, so I ask before I make it worse.",
    "Posting this for whoever searches for it next year.",
)


def titles() -> list[str]:
    """Return all possible titles."""
    found = [
        question.format(one, other)
        for question in QUESTIONS
        for one, other in itertools.permutations(SUBJECTS, 2)
    ]
    return [title[0].upper() + title[1:] for title in found]


def opening_of(number: int) -> str:
    """Return the first post of a generated thread, which is not in the store."""
    return OPENINGS[number % len(OPENINGS)]


def fill_board(forum: Forum, board: Board, count: int, seed: int) -> None:
    """Add threads to a board, newest first, and hide a few as a moderator does."""
    chance = np.random.default_rng([seed, BOARDS.index(board)])
    now, all_titles, feed = time.time(), titles(), forum.feed(board)
    last = int(forum.r.incrby("numbers", count))
    first = last - count + 1
    for start in range(first, last + 1, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, last + 1))
        many = len(numbers)
        # Distribute the threads over ten years.
        times = now - 120 - 3_650 * DAY * ((numbers - first) / count) ** 1.5
        replies = np.minimum(chance.pareto(0.9, many), 4_000)
        with forum.r.pipeline(transaction=False) as pipe:
            for number, title, name, reply, moment in zip(
                numbers.tolist(),
                chance.integers(len(all_titles), size=many).tolist(),
                chance.integers(len(NAMES), size=many).tolist(),
                replies.astype(int).tolist(),
                times.astype(int).tolist(),
                strict=True,
            ):
                facts = {"title": all_titles[title], "author": NAMES[name]}
                facts |= {"replies": reply, "time": moment}
                pipe.hset(f"thread:{number}", mapping=facts)
            pipe.execute()
        # Few threads are pinned or locked; many are solved.
        shares = (min(0.01, 4 / count), 0.02, 0.4)
        marks = np.stack([chance.random(many) < share for share in shares], axis=1)
        values = np.char.zfill(numbers.astype(f"S{DIGITS}"), DIGITS)
        # Append after the existing threads, because the newest thread is first.
        feed.add_many(-1, values, marks)
        hidden = values[chance.random(many) < 0.001].tolist()
        feed.hide(*hidden, bytes(values[-1]))


def fill(forum: Forum, threads: int, seed: int = 1) -> None:
    """Create the boards, with ``threads`` threads in the largest board."""
    forum.create()
    for board in BOARDS:
        fill_board(forum, board, max(1, int(threads * board.share)), seed)
