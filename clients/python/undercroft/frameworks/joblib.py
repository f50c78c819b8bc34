"""A joblib backend whose workers receive and return arrays through a store.

After ``undercroft.joblib.register()``::

    with joblib.parallel_config("undercroft", store="undercroft://jobs", n_jobs=4):
        joblib.Parallel()(joblib.delayed(work)(array) for array in arrays)
"""

from __future__ import annotations

import multiprocessing
from typing import Any

from joblib import register_parallel_backend  # type: ignore[import-untyped]
from joblib._parallel_backends import (  # type: ignore[import-untyped]
    AutoBatchingMixin,
    ParallelBackendBase,
    PoolManagerMixin,
)

from undercroft.sharing import keep_arrays, share_arrays

__all__ = ["UndercroftBackend", "register"]


class UndercroftBackend(PoolManagerMixin, AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """A pool of forked workers; :func:`undercroft.sharing.share_arrays` describes ``options``."""

    supports_retrieve_callback = True
    supports_return_generator = True
    supports_sharedmem = False

    def __init__(self, *, store: str = "undercroft://joblib", **options: Any) -> None:
        """Set the store through which arrays are sent."""
        level = options.pop("nesting_level", None)
        inner = options.pop("inner_max_num_threads", None)
        super().__init__(nesting_level=level, inner_max_num_threads=inner)
        self._shared, self._options = store, options

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Start the workers."""
        n_jobs = self.effective_n_jobs(n_jobs)
        share_arrays(self._shared, **self._options)
        self._pool = multiprocessing.get_context("fork").Pool(n_jobs)
        self.parallel = parallel
        return n_jobs

    def terminate(self) -> None:
        """Stop the workers."""
        super().terminate()
        keep_arrays()
        self.reset_batch_stats()


def register() -> None:
    """Register the backend with joblib under the name ``undercroft``."""
    register_parallel_backend("undercroft", UndercroftBackend)
