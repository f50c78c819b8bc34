"""Tasks for a Celery worker: where they are queued and where results go, two variables say.

    undercroft serve --store undercroft://queue --port 6379 &
    celery --app tasks worker &
    python tasks.py

Queues lie in a store that is served, because workers wait for them by the Redis protocol;
results lie in a store in shared memory, which programs and workers open themselves.
"""

import os

from celery import Celery, chord, group  # type: ignore[import-untyped]

app = Celery(
    "tasks",
    broker=os.environ.get("QUEUE", "redis://localhost:6379/0"),
    backend=os.environ.get("RESULTS", "undercroft://results"),
)


@app.task(name="tasks.length")
def length(text: str) -> int:
    """Return how long a text is."""
    return len(text)


@app.task(name="tasks.total")
def total(numbers: list[int]) -> int:
    """Return the sum of numbers."""
    return sum(numbers)


@app.task(name="tasks.fail")
def fail() -> None:
    """Fail."""
    raise ValueError("as it was asked to")


def main() -> None:
    """Give the worker something to do, and show what came of it."""
    print("one:", length.delay("undercroft").get())
    words = ["lists", "sets", "hashes"]
    print("many:", group(length.s(word) for word in words)().get())
    print("and then:", chord((length.s(word) for word in words), total.s())().get())
    try:
        fail.delay().get()
    except ValueError as error:
        print("failed:", error)


if __name__ == "__main__":
    main()
