"""Passes results between the stages of a mosec service through shared memory."""

from undercroft.frameworks.mosec import UndercroftIPCMixin

__all__ = ["UndercroftIPCMixin"]
