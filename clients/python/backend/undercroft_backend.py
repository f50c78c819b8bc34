"""Maturin's build backend, which compiles a checkout once for all environments.

The same wheel works with CPython 3.11 and later. A wheel built in a git checkout is cached in
``target/wheels/``. The next ``pip install`` from the same sources uses the cached wheel instead of
compiling again. ``make dist`` and the tests cache their wheels there too. It is safe to delete
``target/`` at any time.

Maturin downloads an entire Rust toolchain if cargo is missing. This backend allows that only with
``UNDERCROFT_FETCH_RUST=1``. Otherwise it fails and reports what is missing.

Run as a program, ``undercroft_backend.py WHEEL`` caches a wheel that was built by other means.
"""

import hashlib
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# The files and directories that a wheel is built from.
SOURCES = ["Cargo.toml", "Cargo.lock", "crates", "clients/python"]
# Prefixes of environment variables that affect the build.
VARIABLES = ("CARGO_BUILD_", "CARGO_ENCODED_RUSTFLAGS", "CARGO_PROFILE_", "MATURIN_", "RUSTFLAGS")
NO_CARGO = """
Compiling undercroft needs cargo, which is not installed, and there is no wheel of these sources.
Do one of these:
- Install a wheel that another machine built: `make dist` writes it to target/dist/.
- Install Rust 1.88 or newer, see https://rustup.rs
- Set UNDERCROFT_FETCH_RUST=1. Then a Rust toolchain is downloaded from static.rust-lang.org to your
  cache folder (~/.cache/puccinialin), about 900 MB.
"""

Settings = Mapping[str, Any] | None


def kept(config_settings: Settings = None) -> Path | None:
    """Return the cache path of the wheel for the current sources, or None if it is unknown."""
    is_abi3 = sys.implementation.name == "cpython" and not sysconfig.get_config_var(
        "Py_GIL_DISABLED"
    )
    is_checkout = (ROOT / ".git").exists() and HERE == ROOT / "clients/python/backend"
    if not is_abi3 or not is_checkout:
        return None
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *SOURCES]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    state = hashlib.sha256()
    names = sorted({os.fsdecode(name) for name in listed.split(b"\0") if name})
    for name in names:
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        state.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape"))
        state.update(content)
    variables = {name: value for name, value in os.environ.items() if name.startswith(VARIABLES)}
    machine = [sysconfig.get_platform(), *platform.libc_ver()]
    circumstances = [machine, sorted(variables.items()), sorted((config_settings or {}).items())]
    state.update(json.dumps(circumstances, default=str).encode())
    return ROOT / "target/wheels" / state.hexdigest()[:32] if names else None


def found(config_settings: Settings = None) -> Path | None:
    """Return the cached wheel for the current sources, or None."""
    place = kept(config_settings)
    return next(place.glob("*.whl"), None) if place is not None else None


def keep(wheel: Path, config_settings: Settings = None) -> None:
    """Cache a wheel for the current sources and remove the wheels for other sources."""
    place = kept(config_settings)
    if place is None or place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    for other in place.parent.iterdir():
        if not other.name.startswith("draft-"):
            shutil.rmtree(other, ignore_errors=True)
    # Move the wheel into place in one step, so that concurrent builds see a complete wheel or none.
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="draft-") as draft:
        whole = Path(draft) / "whole"
        whole.mkdir()
        shutil.copy2(wheel, whole)
        try:
            whole.rename(place)
        except OSError:
            # Ignore the error if a concurrent build has cached the same wheel first.
            if not place.exists():
                raise


def need_cargo() -> None:
    """Fail if cargo is missing and downloading Rust is not permitted."""
    may_fetch = os.environ.get("UNDERCROFT_FETCH_RUST") == "1"
    if shutil.which("cargo") is None and not may_fetch:
        sys.exit(NO_CARGO)


def maturin() -> Any:
    """Return maturin's build backend, which is installed only when needed."""
    return importlib.import_module("maturin")


def requirements() -> list[str]:
    """Return the packages needed for a maturin build."""
    need_cargo()
    # List the packages here, because maturin is not installed yet and cannot report them. It uses
    # puccinialin to download Rust.
    fetched = ["puccinialin"] if shutil.which("cargo") is None else []
    return ["maturin>=1.9,<2", *fetched]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return the packages needed to build a wheel, or none if the wheel is cached."""
    return [] if found(config_settings) else requirements()


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:  # noqa: ARG001
    """Return the packages needed for an editable installation."""
    return requirements()


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:  # noqa: ARG001
    """Return the packages needed to build a source distribution."""
    return requirements()


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Write the wheel's metadata and return the name of its directory."""
    wheel = found(config_settings)
    if wheel is None:
        need_cargo()
        return str(maturin().prepare_metadata_for_build_wheel(metadata_directory, config_settings))
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" in name]
        archive.extractall(metadata_directory, names)
    return names[0].partition("/")[0]


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Write the metadata for an editable installation and return the name of its directory."""
    need_cargo()
    return str(maturin().prepare_metadata_for_build_editable(metadata_directory, config_settings))


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Write a wheel to a directory and return the wheel's file name."""
    wheel = found(config_settings)
    if wheel is not None:
        print(f"using {wheel}, which was built from these sources")
        shutil.copy2(wheel, wheel_directory)
        return wheel.name
    need_cargo()
    name = str(maturin().build_wheel(wheel_directory, config_settings, metadata_directory))
    keep(Path(wheel_directory) / name, config_settings)
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Write the wheel for an editable installation to a directory and return its file name."""
    need_cargo()
    return str(maturin().build_editable(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Write a source distribution to a directory and return the distribution's file name."""
    need_cargo()
    return str(maturin().build_sdist(sdist_directory, config_settings))


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
