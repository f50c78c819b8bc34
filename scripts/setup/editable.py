"""Installs the Python package into this interpreter's environment, with a module built by cargo.

``editable.py MODULE`` does what ``maturin develop`` does, but compiles nothing. One run of cargo
can therefore build the native module together with everything else. The package's other files stay
in ``clients/python``, and changes there take effect immediately.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients/python"


def put_module(module: Path) -> None:
    """Copy the module to the package. Processes that have loaded the previous module keep it."""
    place = CLIENT / "undercroft/_native.abi3.so"
    draft = place.with_suffix(f".{os.getpid()}")
    shutil.copy2(module, draft)
    draft.rename(place)


def wheel(directory: Path) -> Path:
    """Create a wheel with the package's metadata and a path to its files."""
    maturin = Path(sys.executable).with_name("maturin")
    metadata = directory / "metadata"
    write = [maturin, "pep517", "write-dist-info", "--metadata-directory", metadata]
    command = [*map(str, write), "--manifest-path", str(CLIENT / "Cargo.toml")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    files = {"undercroft.pth": f"{CLIENT}\n"}
    for path in sorted(metadata.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(metadata))] = path.read_text(encoding="utf-8")
    (info,) = {name.partition("/")[0] for name in files if ".dist-info/" in name}
    record = f"{info}/RECORD"
    files[record] = "".join(f"{name},,\n" for name in [*files, record])
    made = directory / f"{info.removesuffix('.dist-info')}-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made


def main() -> int:
    """Install the module that is named on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: scripts/setup/editable.py target/release/libundercroft_python.so",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("module", type=Path, metavar="MODULE")
    put_module(parser.parse_args().module)
    with tempfile.TemporaryDirectory() as directory:
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run(
            [sys.executable, *install, "--force-reinstall", str(wheel(Path(directory)))], check=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
