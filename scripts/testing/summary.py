"""Prints the report after the last job."""

import re
from collections import defaultdict

from .jobs import PYTHON, ROOT
from .lanes import Result

# Lines in which a test reports how much it tested.
COUNTED = re.compile(
    r"^(?:tidy|fuzz|crash|storm|damage|differential|cancellation|loom|second tries|C|PHP|programs)"
    r": .*",
    re.MULTILINE,
)
SKIPPED = re.compile(r"^skipped: .*", re.MULTILINE)
RUST = re.compile(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
PYTEST = re.compile(r"^=* ?(.*\b(?:passed|failed)\b.* in [\d.:() hms]+?) ?=*$", re.MULTILINE)
# The beginning of a failure's description.
FAILURE = re.compile(
    r"^(?:failures:$|=+ (?:FAILURES|ERRORS) =+$|There (?:was|were) \d+ (?:failure|error)|error: )",
    re.MULTILINE,
)
LAST_LINES = 60


def _words_of(text: str) -> str:
    """Return the lines of a log that describe the failure, or its last lines."""
    begins = FAILURE.search(text)
    lines = text[begins.start() if begins else 0 :].splitlines()
    return "\n".join(lines if begins and len(lines) < 4 * LAST_LINES else lines[-LAST_LINES:])


def show(results: list[Result], seconds: float, compiling: float) -> None:
    """Print each stage's duration, number of tests and skipped tests, and why jobs failed."""
    print(f"\n== summary, after {seconds:.0f} s")
    stages: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        stages[result.job.stage].append(result)
    print("  stage          jobs  processor      longest")
    print(f"  compile           1             {compiling:8.0f} s")
    for stage, some in sorted(stages.items(), key=lambda item: -sum(r.cpu for r in item[1])):
        longest = max(some, key=lambda result: result.seconds)
        print(
            f"  {stage:<13} {len(some):5}  {sum(r.cpu for r in some):7.0f} s  "
            f"{longest.seconds:8.0f} s  {longest.job.name}"
        )
    passed, failed, ignored = 0, 0, 0
    skipped = set()
    # Read each log once, because a soak runs a job several times and stores only its latest output.
    for result in {result.job.title: result for result in results}.values():
        text = result.job.log.read_text(encoding="utf-8", errors="replace")
        for line in COUNTED.findall(text):
            print(line)
        skipped |= set(SKIPPED.findall(text))
        for found in RUST.findall(text):
            passed, failed, ignored = (
                passed + int(found[0]),
                failed + int(found[1]),
                ignored + int(found[2]),
            )
        if result.job.command[0] == PYTHON:
            for line in PYTEST.findall(text):
                print(f"{result.job.title}: {line}")
    print(f"rust: {passed} passed, {failed} failed, {ignored} ignored")
    earlier = ROOT / "target/test/skipped.log"
    if earlier.exists():
        skipped |= set(earlier.read_text(encoding="utf-8").splitlines())
    print(*sorted(skipped), sep="\n")
    wrong = [result for result in results if not result.passed]
    for result in wrong:
        text = result.job.log.read_text(encoding="utf-8", errors="replace")
        print(f"\n== {result.job.title} failed; its complete output is in {result.job.log}")
        print(_words_of(text))
    if wrong:
        print(f"\nFAILED: {', '.join(result.job.title for result in wrong)}")
    else:
        print("all tests passed")
