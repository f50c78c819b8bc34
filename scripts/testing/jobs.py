"""The jobs of `make test` and `make soak`, which are programs that exit with 0 if they pass."""

import json
import os
import random
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = str(ROOT / ".venv/bin/python")
PYTHON_TESTS = "clients/python/tests"
# The entire workspace is compiled once, and every job uses the results in target/debug. The
# features are the union of what the jobs need: fail points and interrupted reads are compiled in,
# but inactive unless a test activates them.
FEATURES = "undercroft/full,undercroft-c/races,undercroft-python/races"
TARGETS = ["--workspace", "--lib", "--bins", "--examples", "--tests"]
BUILD = ["cargo", "build", *TARGETS, "--locked", "--features", FEATURES]

# Packages whose tests are not repeated with a rollback of each write's first run (W10), because
# they are below the engine or open no store.
NOT_RERUN_PACKAGES = (
    "undercroft-bench",
    "undercroft-memory",
    "undercroft-testkit",
    "undercroft-tidy",
)
# Tests that fail if writes run twice, because they count runs or steps, or check local variables.
NOT_RERUN = (
    "work_of_",
    "death_at_every_undo_log_step",
    "removing_or_moving_a_list_takes_the_same_steps_at_any_length",
    "sorted_set_moves_to_an_arena_however_it_was_filled",
    "kept_locals::",
)
RERUN_IN_PYTHON = (
    "asyncio/asyncio_store",
    "embedded/blocking",
    "embedded/client",
    "embedded/feeds",
    "embedded/like_redis",
    "embedded/lock",
    "embedded/pipeline",
    "embedded/pubsub",
    "embedded/rows",
    "embedded/store",
    "robustness/interrupted",
)

# The Rust test programs of the soak, which depend on a seed or on timing. CI has time for about
# half of the soak, and always runs the first programs.
SOAK = (
    "undercroft-engine/crash_steps",
    "undercroft-testkit/crash_instructions",
    "undercroft-testkit/crash_journal",
    "undercroft-testkit/crash_storm",
    "undercroft-testkit/crash_messages",
    "undercroft/caches",
    "undercroft-commands/judged",
    "undercroft-commands/races",
    "undercroft-commands/torn",
    "undercroft-conformance/differential",
    "undercroft-conformance/killed",
    "undercroft-conformance/torture",
    "undercroft-engine/crash_copies",
    "undercroft-engine/durable",
    "undercroft-engine/messages",
    "undercroft-engine/streams",
    "undercroft-engine/through_log",
    "undercroft-fuzz/brief",
    "undercroft-memory/copying",
    "undercroft-memory/death",
    "undercroft-memory/journal",
    "undercroft-memory/ring",
    "undercroft-memory/survival",
    "undercroft-memory/through_log",
    "undercroft-scripts/store",
    "undercroft-server/crash_reads",
)
SOAK_IN_PYTHON = (
    "embedded/channels",
    "robustness/forks",
    "robustness/storm",
    "robustness/taking",
    "robustness/taking_pipelines",
)
# The number of jobs into which the Python client's tests are divided.
PARTS = 4

# The duration of each job in seconds on two cores, as measured by `--write-times`. Long jobs start
# first, and `--quick` and the soak choose jobs that fit into the available time.
TIMES = Path(__file__).parent / "times.json"


