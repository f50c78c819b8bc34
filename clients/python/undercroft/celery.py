"""A Celery result backend that stores results in shared memory."""

from undercroft.frameworks.celery import Backend

__all__ = ["Backend"]
