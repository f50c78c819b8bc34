"""Runs functions in forked children, whose exit status reports whether they succeeded."""

import os
from collections.abc import Callable


def fork(work: Callable[[], None]) -> int:
    """Run a function in a forked child; return the child's process id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def status_of(child: int) -> int:
    """Wait for a child to exit; return its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(work: Callable[[], None]) -> int:
    """Run a function in a forked child; return the child's exit status."""
    return status_of(fork(work))