@dataclass(frozen=True)
class Job:
    """A program that runs tests."""

    stage: str
    """The name of the job's line in the summary: rust, reruns, python ..."""
    name: str
    command: list[str]
    directory: Path = ROOT
    variables: dict[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    """Prefixes of the paths that the job tests, relative to the root."""

    @property
    def title(self) -> str:
        """Return the job's stage and name, which together are unique."""
        return self.stage if self.name == self.stage else f"{self.stage} {self.name}"

    @property
    def log(self) -> Path:
        """Return the path of the job's log."""
        return ROOT / "target/test" / f"{self.title.replace(' ', '-').replace('/', '-')}.log"


def compiled() -> list[dict[str, Any]]:
    """Compile the workspace, and return cargo's messages about the test programs."""
    command = [*BUILD, "--message-format=json-render-diagnostics"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as cargo:
        assert cargo.stdout is not None
        messages = [json.loads(line) for line in cargo.stdout]
    if cargo.returncode:
        raise SystemExit("error: the workspace does not compile")
    return [m for m in messages if m.get("executable") and m["profile"]["test"]]


def programs(messages: Iterable[dict[str, Any]]) -> list[Job]:
    """Return one job for each Rust test program."""
    found = []
    for message in messages:
        manifest = Path(message["manifest_path"])
        package = tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["name"]
        kind = message["target"]["kind"][0]
        name = f"{package}/{message['target']['name'] if kind == 'test' else kind}"
        command = [message["executable"], "--show-output"]
        place = manifest.parent
        variables = {"CARGO_MANIFEST_DIR": str(place)}
        found.append(Job("rust", name, command, place, variables, (f"{place.relative_to(ROOT)}/",)))
    return found


def reruns(rust: Iterable[Job]) -> list[Job]:
    """Return the Rust test programs to repeat with a rollback of each write's first run (W10)."""
    sources = "".join(file.read_text(encoding="utf-8") for file in ROOT.glob("crates/**/*.rs"))
    for test in NOT_RERUN:
        name = f"mod {test[:-2]};" if test.endswith("::") else f"fn {test}"
        if name not in sources:
            raise SystemExit(f"error: scripts/testing/jobs.py: NOT_RERUN names no test: {test}")
    skipped = [f"--skip={test}" for test in NOT_RERUN]
    return [
        replace(
            job,
            stage="reruns",
            command=[*job.command, *skipped],
            variables=job.variables | {"UNDERCROFT_RERUN": "1"},
        )
        for job in rust
        if job.name.partition("/")[0] not in NOT_RERUN_PACKAGES
    ]


def script(stage: str, *sources: str) -> Job:
    """Return the job that runs the script named after its stage."""
    return Job(stage, stage, [f"scripts/{stage}.sh"], sources=sources)


def file_of(test: str) -> str:
    """Return the path of a Python client test, given its folder and subject."""
    folder, subject = test.split("/")
    return f"{PYTHON_TESTS}/{folder}/test_{subject}.py"


def python() -> list[Job]:
    """Return the jobs of the Python client, and of programs written in Python."""
    client = "clients/python/"
    pytest = [PYTHON, "-m", "pytest"]
    again = [*pytest, "-p", "no:cacheprovider"]
    again += [file_of(test) for test in RERUN_IN_PYTHON]
    stubtest = [
        PYTHON,
        "-m",
        "mypy.stubtest",
        "--allowlist",
        str(ROOT / "scripts/testing/stubs.allow"),
    ]
    stubs = [*stubtest, "undercroft"]
    generated = [PYTHON, "clients/python/tools/stubs.py", "--check"]
    # Divide the files among jobs, so that these tests do not finish long after the other jobs.
    found = sorted((ROOT / PYTHON_TESTS).rglob("test_*.py"))
    files = [str(file.relative_to(ROOT)) for file in found]
    parts = [files[first::PARTS] for first in range(PARTS)]
    return [
        *(
            Job("python", f"{number} of {PARTS}", [*pytest, *part], sources=(client,))
            for number, part in enumerate(parts, 1)
        ),
        Job("reruns", "python", again, variables={"UNDERCROFT_RERUN": "1"}, sources=(client,)),
        # Run outside the repository's root, whose mypy settings apply to the check of sources.
        Job("stubs", "stubs", stubs, ROOT / "target/test", {"MYPYPATH": ""}, (client,)),
        Job("stubs", "generated stubs", generated, sources=(client,)),
        Job(
            "readme",
            "readme",
            [PYTHON, "scripts/testing/readme.py"],
            sources=("docs/", "README.md"),
        ),
        Job("forum", "forum", [*pytest, "examples/forum"], sources=("examples/",)),
        Job("oldest", "oldest", ["scripts/testing/oldest.sh"], sources=(client,)),
    ]


def through(client: str, *bridge: str) -> Job:
    """Return the job that runs the conformance cases through a client."""
    conform = str(ROOT / "target/debug/conform")
    command = [conform, "through", f"conformance/clients/{client}.txt", *bridge]
    return Job("cases", client, command, sources=(f"clients/{client}/", "conformance/"))


def every(messages: Iterable[dict[str, Any]]) -> list[Job]:
    """Return all jobs of `make test`."""
    rust = programs(messages)
    samples = ["cargo", "test", "--doc", "--workspace", "--locked", "--features", FEATURES]
    return [
        *rust,
        Job("rust", "documentation", samples, sources=("clients/rust/",)),
        *reruns(rust),
        *python(),
        through("rust", str(ROOT / "target/debug/examples/bridge")),
        through("python", PYTHON, "clients/python/tests/bridge.py"),
        script("c", "clients/c/"),
        script("php", "clients/php/"),
        script("loom", "crates/memory/"),
        script("programs", "conformance/programs/"),
    ]


def soak(messages: Iterable[dict[str, Any]]) -> list[Job]:
    """Return all jobs of `make soak`, each of which runs longer than in `make test`."""
    long = {"UNDERCROFT_CRASH": "soak"}
    scripts = (("packaging/wheel.sh",), ("sanitize.sh",), ("c.sh", "storm"), ("php.sh", "storm"))
    tests = [
        Job("soak", Path(name).stem, [f"scripts/{name}", *arguments], variables=long)
        for name, *arguments in scripts
    ]
    rust = {job.name: job for job in programs(messages)}
    tests += [
        replace(rust[name], stage="soak", variables=rust[name].variables | long) for name in SOAK
    ]
    for test in SOAK_IN_PYTHON:
        command = [PYTHON, "-m", "pytest", "-rA", "--timeout=0"]
        command += ["-p", "no:cacheprovider", file_of(test)]
        tests.append(Job("soak", f"python/{Path(test).name}", command, variables=long))
    return tests


@cache
def commit() -> str:
    """Return the hash of the checked-out commit."""
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def seeded(job: Job, turn: int = 0) -> Job:
    """Return a job with a seed, unless the caller's environment sets a seed.

    The seed is random, except in CI, where the commit, the job and its turn determine it, so that a
    failure is repeatable. Tests that choose a seed print it, but an abort loses that output.
    """
    if "UNDERCROFT_SEED" in os.environ:
        return job
    source = random.Random(f"{commit()} {job.title} {turn}" if "CI" in os.environ else None)
    seed = str(source.randrange(1, 1 << 30))
    return replace(job, variables=job.variables | {"UNDERCROFT_SEED": seed})


def named(some: list[Job], text: str) -> list[Job]:
    """Return the jobs of the stage with this name, or else the jobs whose title contains it."""
    return [job for job in some if job.stage == text] or [job for job in some if text in job.title]


def changed() -> set[str]:
    """Return the files that differ from the last commit, or if none differ, that commit's files."""

    def output(*words: str) -> set[str]:
        git = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return set(git.stdout.split())

    now = output("diff", "--name-only", "HEAD")
    now |= output("ls-files", "--others", "--exclude-standard")
    return now or output("diff", "--name-only", "HEAD~1", "HEAD")


def times() -> dict[str, float]:
    """Return the recorded durations in seconds of all jobs except the shortest."""
    measured: dict[str, float] = json.loads(TIMES.read_text(encoding="utf-8"))
    return measured


def write_times(measured: dict[str, float]) -> None:
    """Record the durations of the measured jobs in seconds, and preserve those of other jobs."""
    known = times() | {title: round(seconds) for title, seconds in measured.items()}
    known = {title: seconds for title, seconds in known.items() if seconds > 0}
    TIMES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))
