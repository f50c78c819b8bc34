"""Tests that remote clients behave the same in pure Python, without the native module."""

import os
import subprocess
import sys
from pathlib import Path


def test_servers_can_be_used_in_pure_python() -> None:
    tests = Path(__file__).parents[1]
    files = [tests / "remote/test_remote.py", tests / "asyncio/test_asyncio.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env={**os.environ, "UNDERCROFT_PURE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
