"""Tasks for a Celery worker. Two variables name the queue and the result store.

    undercroft serve --store undercroft://queue --port 6379 &
    celery --app tasks worker &
    python tasks.py

The queues are in a served store, because workers wait for tasks over the Redis protocol. Results
are in a store in shared memory, which programs and workers open themselves.
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
    """Return the length of a text."""
    return len(text)


@app.task(name="tasks.total")
def total(numbers: list[int]) -> int:
    """Return the sum of numbers."""
    return sum(numbers)


@app.task(name="tasks.fail")
def fail() -> None:
    """Raise an error."""
    raise ValueError("as requested")


def main() -> None:
    """Queue tasks for the worker, and print the results."""
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
