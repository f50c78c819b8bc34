"""Provides the seed of a randomized test."""

import os
import random


def drawn_seed() -> int:
    """Return ``UNDERCROFT_SEED`` or a random seed, and print how to repeat the run."""
    given = os.environ.get("UNDERCROFT_SEED")
    seed = int(given) if given else random.randrange(1 << 32)
    print(f"seed {seed}: repeat with UNDERCROFT_SEED={seed}")
    return seed
