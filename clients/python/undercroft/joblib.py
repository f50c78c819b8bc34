"""A joblib backend whose workers receive and return arrays through a store."""

from undercroft.frameworks.joblib import UndercroftBackend, register

__all__ = ["UndercroftBackend", "register"]
