"""Describe the machine and the versions of all programs."""

import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def first_line(*command: str) -> str | None:
    """Return the first line that a command prints, or None if the command is missing."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return None
    lines = (run.stdout or run.stderr).strip().splitlines()
    return lines[0].strip() if lines else None


def _field(path: str, name: str) -> str:
    match = re.search(rf"^{name}\s*:\s*(.*)$", Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else "unknown"


def describe() -> dict[str, str]:
    """Return the processor, memory, kernel and the load at the start."""
    memory = int(_field("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20)
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "virtual": "yes" if "hypervisor" in _field("/proc/cpuinfo", "flags").split() else "no",
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def versions(binaries: Path) -> dict[str, str]:
    """Return the versions of Undercroft and of every installed peer."""
    found = {
        "undercroft": first_line(str(binaries / "undercroft"), "--version"),
        "commit": first_line("git", "describe", "--always", "--dirty", "--abbrev=10"),
        "python": sys.version.split()[0],
        "rustc": first_line("rustc", "--version"),
        "redis-server": first_line("redis-server", "--version"),
        "redis-benchmark": first_line("redis-benchmark", "--version"),
        "mariadbd": first_line("mariadbd", "--version"),
        "valgrind": first_line("valgrind", "--version"),
    }
    for package in ("redis", "lmdb"):
        try:
            found[f"python {package}"] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[f"python {package}"] = None
    return {name: version or "not installed" for name, version in found.items()}
