# Defines functions and settings for the scripts in this folder and its subfolders, which source
# this file. It is never run on its own.
# shellcheck shell=bash

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# The README promises target/release/undercroft and .venv/bin/python, so both paths must not depend
# on the caller's environment.
export CARGO_TARGET_DIR="$root/target"
export VIRTUAL_ENV="$root/.venv"
# PyO3 queries an interpreter's version, which must be the version that the tests use.
export PYO3_PYTHON="$VIRTUAL_ENV/bin/python"

say() { printf '== %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Prints what is skipped and why. scripts/test.sh repeats these lines at the end.
skip() {
    mkdir -p target/test
    printf 'skipped: %s\n' "$*" | tee -a target/test/skipped.log
}

have() { command -v "$1" >/dev/null 2>&1; }

# Compiles everything that the tests need into target/debug, unless `make test` has already compiled
# it.
built() { [[ ${UNDERCROFT_BUILT:-} ]] || scripts/test.sh --build; }

# Succeeds if the interpreter in .venv can import the package. Runs outside the repository, so that
# Python does not mistake one of its directories for the package.
imports_undercroft() {
    (cd / && "$VIRTUAL_ENV/bin/python" -c 'import undercroft') >/dev/null 2>&1
}
