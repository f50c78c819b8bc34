"""Tests that installing a checkout compiles it once and downloads Rust only if permitted."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "backend/undercroft_backend.py"
NAME = "undercroft-0.1.0-cp311-abi3-linux_x86_64.whl"


class Checkout:
    """A repository with sources, and a fake maturin that counts the wheels it builds."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.built = 0
        for name in ("Cargo.toml", "Cargo.lock", "crates/engine/src/lib.rs", "README.md"):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        place = root / "clients/python/backend"
        place.mkdir(parents=True)
        shutil.copy(SOURCE, place)
        (root / ".gitignore").write_text("/target/\n")
        subprocess.run(["git", "init", "--quiet", root], check=True)
        self.backend = load(place / SOURCE.name)
        maturin = SimpleNamespace(
            build_wheel=self.build_wheel,
            prepare_metadata_for_build_wheel=lambda *_: "made-by-maturin",
            build_sdist=lambda *_: "made-by-maturin",
        )
        monkeypatch.setitem(sys.modules, "maturin", maturin)

    def build_wheel(self, directory: str, *_: object) -> str:
        self.built += 1
        with zipfile.ZipFile(Path(directory) / NAME, "w") as archive:
            archive.writestr("undercroft/__init__.py", "")
            archive.writestr("undercroft-0.1.0.dist-info/METADATA", f"Build: {self.built}")
        return NAME

    def install(self, place: Path, settings: dict[str, str] | None = None) -> str:
        """Install as pip does, and return the metadata of the installed wheel."""
        metadata, wheels = place / "metadata", place / "wheels"
        for folder in (metadata, wheels):
            folder.mkdir(parents=True, exist_ok=True)
        self.backend.get_requires_for_build_wheel(settings)
        self.backend.prepare_metadata_for_build_wheel(str(metadata), settings)
        name = self.backend.build_wheel(str(wheels), settings, str(metadata))
        with zipfile.ZipFile(wheels / name) as archive:
            return archive.read("undercroft-0.1.0.dist-info/METADATA").decode()


def load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("backend_of_a_checkout", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    for variable in ("UNDERCROFT_FETCH_RUST", "RUSTFLAGS", "GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(variable, raising=False)
    return Checkout(tmp_path / "checkout", monkeypatch)


@pytest.fixture
def without_cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    git = shutil.which("git")
    assert git is not None
    (programs / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(programs))


def test_the_same_sources_are_compiled_once(checkout: Checkout, tmp_path: Path) -> None:
    assert checkout.install(tmp_path / "one") == "Build: 1"
    assert checkout.install(tmp_path / "two") == "Build: 1"
    assert checkout.backend.get_requires_for_build_wheel() == []
    metadata = tmp_path / "two/metadata/undercroft-0.1.0.dist-info/METADATA"
    assert metadata.read_text() == "Build: 1"
    # Changing the README affects neither the tests nor the wheel.
    (checkout.root / "README.md").write_text("other words")
    assert checkout.install(tmp_path / "three") == "Build: 1"
    assert checkout.built == 1


@pytest.mark.parametrize("change", ["tracked", "new", "removed", "variable", "settings"])
def test_other_sources_are_compiled(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    assert checkout.install(tmp_path / "one") == "Build: 1"
    settings = None
    match change:
        case "tracked":
            (checkout.root / "crates/engine/src/lib.rs").write_text("other code")
        case "new":
            (checkout.root / "crates/engine/src/new.rs").write_text("")
        case "removed":
            (checkout.root / "Cargo.lock").unlink()
        case "variable":
            monkeypatch.setenv("RUSTFLAGS", "-Ctarget-cpu=native")
        case "settings":
            settings = {"build-args": "--no-default-features"}
    assert checkout.install(tmp_path / "two", settings) == "Build: 2"
    assert checkout.install(tmp_path / "three", settings) == "Build: 2"
    # Only the newest wheel is cached.
    assert len(list((checkout.root / "target/wheels").rglob("*.whl"))) == 1


def test_a_wheel_built_by_other_means_is_kept(checkout: Checkout, tmp_path: Path) -> None:
    checkout.build_wheel(str(tmp_path))
    program = checkout.root / "clients/python/backend" / SOURCE.name
    subprocess.run([sys.executable, program, tmp_path / NAME], check=True)
    assert checkout.install(tmp_path / "one") == "Build: 1"


def test_sources_without_a_repository_are_compiled_each_time(
    checkout: Checkout, tmp_path: Path
) -> None:
    shutil.rmtree(checkout.root / ".git")
    assert checkout.install(tmp_path / "one") == "Build: 1"
    assert checkout.install(tmp_path / "two") == "Build: 2"


@pytest.mark.usefixtures("without_cargo")
def test_without_cargo_a_kept_wheel_is_installed(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as with_cargo:
        with_cargo.setenv("UNDERCROFT_FETCH_RUST", "1")
        assert checkout.install(tmp_path / "one") == "Build: 1"
    assert checkout.install(tmp_path / "two") == "Build: 1"


@pytest.mark.usefixtures("without_cargo")
def test_no_toolchain_is_fetched_unless_asked(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = checkout.backend
    hooks = [
        backend.get_requires_for_build_wheel,
        backend.get_requires_for_build_editable,
        backend.get_requires_for_build_sdist,
        *(
            lambda hook=hook: hook("folder")
            for hook in (
                backend.prepare_metadata_for_build_wheel,
                backend.prepare_metadata_for_build_editable,
                backend.build_wheel,
                backend.build_editable,
                backend.build_sdist,
            )
        ),
    ]
    for hook in hooks:
        with pytest.raises(SystemExit) as ended:
            hook()
        for words in ("needs cargo", "900 MB", "static.rust-lang.org", "UNDERCROFT_FETCH_RUST=1"):
            assert words in str(ended.value)
    monkeypatch.setenv("UNDERCROFT_FETCH_RUST", "1")
    assert backend.get_requires_for_build_wheel() == ["maturin>=1.9,<2", "puccinialin"]
    assert backend.build_sdist("folder") == "made-by-maturin"
