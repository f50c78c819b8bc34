"""Forked children that do some work and tell by their exit status whether it went well."""

import os
from collections.abc import Callable


def fork(work: Callable[[], None]) -> int:
    """Run some work in a forked child; return its process id."""
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
    """Wait for a child's end; return its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(work: Callable[[], None]) -> int:
    """Run some work in a forked child; return its exit status."""
    return status_of(fork(work))
