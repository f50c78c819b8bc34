# What the scripts beside this file, and in folders below, share. It is sourced, never run.
# shellcheck shell=bash

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# The README promises target/release/undercroft and .venv/bin/python, so neither
# place follows the caller's environment.
export CARGO_TARGET_DIR="$root/target"
export VIRTUAL_ENV="$root/.venv"
# PyO3 asks an interpreter for its version; always ask the one the tests use.
export PYO3_PYTHON="$VIRTUAL_ENV/bin/python"

say() { printf '== %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Says what is left out and why. scripts/test.sh repeats these lines at its end.
skip() {
    mkdir -p target/test
    printf 'skipped: %s\n' "$*" | tee -a target/test/skipped.log
}

have() { command -v "$1" >/dev/null 2>&1; }

# Compiles all that tests need into target/debug, unless `make test` has done so.
built() { [[ ${UNDERCROFT_BUILT:-} ]] || scripts/test.sh --build; }

# Whether the interpreter of .venv imports the package, from outside the
# repository so that no directory of ours can be mistaken for it.
imports_undercroft() {
    (cd / && "$VIRTUAL_ENV/bin/python" -c 'import undercroft') >/dev/null 2>&1
}
