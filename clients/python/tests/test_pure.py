"""Without the native module the clients of servers do the same, in pure Python."""

import os
import subprocess
import sys
from pathlib import Path


def test_servers_can_be_used_in_pure_python() -> None:
    files = [Path(__file__).with_name(name) for name in ("test_remote.py", "test_asyncio.py")]
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
